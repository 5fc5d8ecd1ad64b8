"""What the retirement report says, as records: the rule, one row an agent, and what each was worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from telemetry.edge.records import INLINE


@dataclass(frozen=True, slots=True)
class Measured:
    """What an agent's counted runs come to, beside their number and mean reward."""

    upper_bound: float | None  # None: the mean is not below the floor, so nothing depends on it
    scoring_version: str | None
    other_version_runs: int
    own_failures: int
    total_cost_usd: float | None
    unpriced_runs: int
    useful_runs: int
    cost_per_useful_signal_usd: float | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """An agent's last runs of its latest scoring version."""

    n: int
    rolling_avg_reward: float
    rewards: tuple[float, ...]
    measured: Measured = field(metadata=INLINE)


@dataclass(frozen=True, slots=True)
class Unique:
    """Distinct signals by day, and how many of them no other agent gave the same day."""

    signals: int = 0
    unique_signals: int = 0
    unique_share: float | None = None


@dataclass(frozen=True, slots=True)
class Hits:
    """How often alerts came true, against the base rate of the subjects they speak of."""

    alerts: int
    hit_rate: float
    hit_rate_interval: tuple[float, float] | None
    base_rate: float
    lift: float | None
    lift_interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Listed:
    """What is said of an agent of the manifest only."""

    execution_sensitive: bool
    hits: Hits | None


@dataclass(frozen=True, slots=True)
class Agent:
    """One row of the report."""

    agent: str
    module: str | None
    state: str
    n: int
    rolling_avg_reward: float | None
    trend: tuple[float, ...]  # rewards as a short curve, oldest first
    measured: Measured | None = field(default=None, metadata=INLINE)  # None: it never ran
    listed: Listed | None = field(default=None, metadata=INLINE)  # None: the manifest does not know it
    unique: Unique | None = field(default=None, metadata=INLINE)
    columns: Mapping[str, Any] | None = field(
        default=None, metadata=INLINE
    )  # what the domain measures of it, by name


@dataclass(frozen=True, slots=True)
class Rule:
    """Who is a candidate."""

    min_n: int
    reward_floor: float
    window: int
    sources: tuple[str, ...]
    useful_signal: float


@dataclass(frozen=True, slots=True)
class Report:
    """What `meta/reports/retirement_report.json` holds."""

    generated_at: str
    rule: Rule
    candidates: tuple[Agent, ...]
    agents: tuple[Agent, ...]
    disabled: tuple[str, ...]
    offline: bool
