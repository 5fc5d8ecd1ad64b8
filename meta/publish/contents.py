"""A changed file, and whether what the change puts into it is fit to be proposed: pure checks over before and after."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from agents.manifest.edit import move
from agents.model.schema import faults
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json, load_yaml
from telemetry.edge.text import MAX_BODY, redact, unseen

Head = Callable[[str], bytes | None]  # a file of the trusted tree, None when there is none
Decision = Mapping[str, Any]  # as in meta/decisions/

MANIFEST = "agents/manifest.yaml"
DECISIONS = "meta/decisions/"
DECISION_SCHEMA = "eval/decision.schema.json"
VARIANTS = "agents/prompts/variants"
LINEAGE_SCHEMA = "agents/lineage.schema.json"

# File modes, as git writes them.
ABSENT = "000000"
REGULAR = "100644"
EXECUTABLE = "100755"
FILES = (REGULAR, EXECUTABLE)

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_IN_A_BODY = {
    "mentions someone": r"(?<![\w`/.@-])@[A-Za-z0-9][\w-]*",
    "holds HTML": r"(?i)<\s*/?\s*(script|iframe|img|a|form|input|style|object|embed|svg|meta|link)\b",
    "would close an issue": r"(?i)\b(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s+([\w.-]+/[\w.-]+)?#\d",
    "links to a script": r"(?i)\]\(\s*(javascript|data|vbscript):",
}


@frozen
class Change:
    """One file before and after. A rename is a deletion and an addition."""

    path: str
    old_mode: str
    new_mode: str
    before: bytes | None  # None: the file did not exist, or is no blob
    after: bytes | None
    lines: int  # added plus deleted


def left_by(changes: Sequence[Change], head: Head) -> Head:
    """The files as the changes leave them."""
    by_path = {change.path: change.after for change in changes}
    return lambda path: by_path[path] if path in by_path else head(path)


def arms(report: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The arms of an A/B report, each with the test that it is of."""
    return ((test, arm) for test in report.get("tests", ()) for arm in test["arms"])


def check_text(change: Change) -> Iterator[str]:
    """Readable UTF-8 text, nothing hidden in it, no credential."""
    assert change.after is not None
    try:
        text = change.after.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        yield "is binary"
    else:
        yield from _hidden(text)


def _hidden(text: str) -> Iterator[str]:
    """What a reader would not see, and what nobody may see."""
    if found := unseen(text):
        yield f"holds the hidden character {found}"
    if redact(text) != text:
        yield "holds what looks like a secret"


