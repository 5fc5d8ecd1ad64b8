"""The local branches of a night, as pull requests are on GitHub: a person's commit stays, and deleting one is a no.

What a night left on a branch is remembered; a branch that is gone without having been merged, or whose merge was
reverted, was refused, and goes on record as on GitHub.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from eval.ledger.refusals import Refusal, record
from meta.publish import kinds
from meta.publish.kinds import Kind
from meta.pulls.claims import Claim, claims, read
from meta.pulls.closed import live, refused, undone
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SCRATCH, Repo, read_again, write_json
from telemetry.edge.git import GitRefused, commit_of, git
from telemetry.edge.records import load_json, plain

LEFT: Final = SCRATCH / "night" / "branches.json"
NAME, MAIL = "Ratchet", "ratchet@localhost"  # who commits on these branches, whoever the author is
COMMITTER: Final = {"GIT_COMMITTER_NAME": NAME, "GIT_COMMITTER_EMAIL": MAIL}


def is_persons(root: Path, branch: str) -> bool:
    """Whether the tip of a branch is a commit that a night did not make."""
    if commit_of(root, f"refs/heads/{branch}") is None:
        return False
    return git(root, "log", "-1", "--format=%ce", f"refs/heads/{branch}").decode().strip() != MAIL


def remember(root: Path, kind: Kind, commit: str, report: bytes) -> None:
    """Keep what a night left on the branch of a kind."""
    wanted = [asdict(claim) for claim in claims(kind.name, read(report))]
    write_json(root / LEFT, _left(root) | {kind.name: {"commit": commit, "claims": wanted}})


def record_refused(repo: Repo) -> list[Refusal]:
    """Put on record what was refused since the last night, and forget those branches."""
    left, new = _left(repo.root), list[Refusal]()
    for name, row in list(left.items()):
        kind = kinds.KINDS.get(name)
        gone = kind is None or commit_of(repo.root, f"refs/heads/{kind.branch}") is None
        if kind and gone:
            wanted = [Claim(**claim) for claim in row["claims"]]
            no = [claim for claim in wanted if _is_refused(repo, kind.name, claim, row["commit"])]
            new += _refusals(repo, kind, no, row["commit"], "")
            if no or not _merged(repo.root, row["commit"]):
                del left[name]  # a merged one may still be reverted
    record(repo, new)
    if left != _left(repo.root):
        write_json(repo / LEFT, left)
    return new


def reject(repo: Repo, kind: Kind, why: str) -> str:
    """Refuse what waits on the branch of a kind, and delete it."""
    row = _left(repo.root).get(kind.name)
    commit = commit_of(repo.root, f"refs/heads/{kind.branch}")
    if row is None or commit is None:
        raise BadInput(f"--kind {kind.name}: no branch {kind.branch} that a night left here")
    new = _refusals(repo, kind, [Claim(**claim) for claim in row["claims"]], row["commit"], why)
    git(repo.root, "branch", "--quiet", "-D", kind.branch)
    added = record(repo, new)
    return f"{kind.branch} is deleted; {len(added)} refused, on record in telemetry/rejections.jsonl."


def _is_refused(repo: Repo, kind: str, claim: Claim, commit: str) -> bool:
    if _merged(repo.root, commit):
        return undone(repo, kind, claim)
    squashed = claim.sha256 and kind == "ab_champion" and live(repo, claim.subject) == claim.sha256
    return not squashed and (kind not in ("proposals", "ab_model", "new_cases") or undone(repo, kind, claim))


def _refusals(repo: Repo, kind: Kind, wanted: list[Claim], commit: str, why: str) -> list[Refusal]:
    return list(refused(repo, kind.name, wanted, f"{kind.branch}@{commit[:12]}", _person(repo.root), why))


def _person(root: Path) -> str:
    try:
        return git(root, "config", "user.name").decode().strip()
    except GitRefused:
        return ""


def _merged(root: Path, commit: str) -> bool:
    try:
        git(root, "merge-base", "--is-ancestor", commit, "HEAD")
    except GitRefused:  # it is not, or the commit is gone
        return False
    return True


def _left(root: Path) -> dict[str, Any]:
    try:
        rows = load_json(read_again(root / LEFT))
        return {
            str(name): {
                "commit": str(row["commit"]),
                "claims": [plain(Claim(**one)) for one in row["claims"]],
            }
            for name, row in rows.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
