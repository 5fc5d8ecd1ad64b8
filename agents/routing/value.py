"""What a policy would have earned, from a log that another one wrote: IPS, self-normalised, and doubly robust.

The log was collected adaptively: each choice depends on the rewards before it, so its rows are no independent sample,
and the usual interval holds too rarely. The one here follows Zhan, Hadad, Hirshberg & Athey, "Off-policy evaluation
via adaptive weighting with data from contextual bandits" (KDD 2021), and Hadad et al. (PNAS 2021):

- the outcome model of a row is fitted on rows before it only (cross-fitted in order of time), so each doubly robust
  score has the policy's value as its mean given the past: the scores less that value are martingale differences;
- rows are weighted by 1 / sqrt(variance to be expected), from past propensities alone, which keeps the variance of
  the sum from depending on the path the bandit took; then the studentised sum is asymptotically normal.

The propensities must be exact: estimated from draws instead, such intervals held in 15 % of logs.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from agents.routing.choice import floored
from agents.routing.log import Log
from agents.routing.policy import Policy
from telemetry.edge.frozen import frozen
from telemetry.read.intervals import Z95

Array = Any

LEAST_SAMPLE: Final = 100.0  # effective; below it nothing is told
BLOCKS: Final = 10  # stretches of the log: the outcome model of one is fitted on those before
PRIOR_RUNS: Final = 5.0  # pseudo-runs that pull a cell's mean to its arm's, and that to everyone's
TRAIL: Final = 100  # rows before one over which its variance is foreseen


class NoOverlap(Exception):
    """The log cannot say what the policy is worth; the message says why."""


@frozen
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


@frozen
class Value:
    """What a policy would have earned per task, beside what was earned."""

    policy_version: str
    decisions: int
    effective_sample: float
    logged: float
    ips: float
    snips: float
    doubly_robust: Estimate
    gain: Estimate  # doubly robust, over what the log earned


def evaluate(policy: Policy, log: Log) -> Value:
    """The value of a policy as it would be played, with the floor; raises `NoOverlap` rather than guess."""
    if not len(log.reward):
        raise NoOverlap("no choice was drawn at random and led to a run with a reward")
    target = played(policy, log)
    if missing := int(((target > 0) & (log.probability <= 0)).any(axis=1).sum()):
        raise NoOverlap(f"the policy takes what had no chance in {missing} of {len(log.reward)} choices")
    at = log.candidates == log.chosen[:, None]
    weight = target[at] / log.probability[at]
    effective = float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0
    if effective < LEAST_SAMPLE:
        raise NoOverlap(
            f"effective sample {effective:.0f} of {len(weight)} choices, {LEAST_SAMPLE:.0f} are needed"
        )
    predicted = _predictions(log)
    score = (target * predicted).sum(axis=1) + weight * (log.reward - predicted[at])
    trust = _trust(log, target)
    return Value(
        policy_version=policy.policy_version,
        decisions=len(weight),
        effective_sample=effective,
        logged=float(log.reward.mean()),
        ips=float((weight * log.reward).mean()),
        snips=float((weight * log.reward).sum() / weight.sum()),
        doubly_robust=_mean(score, trust),
        gain=_mean(score - log.reward, trust),
    )


def played(policy: Policy, log: Log) -> Array:
    """By row and candidate, the probability with which the policy would have drawn it."""
    import numpy as np

    found = np.zeros_like(log.probability)
    known: dict[tuple[int, bytes], list[float]] = {}
    for row, candidates in enumerate(log.candidates):
        own = candidates[candidates >= 0]
        key = (int(log.type_of[row]), own.tobytes())
        if key not in known:
            names = [log.arms[arm] for arm in own]
            known[key] = floored(policy.shares(log.types[key[0]], names))
        found[row, : len(own)] = known[key]
    return found


def _predictions(log: Log) -> Array:
    """By row and candidate, the reward to be expected from the rows before its block."""
    import numpy as np

    found = np.zeros_like(log.probability)
    shape = (len(log.types), len(log.arms))
    edges = np.linspace(0, len(log.reward), BLOCKS + 1).astype(int)
    for start, end in itertools.pairwise(edges):
        runs, total = np.zeros(shape), np.zeros(shape)
        np.add.at(runs, (log.type_of[:start], log.chosen[:start]), 1)
        np.add.at(total, (log.type_of[:start], log.chosen[:start]), log.reward[:start])
        everyone = total.sum() / max(1.0, runs.sum())
        arm = (total.sum(axis=0) + PRIOR_RUNS * everyone) / (runs.sum(axis=0) + PRIOR_RUNS)
        cell = (total + PRIOR_RUNS * arm) / (runs + PRIOR_RUNS)
        part = log.candidates[start:end]
        found[start:end] = np.where(part < 0, 0.0, cell[log.type_of[start:end, None], part])
    return found


def _trust(log: Log, target: Array) -> Array:
    """The weight of each row: from the spread of importance weights over the rows before it, never its own."""
    import numpy as np

    spread = np.divide(target**2, log.probability, out=np.zeros_like(target), where=target > 0).sum(axis=1)
    first = float((log.candidates[0] >= 0).sum())  # as if all had had the same chance
    summed = np.concatenate([[0.0], np.cumsum(spread)])
    row = np.arange(len(spread))
    start = np.maximum(0, row - TRAIL)
    before = (first + summed[row] - summed[start]) / (1 + row - start)
    return 1 / np.sqrt(before)


def _mean(score: Array, trust: Array) -> Estimate:
    """The weighted mean and its interval by the martingale central limit theorem."""
    import numpy as np

    value = float((trust * score).sum() / trust.sum())
    error = float(np.sqrt((trust**2 * (score - value) ** 2).sum()) / trust.sum())
    return Estimate(value, value - Z95 * error, value + Z95 * error)
