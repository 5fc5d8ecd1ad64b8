"""What became of what agents said: alerts that came true, and what their runs were worth in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agents.manifest import Feed
from agents.manifest.code import load_code
from agents.sources.rows import checked, read_rows
from agents.sources.source import SourceError
from meta.worth.record import Hits
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo
from telemetry.edge.records import load_json
from telemetry.read.field import Row, day_of, weighed
from telemetry.read.intervals import wilson
from telemetry.reward import settled_reward

OUTCOMES = Path("telemetry/outcomes.jsonl")

TYPES: Final = {"date": "date", "subject": "string?", "event": "boolean?"}
FEW = 10  # outcomes of a subject, below which its base rate is that of all such: each ticket is one of its own kind

CameTrue = Callable[[Row], tuple[str, bool] | None]  # of an outcome: what it is about, and did it happen


def load_outcomes(repo: Repo, path: Path | None = None, named: Feed | None = None) -> list[dict[str, Any]]:
    """What happened next: a file given, else what the manifest names, else the usual file; no file is no outcome."""
    if path is None and named is not None:
        return _named(repo, named)
    file = repo / OUTCOMES if path is None else path
    if not file.exists():
        return []
    rows = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            row = load_json(line)
        except ValueError as problem:
            raise BadInput(f"{file}: line {number}: not JSON: {problem}") from None
        if not isinstance(row, dict) or not isinstance(row.get("date"), str):
            raise BadInput(f"{file}: line {number}: date: must be a string such as 2026-03-16")
        rows.append(row)
    return rows


def _named(repo: Repo, named: Feed) -> list[dict[str, Any]]:
    """The rows of `outcomes:`, a file or a function without arguments."""
    try:
        if named.call is None:
            found = read_rows(repo.root, str(named.file), TYPES)
        else:
            found = load_code(named.call, "outcomes.call")()
        rows = checked(found, named.name, TYPES)
    except SourceError as problem:
        raise BadInput(f"{MANIFEST}: outcomes: {problem}") from None
    return [{**row, "date": row["date"][:10]} for row in rows]


def said(row: Row) -> list[str]:
    """The signals of a run; see telemetry.reward."""
    return str(row.get("signals") or "").split()


def subjects(row: Row) -> set[str]:
    """What a run speaks of."""
    return {key.split(":")[0] for key in said(row)}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known to have happened, or not: by day and subject, and how often by subject."""

    happened: Mapping[tuple[str, str], bool]
    base: Mapping[str, float]

    @classmethod
    def of(cls, outcomes: Iterable[Row], came_true: CameTrue) -> Known:
        happened = {(row["date"], known[0]): known[1] for row in outcomes if (known := came_true(row))}
        by_subject: dict[str, list[bool]] = defaultdict(list)
        for (_, subject), came in happened.items():
            by_subject[subject].append(came)
        rare = [came for own in by_subject.values() if len(own) < FEW for came in own]
        base = {
            subject: sum(own) / len(own) if len(own) >= FEW else sum(rare) / len(rare)
            for subject, own in by_subject.items()
        }
        return cls(happened, base)

    def hits(self, rows: Iterable[Row]) -> Hits | None:
        """Hit rate of an agent's alerts and its lift over the base rate of the subjects it speaks of."""
        alerts = {(day_of(row), subject) for row in rows for subject in subjects(row)} & self.happened.keys()
        if not alerts:
            return None
        spoken = {subject for _, subject in alerts}
        of = [came for (_, subject), came in self.happened.items() if subject in spoken]
        true = sum(self.happened[alert] for alert in alerts)
        rate, base = true / len(alerts), sum(of) / len(of)
        interval = wilson(true, len(alerts))
        lifted = (interval[0] / base, interval[1] / base) if interval and base else None
        return Hits(len(alerts), rate, interval, base, rate / base if base else None, lifted)

    def settled(self, rows: Sequence[Row]) -> list[float | None]:
        """The settled reward of each row of one agent; None while it is open.

        A run that said nothing is settled, at its reward, once the day is known for anything the agent speaks of.
        """
        spoken = set().union(*map(subjects, rows)) & self.base.keys() if self.base else set()
        return [self._settled(row, spoken) for row in rows]

    def _settled(self, row: Row, spoken: set[str]) -> float | None:
        day, claims = day_of(row), subjects(row)
        known = {subject for subject in claims or spoken if (day, subject) in self.happened}
        if not claims:
            return float(row.get("reward") or 0.0) if known and weighed(row) else None
        return settled_reward(row, [(self.happened[day, one], self.base[one]) for one in sorted(known)])