def check_json(change: Change, schema: bytes | None) -> Iterator[str]:
    """JSON that parses, matches its schema where there is one, and never rewrites a decision."""
    if change.path.startswith(DECISIONS) and change.before is not None:
        yield "a decision is never rewritten"
    try:
        load_json(change.after or b"")  # which takes no NaN, nothing infinite, no half characters
        value = json.loads(change.after or b"", object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        yield f"is not JSON: {error}"
        return
    if schema is not None:
        for fault in islice(faults(json.loads(schema), value), 3):
            yield f"does not match its schema: {fault.at('top level')}: {fault.said[:200]}"


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key given twice one reader takes the first, another the last, and a person sees both."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"{twice[:80]!r} is given twice")
    return found


def decisions(changes: Sequence[Change]) -> Iterator[Decision]:
    """The decisions that the change brings with it; a broken one is reported by its own check."""
    for change in changes:
        if change.path.startswith(DECISIONS) and change.after is not None:
            try:
                value = load_json(change.after)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def check_decision(change: Change, report: bytes | None, acts: Sequence[str], head: Head) -> Iterator[str]:
    """A decision names the report it stands on, by its hash, and brings it along; `acts`: what may be decided."""
    for decision in decisions([change]):
        if acts and decision.get("decision") not in acts:
            yield f"decides to {decision.get('decision')}, which is no business of this kind of change"
        if report is None or decision.get("report_sha256") != hashlib.sha256(report).hexdigest():
            yield "names another report than the one that comes with it"
        if decision.get("decision") == "demote" and not _takes_back(decision, head):
            yield "takes back no promotion that is on record"


def _takes_back(demotion: Decision, head: Head) -> bool:
    """Whether it restores the text that a promotion of the trusted tree replaced, and nothing else."""
    verdict = demotion.get("verdict")
    path = str(verdict.get("promotion")) if isinstance(verdict, dict) else ""
    try:
        promotion = load_json((head(path) if path.startswith(DECISIONS) else None) or b"{}")
    except ValueError:
        return False
    ends = ("decision", "subject", "after_sha256", "before_sha256")
    wanted = ("promote", *(demotion.get(name) for name in ("subject", "before_sha256", "after_sha256")))
    return tuple(promotion.get(name) for name in ends) == wanted


def check_manifest(change: Change, decided: Sequence[Decision]) -> Iterator[str]:
    """Nothing but `enabled:` flips, each by a decision, and never of an agent that is sensitive in execution."""
    try:
        before, after = _manifests(change)
        old, new = ({entry["name"]: entry for entry in one["agents"]} for one in (before, after))
        same = _but_enabled(before) == _but_enabled(after)
    except _NO_MANIFEST as error:
        yield f"is not a manifest: {' '.join(str(error).split())[:200]}"
        return
    if not same:
        yield "changes more than `enabled:`"
        return
    default = (before.get("defaults") or {}).get("execution_sensitive", False)
    for name, entry in new.items():
        on = entry.get("enabled", True)
        if on == old[name].get("enabled", True):
            continue
        if old[name].get("execution_sensitive", default):
            yield f"flips {name}, which is execution_sensitive: a person does that"
        act = "revive" if on else "disable"
        if not any(one.get("decision") == act and one.get("subject") == name for one in decided):
            yield f"flips {name} without a decision to {act} it"


def check_models(change: Change, report: bytes | None, decided: Sequence[Decision]) -> Iterator[str]:
    """Exactly this: `model:` of the agents that the report tested becomes the model that it promoted for them."""
    try:
        before, after = _manifests(change)
        moves = list(_moves(load_json(report or b"{}")))
        for agents, model, _ in moves:
            move(before, agents, model)
        told = [(one["verdict"]["agents"], one["verdict"]["model"], one["after_sha256"]) for one in decided]
    except (*_NO_MANIFEST, ValueError) as error:
        yield f"is not a manifest, or comes without its report: {' '.join(str(error).split())[:200]}"
        return
    if before != after:
        wanted = "; ".join(f"{', '.join(agents)} to {model}" for agents, model, _ in moves) or "none"
        yield f"changes something else than `model:` as the report promotes it ({wanted})"
    if told != moves:
        yield "comes with other decisions than the report's"


def _moves(report: Mapping[str, Any]) -> Iterator[tuple[list[str], str, str]]:
    """The agents that a report tested, the model that it promoted for them, and the hash of that arm's text."""
    for test, arm in arms(report):
        if arm["promoted"] is True and arm["verdict"] == "promote" and arm["model"] and test["model"]:
            yield list(map(str, test["agents"])), str(arm["model"]), str(arm["sha256"])


_NO_MANIFEST = (BadInput, TypeError, KeyError, AttributeError)  # what a manifest of another shape raises


def _manifests(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    return load_yaml(change.before or b"{}"), load_yaml(change.after or b"{}")


def _but_enabled(manifest: dict[str, Any]) -> dict[str, object]:
    agents = [{k: v for k, v in entry.items() if k != "enabled"} for entry in manifest["agents"]]
    return {**manifest, "agents": agents}


def check_champion(change: Change, after: Head, decided: Sequence[Decision]) -> Iterator[str]:
    """A champion and the live prompt of its name are one text, and a decision names its hash."""
    path = PurePosixPath(change.path)
    if path.name == "champion.md":
        other = f"agents/prompts/{path.parent.name}.md"
    elif str(path.parent) == "agents/prompts":
        other = f"{VARIANTS}/{path.stem}/champion.md"
        sha256 = hashlib.sha256(change.after or b"").hexdigest()
        acts = ("promote", "demote")
        if not any(one.get("decision") in acts and one.get("after_sha256") == sha256 for one in decided):
            yield "changes without a decision to promote that text"
    else:
        return
    if after(other) != change.after:
        yield f"differs from {other}: a champion and its live prompt are one text"


def check_body(raw: bytes) -> Iterator[str]:
    """The text of a pull request: short enough, and nothing that acts (mentions, HTML, closing words)."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        yield "is not UTF-8"
        return
    if not text.strip():
        yield "is empty"
    if len(text) > MAX_BODY:
        yield f"has {len(text):,} characters, at most {MAX_BODY:,} are taken"
    yield from _hidden(text)
    plain = "\n".join(_outside_code(text[:MAX_BODY]))
    for why, pattern in _IN_A_BODY.items():
        if match := re.search(pattern, plain):
            yield f"{why}: {match[0]!r}"


def _outside_code(text: str) -> Iterator[str]:
    """Lines outside fences, code spans taken out: GitHub acts on those only."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark:
            fence = mark[1]
        else:
            yield re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
