"""What an agent is worth lately: pure functions from its runs to metrics, a state, and a row of the report."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.domain import load_domain
from meta.worth import marginal
from telemetry.names import INFRASTRUCTURE
from telemetry.read.intervals import mean_lower_bound, mean_upper_bound

if TYPE_CHECKING:
    from agents.manifest import AgentSpec, Manifest

WINDOW = 200  # runs
MIN_N = 100
REWARD_FLOOR = 0.05
USEFUL_SIGNAL = 0.2  # signal strength from which a run was of use to somebody
TREND_POINTS = 40

Event = Mapping[str, Any]


def rolling_metrics(
    events: Iterable[Event], window: int = WINDOW, floor: float = math.inf
) -> dict[str, dict[str, Any]]:
    """Per agent, over its last `window` runs of its latest scoring version: reward, bound, cost, usefulness.

    A run that failed by the agent's own fault found nothing: its reward is 0. Infrastructure failures are skipped.
    The bound is worked out only for a mean below `floor`: above it, nothing depends on it.
    """
    by_agent: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.get("error_kind") not in INFRASTRUCTURE:
            by_agent[str(event["agent"])].append(event)
    return {agent: _metrics(rows, window, floor) for agent, rows in by_agent.items()}


def _metrics(rows: Sequence[Event], window: int, floor: float) -> dict[str, Any]:
    versions = [row.get("scoring_version") for row in rows if row.get("scoring_version")]
    current = versions[-1] if versions else None
    own = [row for row in rows if row.get("scoring_version") in (current, None)][-window:]
    rewards = [float(row["reward"]) if row.get("reward") is not None else 0.0 for row in own]
    mean = sum(rewards) / len(rewards)
    costs = [row.get("cost_usd") for row in own]
    known = [float(cost) for cost in costs if cost is not None]
    useful = sum((row.get("signal_strength") or 0.0) >= USEFUL_SIGNAL for row in own)
    return {
        "n": len(own),
        "rolling_avg_reward": mean,
        "upper_bound": mean_upper_bound(rewards) if mean < floor else None,
        "scoring_version": current,
        "other_version_runs": len(rows) - len(own) if len(rows) <= window else 0,
        "own_failures": sum(row.get("error_kind") is not None for row in own),
        "total_cost_usd": sum(known) if known else None,
        "unpriced_runs": len(costs) - len(known),
        "useful_runs": useful,
        "cost_per_useful_signal_usd": sum(known) / useful if useful and len(known) == len(costs) else None,
        "rewards": rewards,
    }


def _shown(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What the report keeps of an agent's metrics: the rewards as a short curve."""
    return {name: value for name, value in metrics.items() if name != "rewards"} | {
        "trend": _trend(metrics["rewards"])
    }


def _trend(rewards: Sequence[float]) -> list[float]:
    """The rewards as at most TREND_POINTS averages, oldest first."""
    size = max(1, -(-len(rewards) // TREND_POINTS))
    chunks = [rewards[i : i + size] for i in range(0, len(rewards), size)]
    return [round(sum(chunk) / len(chunk), 4) for chunk in chunks]


def state(spec: AgentSpec, metrics: Mapping[str, Any] | None, min_n: int, floor: float) -> str:
    """Where an agent stands between active and retired."""
    if metrics is None:
        return "no_telemetry" if spec.enabled else "retired"
    if not spec.enabled:
        recovered = metrics["n"] >= min_n and mean_lower_bound(metrics["rewards"]) > floor
        return "revival" if recovered else "retired"
    if metrics["n"] < min_n:
        return "too_few_runs"
    if metrics["rolling_avg_reward"] >= floor:
        return "active"
    return "candidate" if metrics["upper_bound"] < floor else "probation"


def assess(
    manifest: Manifest,
    events: Sequence[Event],
    outcomes: Sequence[Mapping[str, Any]] = (),
    *,
    min_n: int = MIN_N,
    reward_floor: float = REWARD_FLOOR,
    window: int = WINDOW,
) -> list[dict[str, Any]]:
    """One row per agent of the manifest and per unknown name in the telemetry, candidates first."""
    metrics = rolling_metrics(events, window, reward_floor)
    unique = marginal.unique_shares(events)
    domain = load_domain(manifest.domain)
    by_agent: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_agent[str(event["agent"])].append({**event, "day": marginal.day_of(event)})
    rows = []
    for spec in manifest.agents:
        measured, own = metrics.get(spec.name), by_agent[spec.name]
        where = state(spec, measured, min_n, reward_floor)
        if where == "candidate" and spec.name in manifest.retirement.exempt:
            where = "exempt"
        rows.append(
            {
                "agent": spec.name,
                "module": spec.module,
                "state": where,
                "execution_sensitive": spec.execution_sensitive,
                **_shown(measured or {"n": 0, "rolling_avg_reward": None, "rewards": []}),
                **unique.get(spec.name, {"signals": 0, "unique_signals": 0, "unique_share": None}),
                "hits": marginal.hits(own, outcomes, domain.came_true),
                **{column.name: column.measure(own, outcomes) for column in domain.columns},
            }
        )
    known = {spec.name for spec in manifest.agents}
    rows += [
        {"agent": name, "module": None, "state": "not_in_manifest", **_shown(metrics[name])}
        for name in sorted(metrics.keys() - known)
    ]
    order = ("candidate", "revival", "probation")
    return sorted(
        rows, key=lambda row: (order.index(row["state"]) if row["state"] in order else 9, row["agent"])
    )
