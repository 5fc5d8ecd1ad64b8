"""What would be lost without an agent: signals only it gave, alerts of its that came true."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from meta.worth.records import Hits, Unique
from telemetry.edge.errors import BadInput
from telemetry.edge.repo import Repo
from telemetry.read.intervals import wilson

OUTCOMES = Path("telemetry/outcomes.jsonl")

Event = Mapping[str, Any]
CameTrue = Callable[[Event], tuple[str, bool] | None]  # of an outcome: what it is about, and did it happen


def day_of(event: Event) -> str:
    """The day a run stood on: `as_of` of a replayed one, else the day it ran."""
    return str(event.get("day") or event.get("as_of") or event.get("ts") or "")[:10]


def _said(event: Event) -> list[str]:
    """The signals of a run; see telemetry.reward."""
    return str(event.get("signals") or "").split()


def unique_shares(events: Iterable[Event]) -> dict[str, Unique]:
    """Per agent: distinct signals by day, and the share of them that no other agent gave the same day."""
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        for key in _said(event):
            said[day_of(event), key].add(str(event["agent"]))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for agents in said.values():
        for agent in agents:
            totals[agent][0] += 1
            totals[agent][1] += len(agents) == 1
    return {agent: Unique(n, alone, alone / n) for agent, (n, alone) in totals.items()}


def load_outcomes(repo: Repo, path: Path | None = None) -> list[dict[str, Any]]:
    """What happened next, one JSON object a line; no file is no outcome."""
    file = repo / OUTCOMES if path is None else path
    if not file.exists():
        return []
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as problem:
            raise BadInput(f"{file}: line {number}: not JSON: {problem}") from None
        if not isinstance(row, dict) or not isinstance(row.get("date"), str):
            raise BadInput(f"{file}: line {number}: date: must be a string such as 2026-03-16")
        rows.append(row)
    return rows


def hits(events: Iterable[Event], outcomes: Iterable[Event], came_true: CameTrue) -> Hits | None:
    """Hit rate of an agent's alerts and its lift over the base rate of the subjects it speaks of."""
    happened = {(row["date"], known[0]): known[1] for row in outcomes if (known := came_true(row))}
    said = {(day_of(event), key.split(":")[0]) for event in events for key in _said(event)}
    alerts = said & happened.keys()
    if not alerts:
        return None
    subjects = {subject for _, subject in alerts}
    of = [came for (_, subject), came in happened.items() if subject in subjects]
    true = sum(happened[alert] for alert in alerts)
    rate, base = true / len(alerts), sum(of) / len(of)
    interval = wilson(true, len(alerts))
    lifted = (interval[0] / base, interval[1] / base) if interval and base else None
    return Hits(len(alerts), rate, interval, base, rate / base if base else None, lifted)
