"""What people refused: pull requests closed unmerged, or merged and reverted, as GitHub tells; read-only.

What automation closed itself, because a later run overtook it, is no refusal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agents.manifest.check import unchecked
from agents.texts.variants import Variants
from eval.ledger import remarks
from eval.ledger.decisions import decisions
from eval.ledger.refusals import Refusal, plain_reason, record, refusals
from eval.ledger.remarks import Remark
from meta.publish.kinds import Kind
from meta.pulls.claims import Claim, claims, read
from meta.pulls.hub import Hub, Row
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo

OVERTAKEN: Final = "<!-- ratchet: overtaken -->"  # begins the comment with which automation closes its own
# Pull requests of a branch that are looked at: each was read the night after it was closed.
LATEST: Final = 20
REJECT: Final = "/ratchet reject "
HARVEST: Final = "new_cases"
_CASE: Final = re.compile(r'"id":"([a-z0-9][a-z0-9_.-]{2,79})"')
_TRUSTED: Final = ("OWNER", "MEMBER", "COLLABORATOR")


def look(hub: Hub, repo: Repo, kind: Kind) -> tuple[Row | None, Sequence[Refusal]]:
    """The living pull request of a kind, and what was refused since the last look, which goes on record."""
    if not kind.branch:
        return None, ()
    pulls = hub.get("pulls", head=f"{hub.owner}:{kind.branch}", state="all", per_page=LATEST)
    known = {one.reference for one in refusals(repo)}
    new = [
        one
        for pull in pulls
        if pull["state"] == "closed" and pull["html_url"] not in known
        for one in _refused(hub, repo, kind, pull)
    ]
    if kind.name == HARVEST:
        remarks.record(repo, (said for pull in pulls for said in _said(hub, pull)))
    opened = next((pull for pull in pulls if pull["state"] == "open"), None)
    return opened, record(repo, new)


def _said(hub: Hub, pull: Row) -> Iterator[Remark]:
    """What people who may decide here wrote in reviews, on the lines of cases."""
    for row in hub.every(f"pulls/{pull['number']}/comments"):
        line = str(row.get("diff_hunk") or "").rpartition("\n")[2]
        case = _CASE.search(line[:200])
        if case and row["author_association"] in _TRUSTED and _is_person(row):
            words = plain_reason(row["body"])
            yield Remark(case[1], words, by=row["user"]["login"][:100], reference=row["html_url"])


def claimed(hub: Hub, kind: Kind, pull: Row) -> list[Claim]:
    """What a pull request wants, by the report at its head."""
    return claims(kind.name, read(hub.file(f"{kind.report}.json", pull["head"]["sha"])))


def _refused(hub: Hub, repo: Repo, kind: Kind, pull: Row) -> Iterator[Refusal]:
    wanted = claimed(hub, kind, pull)
    if pull["merged_at"]:
        wanted = [claim for claim in wanted if undone(repo, kind.name, claim)]
        if not wanted or not _in_history(hub, repo, pull):
            return
        who, why = _reverted(hub, pull)
    else:
        author, comments = pull["user"]["login"], list(hub.every(f"issues/{pull['number']}/comments"))
        said = (row["body"] for row in comments if row["user"]["login"] == author)
        if not wanted or any(body.startswith(OVERTAKEN) for body in said):
            return
        who, why = _closed(hub, pull, comments)
    yield from refused(repo, kind.name, wanted, pull["html_url"], who, why)


def refused(
    repo: Repo, kind: str, wanted: Iterable[Claim], where: str, who: str, why: str
) -> Iterator[Refusal]:
    """These claims as refusals; an agent's stands as long as its prompt is what it is now."""
    for claim in wanted:
        beside = claim.champion_sha256 or ("" if claim.sha256 else prompt_of(repo, claim.subject))
        yield Refusal(kind, claim.subject, claim.sha256, beside, where, who[:100], plain_reason(why))


def _closed(hub: Hub, pull: Row, comments: Sequence[Row]) -> tuple[str, str]:
    """Who closed it, and what they, or else another who may decide here, said last."""
    who = str((hub.get(f"issues/{pull['number']}").get("closed_by") or {}).get("login", ""))
    people = [row for row in comments if row["author_association"] in _TRUSTED and _is_person(row)]
    own = [row for row in people if row["user"]["login"] == who] or people
    rejecting = [row for row in own if row["body"].startswith(REJECT)]
    said = (rejecting or own or [{"body": ""}])[-1]
    who = said["user"]["login"] if rejecting else who  # it was closed for them, in their words
    return who, str(said["body"]).removeprefix(REJECT)


def _is_person(row: Row) -> bool:
    return row["user"].get("type") == "User" and not row["body"].startswith("<!-- ratchet")


def _reverted(hub: Hub, pull: Row) -> tuple[str, str]:
    """Who reverted it, and why, by the pull request that GitHub's button opened."""
    branch = f"revert-{pull['number']}-"
    for one in hub.every("pulls", most=100, state="closed"):
        if one["head"]["ref"].startswith(branch) and one["merged_at"]:
            said = str(one.get("body") or "").partition("\n")[2].strip()
            return str(one["user"]["login"]), said or "reverted"
    return "", "reverted"


def _in_history(hub: Hub, repo: Repo, pull: Row) -> bool:
    """Whether this checkout holds the merge: one made since looks as if it had been undone."""
    from telemetry.edge.git import commit_of

    told = hub.get(f"compare/{pull['merge_commit_sha']}...{commit_of(repo.root)}", per_page=1)
    return told["status"] in ("ahead", "identical")


def undone(repo: Repo, kind: str, claim: Claim) -> bool:
    """Whether what was merged is not there any more, without a decision that says so."""
    decided = [one for _, one in decisions(repo)]
    if kind == "ab_champion":
        promoted = any(one.decision == "promote" and one.after_sha256 == claim.sha256 for one in decided)
        return not promoted and live(repo, claim.subject) == claim.champion_sha256
    if kind == "ab_model":
        return not any(one.kind == kind and one.after_sha256 == claim.sha256 for one in decided)
    if kind == "proposals":
        return all(row.sha256 != claim.sha256 for row in Variants(repo, claim.subject).lineage())
    if kind == "retirement_disable":
        return not any(one.decision == "disable" and one.subject == claim.subject for one in decided)
    if kind == HARVEST:  # taken out before it was merged, or after
        return not in_suite(repo, *claim.subject.split("/"))
    return False


def in_suite(repo: Repo, agent: str, case: str) -> bool:
    try:
        return f'"id":"{case}"'.encode() in (repo / _entry(repo, agent)["eval_suite"]).read_bytes()
    except (KeyError, OSError, TypeError):
        return False


def live(repo: Repo, prompt: str) -> str:
    """The hash of the text that is live; empty if there is none."""
    try:
        file = repo / Variants(repo, prompt).live
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except (OSError, BadInput):
        return ""


def prompt_of(repo: Repo, agent: str) -> str:
    """The hash of the prompt that an agent has now; empty if it has none."""
    prompt = _entry(repo, agent).get("prompt")
    return live(repo, prompt) if prompt else ""


def _entry(repo: Repo, agent: str) -> Row:
    """What the manifest says of an agent; nothing where it does not know it."""
    return next((row for row in unchecked(repo.root)["agents"] if row["name"] == agent), {})
