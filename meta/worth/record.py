"""What is said of who earns their keep, as records: the rule, the agents, the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from telemetry.edge.frozen import frozen
from telemetry.edge.records import INLINE

# What a verdict stands on: what came true, where that is known of half the runs; else what was claimed, and beside it
# the suite, where there is one and it was run. Where nobody says what a signal is: the suite, and what runs cost.
Basis = Literal["settled_reward", "reward_and_pass_rate", "reward", "pass_rate", "nothing"]


@frozen
class Measured:
    """What an agent's counted days come to, beside their number and mean reward."""

    runs: int  # on those days, repeated ones counted once
    basis: Basis  # what the verdict stands on
    settled_share: float  # of the runs: what they claimed is known to have come true or not
    settled_reward: float | None  # mean of the days of which anything is known
    pass_rate: float | None  # on its suite; None: not graded
    empty_pass_rate: float | None  # what an empty answer passes there
    odds: float | None  # to one, against its earning the floor
    since: str | None  # the day from which they have been growing
    longest_silence: int | None  # days in a row without a useful signal; None: nobody says what a signal is
    upper_bound: float | None  # None: the mean is not below the floor, so nothing depends on it
    lower_bound: float | None  # of an agent that is switched off: it decides on a revival
    scoring_version: str | None
    other_version_runs: int
    own_failures: int
    total_cost_usd: float | None
    unpriced_runs: int
    useful_runs: int | None
    cost_per_useful_signal_usd: float | None


@frozen
class Metrics:
    """An agent's last days under its latest scoring version."""

    n: int  # days
    rolling_avg_reward: float | None  # None: nobody says what a signal is
    rewards: tuple[float, ...]  # of each day, or what it was worth by the suite
    measured: Measured = field(metadata=INLINE)
    judged: tuple[float, ...] = ()  # what the verdict stands on, by day


@frozen
class Unique:
    """Distinct signals by day, and how many of them no other agent gave the same day."""

    signals: int = 0
    unique_signals: int = 0
    unique_share: float | None = None


@frozen
class Hits:
    """How often alerts came true, against the base rate of the subjects they speak of."""

    alerts: int
    hit_rate: float
    hit_rate_interval: tuple[float, float] | None
    base_rate: float
    lift: float | None
    lift_interval: tuple[float, float] | None


@frozen
class Listed:
    """What is said of an agent of the manifest only."""

    execution_sensitive: bool
    hits: Hits | None


@frozen
class Agent:
    """One row of the report."""

    agent: str
    module: str | None
    state: str
    n: int  # days
    rolling_avg_reward: float | None
    trend: tuple[float, ...]  # rewards as a short curve, oldest first
    measured: Measured | None = field(default=None, metadata=INLINE)  # None: it never ran
    listed: Listed | None = field(default=None, metadata=INLINE)  # None: the manifest does not know it
    unique: Unique | None = field(default=None, metadata=INLINE)
    # What the domain measures of it, by name.
    columns: Mapping[str, Any] | None = field(default=None, metadata=INLINE)


@frozen
class Rule:
    """Who is a candidate."""

    min_n: int  # days
    reward_floor: float
    window: int  # days
    sources: tuple[str, ...]
    useful_signal: float
    convinced: float  # odds to one that make a candidate


@frozen
class Report:
    """What `meta/reports/retirement_report.json` holds, and `revival_report.json` beside it."""

    generated_at: str
    rule: Rule
    candidates: tuple[Agent, ...]
    agents: tuple[Agent, ...]
    disabled: tuple[str, ...]
    offline: bool
    revived: tuple[str, ...] = ()
