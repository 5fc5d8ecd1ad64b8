"""New eval cases, and whether a change adds just those that its report tells of: pure checks over before and after.

A suite says how good everything is: what comes in must be `fresh`, dated, and graded by what is built in; what is there
stays as it is, but for fresh cases that are old enough to settle; and the pin is what follows from that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from eval.field.record import TAG, shown
from eval.grading.suite import BY_ANSWER, FRESH, LOCK, settled_line, split
from meta.publish.contents import Change, Head
from telemetry.edge.files import SUITES
from telemetry.edge.records import load_json

SUITE: Final = f"{SUITES}/*.jsonl"
PINS: Final = f"{SUITES}/{LOCK}"


def check_suite(change: Change, report: bytes | None) -> Iterator[str]:
    """Every line as it was or settled, then the cases of the report, one by one."""
    try:
        told = load_json(report or b"{}")
        since = date.fromisoformat(told["since"])
        cases = [case for case in told["cases"] if case["suite"] == change.path]
    except (ValueError, KeyError, TypeError):
        yield "comes without the report that tells of it"
        return
    if since > datetime.now(UTC).date():
        yield f"is of a day to come: {since}"
    before, after = ((raw or b"").splitlines() for raw in (change.before, change.after))
    if not before:
        yield "is a new suite"
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        if new != old and new != settled_line(old, since).rstrip(b"\n"):
            yield f"line {number}: changes a case that was there"
            return
    if len(after) != len(before) + len(cases):
        yield f"adds {len(after) - len(before)} cases, its report tells of {len(cases)}"
        return
    for line, case in zip(after[len(before) :], cases, strict=True):
        yield from (f"{case['id']}: {why}" for why in _wrong(line, case, str(since)))


def _wrong(line: bytes, told: Mapping[str, Any], since: str) -> Iterator[str]:
    """What is wrong with a new case, or with what its report says of it."""
    if hashlib.sha256(line + b"\n").hexdigest() != told["sha256"]:
        yield "is another case than the report's"
        return
    try:
        case = load_json(line)
        tags, graders = case["tags"], [str(part["grader"]) for part in case["expect"]]
        said = (case["id"], shown(case["input"]), shown(case["expect"]), case.get("note", ""))
        dated, family = (case.get("split"), case.get("since")), str(case["family"])
    except (ValueError, KeyError, TypeError):
        yield "is no case from the field"
        return
    if said != tuple(told[name] for name in ("id", "input", "expect", "note")):
        yield "reads otherwise in its report"
    if dated != (FRESH, since):
        yield "is not fresh, or of another day"
    if tags != [TAG, told["reason"]]:
        yield f"has other tags than {TAG} and {told['reason']}"
    if told["reason"] in BY_ANSWER and split(family) != "tune":
        yield "was chosen by its answer and would decide"
    if any(":" in grader or grader == "llm_judge" for grader in graders):
        yield "is graded by code of one's own, or by a model"


def check_pins(change: Change, after: Head) -> Iterator[str]:
    """The pin of every suite is that of the file beside it; those of others stay."""
    try:
        old, new = (load_json(raw or b"{}")["suites"] for raw in (change.before, change.after))
        names = sorted({*old, *new})
        wrong = [name for name in names if new[name] != _pin(name, old[name], after)]
    except (ValueError, KeyError, TypeError, AttributeError):
        yield "pins other suites than before, or is no lock file"
        return
    if wrong:
        yield f"pins {', '.join(wrong)} otherwise than its cases are"


def _pin(name: str, before: Mapping[str, Any], after: Head) -> Mapping[str, Any]:
    data = after(str(PurePosixPath(SUITES) / name))
    if data is None:
        return before
    return {**before, "sha256": hashlib.sha256(data).hexdigest(), "cases": len(data.splitlines())}
