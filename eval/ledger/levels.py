"""Finds where a series of nightly scores left its level, case by case and at any length: an e-detector. Pure.

If nothing changed, the scores of a case are exchangeable: given what it scored so far, each of them may as well have
been tonight's. So `(1 - b*x) / (1 - b*m)`, with `x` tonight's score, `m` the mean of all scores so far (tonight's too)
and `b` a bet that may depend on them all, expects exactly 1: an e-value that needs to know neither how hard the case
is nor how its scores are spread. A case that always scores the same gives 1, so a deterministic suite moves nothing.
The product over the cases, and over the nights since any night, still expects 1 (Vovk, Nouretdinov & Gammerman,
"Conformal e-testing", arXiv 2006.02329). The sum over all nights on which a fall may have begun (Shiryaev-Roberts;
Shin, Ramdas & Rinaldo, "E-detectors", arXiv 2203.03532) expects one more each night: at the end of a year the odds are
20:1 against its standing at 20 times the nights of a year. That looking every night does not spoil this is no theorem
for e-values of this kind; it is simulated (`make bench`): 1 to 3 % of agents alarm falsely in a year, not 5.

A bet pictures a fall: part of what passed breaks, which shows best in cases that hardly ever failed, and the odds of
the rest worsen alike. Of those tried, these three, averaged, find four sorts of fall at little cost to any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from telemetry.edge.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ODDS = 20.0  # against an alarm within a year in which nothing changed
NIGHTS = 365
# Share of what passed that breaks, share of odds that the rest loses.
BETS = ((0.02, 0.2), (0.06, 0.0), (0.1, 0.4))
PRIOR = 0.5  # pseudo-counts of either outcome: no case is certain before it was asked
STEADY = 2  # passes alike before a suite counts as deterministic


@frozen
class Pass:
    """Every case once at most: its scores by number of the case, and the night it belongs to."""

    night: str
    cases: Sequence[int]
    scores: Sequence[float]


@frozen
class Change:
    """A level that ended. Places are those of passes: it held from `begin`, another one from `since` on."""

    begin: int
    since: int
    found: int
    fell: bool


def changes(passes: Sequence[Pass], cases: int, *, exact: bool = False) -> list[Change]:
    """Every change of level, oldest first; after each, later nights are held against those since it was found.

    `exact`: the model answers alike by construction, so whatever differs from two like passes has changed.
    """
    found: list[Change] = []
    begin = 0
    while (change := _first(passes, begin, cases, exact)) is not None:
        found.append(change)
        # Nights that were taken for a change by chance are extreme ones: what came after them would look like another.
        begin = change.since if exact else change.found + 1
    return found


def _first(passes: Sequence[Pass], begin: int, cases: int, exact: bool) -> Change | None:
    counts, sums = np.zeros(cases), np.zeros(cases)
    sides = (_Evidence(), _Evidence())  # of a fall, of a rise
    steady, night = True, ""
    for place in range(begin, len(passes)):
        one = passes[place]
        which, scores = np.asarray(one.cases, dtype=np.intp), np.asarray(one.scores, dtype=np.float64)
        known = counts[which] > 0
        moved = (scores - sums[which] / np.maximum(counts[which], 1))[known]
        if exact and steady and place >= begin + STEADY and abs(moved.sum()) > 1e-9:
            return Change(begin, place, place, bool(moved.sum() < 0))
        steady = steady and bool(np.all(np.abs(moved) < 1e-9))
        counts[which] += 1
        sums[which] += scores
        n, total = counts[which], sums[which]
        for side, values, passed in ((sides[0], scores, total), (sides[1], 1 - scores, n - total)):
            side.add(values, passed, n, fresh=one.night != night)
        night = one.night
        for side, fell in zip(sides, (True, False), strict=True):
            if side.enough():
                split = _split(passes[begin : place + 1], sums / np.maximum(counts, 1), fell)
                return Change(begin, begin + split, place, fell)
    return None


def _split(passes: Sequence[Pass], means: Floats, fell: bool) -> int:
    """The place that tells earlier and later passes apart best, by least squares of what they differ from the means."""
    off = [np.mean(np.asarray(one.scores) - means[np.asarray(one.cases, dtype=np.intp)]) for one in passes]
    n, before = len(off), np.arange(1, len(off))
    gap = np.cumsum(off)[:-1] / np.sqrt(before * (n - before))
    return 1 + int(np.argmax(gap if fell else -gap))


class _Evidence:
    """That values have fallen since some night: by bet, the sum over all nights that it may have been."""

    def __init__(self) -> None:
        self._broken, self._lost = np.array(BETS).T[:, :, None]
        self._log_sum = np.full(len(BETS), -np.inf)

    def add(self, values: Floats, total: Floats, n: Floats, *, fresh: bool) -> None:
        """One pass; with `fresh` the change may also have begun with it."""
        level = (total + PRIOR) / (n + 2 * PRIOR)
        # 1 - odds ratio of passing after and before: x = 1 speaks for the fall by that much less than x = 0.
        share = 1 - (1 - self._broken / (1 - level * (1 - self._broken))) * (1 - self._lost)
        gains = np.sum(np.log1p(-share * values) - np.log1p(-share * total / n), axis=1)
        if fresh:
            self._log_sum = np.logaddexp(self._log_sum, 0.0)
        self._log_sum += gains

    def enough(self) -> bool:
        """Whether the odds are reached."""
        mean = np.logaddexp.reduce(self._log_sum) - np.log(len(self._log_sum))
        return bool(mean >= np.log(ODDS * NIGHTS))
