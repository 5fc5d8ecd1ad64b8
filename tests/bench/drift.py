"""How soon is a drift found, and how often one that is not there? By simulation of `eval.ledger.levels.changes`.

120 cases whose pass rates follow Beta(1.4, 0.6), one trial a night. A drift comes after thirty nights: it breaks
part of what passes, takes the same off every case, worsens the odds of every case alike, or breaks some cases for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from eval.ledger.levels import Pass, changes
from tests import bench
from tests.bench import Row

Floats = NDArray[np.float64]
Shape = Callable[[Floats, float, np.random.Generator], Floats]

BEFORE = 30  # nights
YEARS = 200  # of one agent: ten years of twenty
DRIFTS = 300
DIFFICULTY = (1.4, 0.6)


def _solved(worse: Callable[[float], Floats], rates: Floats, fall: float, most: float) -> Floats:
    """The rates after as much of a harm as makes them fall by so much on the mean."""
    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if np.mean(rates - worse(middle)) < fall else (low, middle)
    return worse(high)


SHAPES: Mapping[str, Shape] = {
    "part of what passes breaks": lambda p, fall, _: _solved(lambda x: p * (1 - x), p, fall, 1),
    "the same off every case": lambda p, fall, _: _solved(lambda x: np.maximum(p - x, 0), p, fall, 1),
    "all odds worsen": lambda p, fall, _: _solved(lambda x: p / (p + (1 - p) * np.exp(x)), p, fall, 30),
    "some cases break": lambda p, fall, rng: _broken(p, fall, rng),
}


def _broken(rates: Floats, fall: float, rng: np.random.Generator) -> Floats:
    order = rng.permutation(len(rates))
    gone = order[np.cumsum(rates[order]) <= fall * len(rates)]
    return np.where(np.isin(np.arange(len(rates)), gone), 0.0, rates)


def nights(rng: np.random.Generator, rates: Floats, count: int, first: int = 0) -> list[Pass]:
    """So many nights of one trial a case."""
    cases = range(len(rates))
    drawn = (rng.random((count, len(rates))) < rates).astype(float)
    return [Pass(str(first + number), cases, list(scores)) for number, scores in enumerate(drawn)]


def found(fall: float, within: int, shape: str, *, seed: int, count: int = DRIFTS, cases: int = 120) -> float:
    """The share of drifts found within so many nights, the first one at the new level included."""
    rng, hits = np.random.default_rng(seed + 1000 * bench.SEED), 0
    for _ in range(count):
        rates = rng.beta(*DIFFICULTY, cases)
        after = SHAPES[shape](rates, fall, rng)
        series = nights(rng, rates, BEFORE) + nights(rng, after, within, BEFORE)
        hits += any(change.fell and change.found >= BEFORE for change in changes(series, cases))
    return hits / count


def false_alarms(
    *, seed: int, years: int = YEARS, cases: int = 120, difficulty: tuple[float, float] = DIFFICULTY
) -> float:
    """Alarms a year of twenty agents whose level never changes."""
    rng, alarms = np.random.default_rng(seed + 1000 * bench.SEED), 0
    for _ in range(years):
        series = nights(rng, rng.beta(*difficulty, cases), 365)
        alarms += sum(change.fell for change in changes(series, cases))
    return 20 * alarms / years


def main() -> list[Row]:
    """The rows of the table."""
    rows: list[Row] = []

    def row(what: str, measured: float, target: str, ok: bool, form: str = ".1%") -> None:
        rows.append(Row(what, format(measured, form), "", "", target, ok))

    breaks, *others = SHAPES
    for fall, within in ((0.10, 5), (0.05, 14)):
        share = found(fall, within, breaks, seed=1)
        row(f"drift of -{100 * fall:.0f} points found in {within} nights", share, ">= 90%", share >= 0.9)
    for shape in others:
        share = found(0.10, 5, shape, seed=2)
        row(f"-10 points in 5 nights, {shape}", share, ">= 85%", share >= 0.85)
        share = found(0.05, 21, shape, seed=3)
        row(f"-5 points in 21 nights, {shape}", share, ">= 60%", share >= 0.6)
    worlds: Mapping[str, tuple[int, tuple[float, float]]] = {
        "120 cases": (120, DIFFICULTY),
        "30 cases": (30, DIFFICULTY),
        "nearly all pass": (120, (9.5, 0.5)),
        "nearly all certain": (120, (0.05, 0.02)),
    }
    for name, (cases, difficulty) in worlds.items():
        years = YEARS if cases == 120 and difficulty == DIFFICULTY else YEARS // 2
        rate = false_alarms(seed=4, years=years, cases=cases, difficulty=difficulty)
        row(f"false alarms a year of 20 agents, {name}", rate, "<= 1", rate <= 1, ".2f")
    return rows
