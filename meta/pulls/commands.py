"""What people ask for in a comment: `/ratchet reject <why>`, `more`, `allow cost`, `explain <case> [words]`,
`correct <run> <right> [words]`.

The comment is data: one strict pattern over its first line, and what it names is looked up, never run. Whoever may not
write to the repository is not answered beyond saying so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agents.manifest.check import unchecked
from eval.ledger.refusals import Refusal, plain_reason
from eval.ledger.remarks import Remark
from meta.publish.contents import arms
from meta.publish.kinds import KINDS, Kind
from meta.pulls.claims import read
from meta.pulls.closed import claimed, refused
from meta.pulls.hub import Hub, Row
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.text import cell, code, quote, table

WRITERS: Final = ("admin", "maintain", "write")
AB_TEST: Final = "prompt_ab_test.yml"
AB_REPORT: Final = "meta/reports/ab_test_report.json"
ROUNDS: Final = 15  # of a comparison, if the manifest says nothing
_GRAMMAR: Final = re.compile(
    r"/ratchet (?:reject (?P<why>\S.{0,499})|(?P<more>more)|allow (?P<allow>cost)"
    r"|explain (?P<case>[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}(?: .{1,499})?)"
    r"|correct (?P<run>[A-Za-z0-9][A-Za-z0-9._:/-]{2,99} [^\s]{1,300}(?: .{1,499})?))[ \r]*"
)
USAGE: Final = (
    "I know `/ratchet reject <why>`, `/ratchet more`, `/ratchet allow cost`, `/ratchet explain <case> [your words]` "
    "and `/ratchet correct <run> <what it should have named, by commas, or none> [your words]`."
)


@frozen
class Command:
    name: str
    words: str = ""


@frozen
class Answer:
    """What to say, and what to put on record."""

    said: str
    refused: tuple[Refusal, ...] = ()
    remarks: tuple[Remark, ...] = ()


def parse(body: str) -> Command | None:
    """The command on the first line of a comment; None if it is none that is known."""
    match = _GRAMMAR.fullmatch(body.split("\n", 1)[0])
    if not match:
        return None
    name, words = next((name, value) for name, value in match.groupdict().items() if value)
    return Command({"why": "reject", "case": "explain", "run": "correct"}.get(name, name), words.strip())


def answer(hub: Hub, repo: Repo, event: Mapping[str, Any]) -> Answer:
    """Do what the comment asks for, if its author may ask; what to say."""
    try:
        who, body = str(event["comment"]["user"]["login"]), str(event["comment"]["body"])
        number = int(event["issue"]["number"])
        default = str(event["repository"]["default_branch"])
    except (KeyError, TypeError, ValueError):
        raise BadInput("GITHUB_EVENT_PATH: not the event of a comment") from None
    if not may_write(hub, who):
        return Answer("Only people who may write to this repository can ask for that.")
    command = parse(body)
    if command is None:
        return Answer(f"That is no command. {USAGE}")
    pull = hub.get(f"pulls/{number}") if "pull_request" in event["issue"] else None
    kind = kind_of(hub, pull)
    if command.name in ("explain", "correct"):
        where = str(event["comment"].get("html_url", ""))[:300]
        case, *words = command.words.split(" ", 1)
        if command.name == "correct":
            right, *words = words[0].split(" ", 1)
            told = f"On record: {code(case)} should have named {code(right)}. The next harvest makes a case of it."
            return Answer(told, remarks=(Remark(case, plain_reason(" ".join(words)), right, who, where),))
        told = _explained(hub, case, pull if kind else None, default)
        said = tuple(Remark(case, plain_reason(one), by=who, reference=where) for one in words)
        kept = "\n\nYour words are kept with the case, and reach whoever proposes, if they may see it."
        return Answer(told + kept * bool(said), remarks=said)
    if command.name == "reject":
        if not pull or not kind or pull["state"] != "open":
            return Answer("Only an open pull request that automation opened can be rejected.")
        return _rejected(hub, repo, kind, pull, who, command.words)
    if command.name == "more":
        inputs = {"trials": str(_rounds(repo))}
        doing = f", up to round {inputs['trials']} of what is still open"
    else:
        inputs, doing = {"allow": command.words}, " and takes a winner in spite of its cost per case"
    hub.send("POST", f"actions/workflows/{AB_TEST}/dispatches", {"ref": default, "inputs": inputs})
    return Answer(f"The A/B test runs now{doing}. What it finds comes as its pull request.")


def may_write(hub: Hub, login: str) -> bool:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,39}", login):
        return False
    return (hub.find(f"collaborators/{login}/permission") or {}).get("permission") in WRITERS


def kind_of(hub: Hub, pull: Row | None) -> Kind | None:
    """The kind of a pull request of ours; a fork may give its branch the same name."""
    if not pull or (pull["head"].get("repo") or {}).get("full_name") != hub.name:
        return None
    return next((kind for kind in KINDS.values() if kind.branch == pull["head"]["ref"]), None)


def _rejected(hub: Hub, repo: Repo, kind: Kind, pull: Row, who: str, why: str) -> Answer:
    wanted = claimed(hub, kind, pull)
    new = tuple(refused(repo, kind.name, wanted, pull["html_url"], who, why))
    hub.send("PATCH", f"pulls/{pull['number']}", {"state": "closed"})
    hub.send("DELETE", f"git/refs/heads/{kind.branch}")
    listed = ", ".join(code(f"{claim.subject} {claim.sha256[:7]}".strip()) for claim in wanted[:20])
    told = f"Rejected: {listed or 'this change'} is on record and will not come back.\n\n{quote(why)}"
    return Answer(told, new)


def _rounds(repo: Repo) -> int:
    given = unchecked(repo.root).get("ab_test")
    found = given.get("rounds") if isinstance(given, dict) else None
    return found if isinstance(found, int) and 0 < found < 1000 else ROUNDS


def _explained(hub: Hub, case: str, pull: Row | None, default: str) -> str:
    """What both texts said to a case that changed sides, from the A/B report of the pull request or of the branch."""
    report = read(hub.file(AB_REPORT, pull["head"]["sha"] if pull else default))
    rows = [
        (code(arm["variant"]), side, cell(flip["expected"], 200), *_both(flip), cell(flip["why"], 300))
        for _, arm in arms(report)
        for side, name in (("newly right", "newly_right"), ("newly wrong", "newly_wrong"))
        for flip in arm[name]
        if flip["case"] == case
    ]
    if not rows:
        return f"No case {code(case)} changed sides in `{AB_REPORT}` here."
    titles = ("challenger", "became", "expected", "champion said", "challenger said", "why")
    return f"{code(case)}:\n\n{table(titles, rows)}"


def _both(flip: Mapping[str, Any]) -> tuple[str, str]:
    first, second = (cell(str(flip[arm]["output_preview"]), 200) for arm in ("champion", "challenger"))
    return first, second
