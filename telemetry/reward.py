"""What a run was worth: signal found, less what it cost and how long it took.

    reward = signal - 0.25 * ln(1 + 200 * cost_usd) - 0.10 * ln(1 + latency_ms / 500)

Logarithms: the first cent and the first half second hurt most, and no outlier decides an average. A run whose
cost is unknown takes no cost penalty, so its reward is an upper bound; its row says `cost_source: "unknown"` and
the rollup counts it under `unpriced_runs`.

An output that nobody can weigh, because neither manifest nor domain says what in it is a signal, has no reward: its
agent is judged by the pass rate of its suite, and by what it costs.

This reward is provisional: it pays for what a run claims. Once it is known what came true, `settled_reward` pays for
that: each claim is a bet at the base rate of what it is about, so that crying wolf every day earns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from telemetry.edge.frozen import frozen
from telemetry.edge.records import is_number
from telemetry.logger import SCORING_VERSION

# The signal fields of scoring version 1.0, part of the event format like the row's own fields: field of an item -> the
# value that is as strong as a signal gets; `|field|`: whatever its sign. A domain may have others (`Signals.full`).
SIGNALS: Final[Mapping[str, float]] = {
    "profit_pct": 2.0,  # a net profit of 2 %
    "risk_score": 100.0,
    "|daily_change|": 0.10,  # a move of 10 % in a day
}
# To a caller who must have a number: an output that says something, but nothing we can weigh.
UNKNOWN_KIND = 0.1
MOST = 50  # signals kept per row: a row stays small whatever an agent returns
LONGEST = 80  # characters of one of them

Item = Mapping[Any, Any]


@frozen
class Weights:
    """The coefficients of scoring version 1.0; the manifest may override them per agent."""

    cost: float = 0.25
    cost_scale: float = 200.0  # per USD
    latency: float = 0.10
    latency_scale_ms: float = 500.0


DEFAULT = Weights()


def subject_and_signal(item: Item) -> str:
    """`subject:signal` of an item that has both, else its signal."""
    subject, signal = item.get("subject"), item.get("signal")
    return f"{subject}:{signal}" if subject and signal else str(signal or "")


@frozen
class Signals:
    """How outputs are read: those of a domain, or of an agent whose manifest entry says so."""

    # field -> the value that is as strong as a signal gets
    full: Mapping[str, float] = field(default_factory=lambda: SIGNALS)
    key: Callable[[Item], str] = subject_and_signal  # names what an item says, "" for nothing
    figures: Callable[[list[Item]], Mapping[str, Any]] = lambda items: {}  # further fields of the row
    weigh: Callable[[list[Item]], Any] | None = None  # instead of `full`: the strength of an output, in 0..1
    weighed_by: str = ""  # names that function in the scoring version
    # The strength of an output that says nothing, and of one that says something, but has none of those fields: None
    # where nobody can weigh it. The latter counts if `key` has a name for what it says, so 0.1 is never for anything.
    silence: float | None = 0.0
    unknown: float | None = UNKNOWN_KIND

    def strength(self, output: object) -> float | None:
        """How strong the signal of an output is, in 0..1; None where nobody can say."""
        if self.weigh is not None:
            weight = self.weigh(items(output))
            if not is_number(weight):
                raise TypeError(f"{self.weighed_by}: must return a number in 0..1, not {weight!r}")
            return min(1.0, max(0.0, float(weight)))
        known = [share for item in items(output) for share in _shares(item, self.full)]
        if known or not _says_something(output):
            return max(known) if known else self.silence
        return self.unknown if not self.unknown or self.keys(output) else None

    def version(self, weights: Weights = DEFAULT) -> str:
        """The scoring version of what is read so."""
        version = scoring_version(weights, self.full)
        return f"{version}+{self.weighed_by}" if self.weighed_by else version

    def keys(self, output: object) -> str:
        """The distinct signals of an output, parted by spaces, in order: `VIX:risk_off europe:conflict`."""
        keys = dict.fromkeys("_".join(self.key(item).split())[:LONGEST] for item in items(output))
        return " ".join([key for key in keys if key][:MOST])


def items(output: object) -> list[Item]:
    """The items of an output that can say anything."""
    given = output if isinstance(output, (list, tuple)) else (output,)
    return [item for item in given if isinstance(item, Mapping)]


def scoring_version(weights: Weights = DEFAULT, signals: Mapping[str, float] = SIGNALS) -> str:
    """Rewards under other weights or signals carry another version: versions are never averaged together."""
    version = SCORING_VERSION
    if weights is not DEFAULT and weights != DEFAULT:
        figures = (weights.cost, weights.cost_scale, weights.latency, weights.latency_scale_ms)
        version += "+" + ",".join(f"{figure:g}" for figure in figures)
    if signals != SIGNALS:
        version += "+" + ",".join(f"{name}/{full:g}" for name, full in signals.items())
    return version


def signal_strength(agent_name: str, output: object, *, signals: Mapping[str, float] = SIGNALS) -> float:
    """The strongest signal in an agent's output, in 0..1. Bad values count for nothing, never for a crash."""
    strongest = 0.0
    for item in output if isinstance(output, list | tuple) else (output,):
        if isinstance(item, Mapping):
            strongest = max([strongest, *(_shares(item, signals) or [UNKNOWN_KIND if item else 0.0])])
        elif _says_something(item):
            strongest = max(strongest, UNKNOWN_KIND)
    return strongest


def reward(
    event: Mapping[str, Any],
    output: object,
    weights: Weights = DEFAULT,
    *,
    signals: Mapping[str, float] = SIGNALS,
) -> float:
    """The reward of one run: its row (`cost_usd`, `latency_ms`, `agent`) and its output."""
    return signal_strength(str(event.get("agent", "")), output, signals=signals) - penalty(event, weights)


def penalty(event: Mapping[str, Any], weights: Weights = DEFAULT) -> float:
    """What a run's cost and time take off its reward."""
    cost, latency_ms = (
        max(0.0, float(value)) if is_number(value := event.get(name)) else 0.0
        for name in ("cost_usd", "latency_ms")
    )
    return weights.cost * math.log1p(weights.cost_scale * cost) + weights.latency * math.log1p(
        latency_ms / weights.latency_scale_ms
    )


def settled_reward(event: Mapping[str, Any], came: Sequence[tuple[bool, float]]) -> float | None:
    """The reward of a run by what became of its claims, each `(came true, base rate)`; None where nothing is known.

    A signal that came true counts, one that did not counts against, in the proportion that makes claims at random worth
    nothing: at a base rate of 0.2 a hit is worth the whole signal, and a miss costs a quarter of it.
    """
    if not came or not is_number(event.get("reward")):
        return None
    won = sum((true - base) / max(base, 1 - base) for true, base in came) / len(came)
    return float(event["reward"]) - float(event.get("signal_strength") or 0.0) * (1 - won)


def _shares(item: Item, signals: Mapping[str, float]) -> list[float]:
    """How strong each of the signals is that an item has."""
    return [share for name, full in signals.items() if (share := _share(item, name, full)) is not None]


def _share(item: Mapping[Any, Any], name: str, full: float) -> float | None:
    """How strong a field of an item is, in 0..1; None if it is not a number."""
    value = item.get(name.strip("|"))
    if not is_number(value):
        return None
    return min(1.0, max(0.0, (abs(value) if name.startswith("|") else value) / full))


def _says_something(item: object) -> bool:
    """False for None, empty text and containers with nothing in them, however deeply nested."""
    if isinstance(item, list | tuple):
        return any(map(_says_something, item))
    if isinstance(item, Mapping):
        return bool(item)
    return item is not None and item is not False and item != ""
