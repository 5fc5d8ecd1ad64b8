"""What speaks against an agent, and for it: the odds that its days no longer earn its keep, and what came true.

The odds are an e-detector over its days, which may be asked every week.

Whoever bets against "the mean is at least the floor" multiplies its wealth by
`1 + share * (floor - x) / (1 - floor)` on a day of reward x <= 1; while the agent earns the floor, no betting can
expect to gain. One bettor starts on every day, so that an agent that was good for a year and then went silent is found
as fast as one that never was any good; the evidence is the wealth of the best of them (Shin, Ramdas & Rinaldo,
"E-detectors", 2023).

Days come in spells: three days of one story are one observation, as four runs of one day are. How long an agent's
spells are is read off its days before the stretch in question, and the evidence is taken to the power of one over that:
a concave function of fair wealth is fair, so this may only make it more careful.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.sources.outcomes import CameTrue, happened
from meta.worth.record import Hits
from telemetry.edge.frozen import frozen
from telemetry.read.field import Row, day_of, subjects, weighed
from telemetry.read.intervals import wilson
from telemetry.reward import settled_reward

SHARES = (0.5, 0.7, 0.9)  # of what a bettor may stake without risking everything
CONVINCED = 40.0  # to one: an agent that earns exactly 0 gets there in 95 days, at a floor of 0.05
SPELL_DAYS = 30  # days of history from which the length of a spell can be told
FEW = 10  # outcomes of a subject, below which its base rate is that of all such: each ticket is one of its own kind


@frozen
class Evidence:
    """The odds against the agent earning the floor, and since which day they have been growing."""

    odds: float
    start: int  # index of the first day of that stretch
    spell: float  # days that count as one observation


def against(days: Sequence[float], floor: float) -> Evidence:
    """The evidence that an agent of these day means, oldest first, has stopped earning the floor."""
    import numpy as np

    if not days:
        return Evidence(1.0, 0, 1.0)
    x = np.minimum(np.asarray(days, dtype=float), 1.0)
    steps = np.log1p(np.outer(SHARES, floor - x) / (1 - floor))
    grown = steps[:, ::-1].cumsum(axis=1)[:, ::-1]  # by share: the wealth of whoever started on that day
    peak = grown.max(axis=0)
    wealth = peak + np.log(np.exp(grown - peak).mean(axis=0))
    start = int(wealth.argmax())
    spell = _spell(x[:start])
    return Evidence(math.exp(min(float(wealth[start]) / spell, 700.0)), start, spell)


def _spell(before: Any) -> float:
    """How many days count as one observation, by the correlation of neighbouring days; 1 where none is evident."""
    if len(before) < SPELL_DAYS:
        return 1.0
    around = before - before.mean()
    spread = float(around @ around)
    alike = float(around[1:] @ around[:-1]) / spread if spread > 1e-12 else 0.0
    chance = 2 / math.sqrt(len(before))  # what independent days reach in one window of forty
    return (1 + alike) / (1 - alike) if chance < alike < 1 else 1.0


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
