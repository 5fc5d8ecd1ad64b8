"""The report on new cases as records: what stands in `meta/reports/new_cases_report.json`, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from telemetry.edge.frozen import frozen
from telemetry.edge.text import spelt_out

SCHEMA_VERSION = 1
TAG: Final = "field"  # of every case that came from there
SHOWN: Final = 1500  # characters of an input or an answer in the report: the suite has all of it
LONG: Final = 12  # entries of a list within an entry, from which on only the last two are shown

Reason = Literal["corrected", "outcome", "disagreement"]


@frozen
class Harvested:
    """One run as a case: what was asked, what was said, what came true, and the label that follows."""

    id: str
    suite: str  # path
    sha256: str  # of its line in the suite
    agent: str
    day: str  # that the run was about
    run_id: str
    reason: Reason
    why: str
    input: str  # as much of it as a reader needs
    answer: str
    named: tuple[str, ...]  # what the answer speaks of
    came_true: tuple[str, ...]
    proposed: tuple[str, ...]  # what a right answer names
    expect: str  # the label as it stands in the suite
    agrees: bool  # the answer with the label
    removed: int  # personal data that was replaced
    note: str  # a person's words


@frozen
class Report:
    """A whole harvest."""

    schema_version: int
    generated_at: str
    since: str  # the date that the cases bear
    days: int
    cases: tuple[Harvested, ...]
    settled: Mapping[str, int]  # by suite: fresh cases that joined the half of their family
    left_out: Mapping[str, int]  # by reason
    command: str
    metadata: Mapping[str, Any]


def shown(value: Any) -> str:
    """A value as a reader needs it: one entry a line, of a long list the last, which are the latest."""
    lines = []
    for name, part in value.items() if isinstance(value, dict) else [("", value)]:
        start = f"{name}: " if name else ""
        if isinstance(part, list) and part:
            lines += [f"{start}[", *(f"  {_compact(one)}," for one in part), "]"]
        else:
            lines.append(f"{start}{_compact(part)}")
    told = "\n".join(lines)
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}…"


def _compact(value: Any) -> str:
    return spelt_out(json.dumps(_short(value), ensure_ascii=False))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    if isinstance(value, list) and len(value) > LONG:
        return [f"… {len(value) - 2} before", *map(_short, value[-2:])]
    return [_short(part) for part in value] if isinstance(value, list) else value
