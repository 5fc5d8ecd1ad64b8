"""How sure is it that an agent no longer earns its keep? An e-detector over its days, which may be asked every week.

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
from collections.abc import Sequence
from typing import Any

from telemetry.edge.frozen import frozen

SHARES = (0.5, 0.7, 0.9)  # of what a bettor may stake without risking everything
CONVINCED = 40.0  # to one: an agent that earns exactly 0 gets there in 95 days, at a floor of 0.05
SPELL_DAYS = 30  # days of history from which the length of a spell can be told


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
