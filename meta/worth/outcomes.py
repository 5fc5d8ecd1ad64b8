"""What became of what agents said: alerts that came true, and what their runs were worth in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from agents.sources.outcomes import CameTrue, happened
from meta.worth.record import Hits
from telemetry.edge.frozen import frozen
from telemetry.read.field import Row, day_of, subjects, weighed
from telemetry.read.intervals import wilson
from telemetry.reward import settled_reward

FEW = 10  # outcomes of a subject, below which its base rate is that of all such: each ticket is one of its own kind


@frozen
class Known:
    """What is known to have happened, or not: by day and subject, and how often by subject."""

    happened: Mapping[tuple[str, str], bool]
    base: Mapping[str, float]

    @classmethod
    def of(cls, outcomes: Iterable[Row], came_true: CameTrue) -> Known:
        came = happened(outcomes, came_true)
        by_subject: dict[str, list[bool]] = defaultdict(list)
        for (_, subject), true in came.items():
            by_subject[subject].append(true)
        rare = [true for own in by_subject.values() if len(own) < FEW for true in own]
        base = {
            subject: sum(own) / len(own) if len(own) >= FEW else sum(rare) / len(rare)
            for subject, own in by_subject.items()
        }
        return cls(came, base)

    def hits(self, rows: Iterable[Row]) -> Hits | None:
        """Hit rate of an agent's alerts and its lift over the base rate of the subjects it speaks of."""
        if not self.happened:
            return None
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
        spoken = set().union(*map(subjects, rows)) & self.base.keys()
        return [self._settled(row, spoken) for row in rows]

    def _settled(self, row: Row, spoken: set[str]) -> float | None:
        day, claims = day_of(row), subjects(row)
        known = {subject for subject in claims or spoken if (day, subject) in self.happened}
        if not claims:
            return float(row.get("reward") or 0.0) if known and weighed(row) else None
        return settled_reward(row, [(self.happened[day, one], self.base[one]) for one in sorted(known)])
