"""A choice among candidates as a probability vector: floored, drawn from, and logged as it was drawn from."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from agents.routing.experience import Beliefs
from telemetry.edge.frozen import frozen

FLOOR: Final = 0.02  # of every candidate: what was never tried can neither be learned nor evaluated
MOST: Final = 10  # candidates; each one beyond the best costs FLOOR of all tasks
DIGITS: Final = 6  # of a probability, before anything is drawn: the log holds what was drawn from
CONFIDENT: Final = 2.0  # standard deviations that UCB adds to a mean
STEPS: Final = 24  # points per candidate at which the integral is cut


@frozen
class Candidate:
    """One who could take the task; None where nothing is known."""

    agent_id: str
    capability_score: float
    performance_score: float | None
    load_score: float
    final_score: float  # what the strategy ranks by
    selection_reason: str
    probability: float


@frozen
class Decision:
    """Who takes a task, and why; `propensity` is the probability with which that one was drawn."""

    requirements: dict[str, Any]
    selected_agent_id: str
    routing_strategy: str
    confidence: float
    candidate_agents: tuple[Candidate, ...]
    primary_reason: str
    secondary_factors: tuple[str, ...]
    propensity: float
    policy_version: str


def thompson(beliefs: Beliefs) -> list[float]:
    """By candidate, how probable it is that it is the best: what drawing from the beliefs would choose on average.

    The integral of one's density times everyone else's distribution, cut at quantiles of all of them, so that a
    candidate known to a hair and one hardly known are both resolved.
    """
    import numpy as np

    grid = np.sort((beliefs.mean[:, None] + beliefs.sd[:, None] * _quantiles()).ravel())
    below = _normal((grid[:, None] - beliefs.mean) / beliefs.sd)  # grid by candidate
    middle = np.clip((below[1:] + below[:-1]) / 2, 1e-300, None)
    others = np.exp(np.log(middle).sum(axis=1, keepdims=True) - np.log(middle))
    best = ((below[1:] - below[:-1]) * others).sum(axis=0)
    return list(map(float, best / best.sum()))


def ucb(beliefs: Beliefs) -> list[float]:
    """All on the candidate with the highest upper bound."""
    upper = (beliefs.mean + CONFIDENT * beliefs.sd).tolist()
    return certain(upper.index(max(upper)), len(upper))


def certain(chosen: int, among: int) -> list[float]:
    """All on one."""
    return [float(at == chosen) for at in range(among)]


def floored(vector: Sequence[float]) -> list[float]:
    """The vector with at least `FLOOR` for everyone, in whole millionths: exactly what is drawn from and logged."""
    least = min(FLOOR, 1 / len(vector))
    mixed = [round(least + (1 - len(vector) * least) * share, DIGITS) for share in vector]
    top = mixed.index(max(mixed))
    mixed[top] = round(mixed[top] + 1 - sum(mixed), DIGITS)
    return mixed


def drawn(vector: Sequence[float], chance: Callable[[], float]) -> int:
    """An index, with the probabilities of the vector."""
    left = chance() * math.fsum(vector)
    for at, share in enumerate(vector):
        left -= share
        if left < 0:
            return at
    return max(at for at, share in enumerate(vector) if share > 0)  # rounding ate the last sliver


@functools.cache
def _quantiles() -> Any:
    """To 4 standard deviations at the ends, where a candidate far behind may still be the best."""
    from statistics import NormalDist

    import numpy as np

    inner = [NormalDist().inv_cdf(step / STEPS) for step in range(1, STEPS)]
    return np.array([-4.0, -2.8, *inner, 2.8, 4.0])


def _normal(z: Any) -> Any:
    """The standard normal distribution to 7 digits (Abramowitz & Stegun 26.2.17); numpy has none."""
    import numpy as np

    size = np.abs(z)
    t = 1 / (1 + 0.2316419 * size)
    tail = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail *= np.exp(-0.5 * size * size) * _DENSITY
    return np.where(z < 0, tail, 1 - tail)


_DENSITY: Final = 1 / math.sqrt(2 * math.pi)
