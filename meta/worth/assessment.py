"""What an agent is worth lately: pure functions from its runs to metrics, a state, and a row of the report."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta.worth.report import Agent, Hits, Listed, Measured, Metrics, Unique
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.records import plain
from telemetry.logger import INFRASTRUCTURE
from telemetry.read.intervals import mean_lower_bound, mean_upper_bound, wilson

if TYPE_CHECKING:
    from agents.manifest import AgentSpec, Manifest

WINDOW = 200  # runs
MIN_N = 100
REWARD_FLOOR = 0.05
USEFUL_SIGNAL = 0.2  # signal strength from which a run was of use to somebody
TREND_POINTS = 40

ORDER = ("candidate", "revival", "probation")  # of the states that a reader wants to see first

Event = Mapping[str, Any]


def rolling_metrics(
    events: Iterable[Event], window: int = WINDOW, floor: float = math.inf
) -> dict[str, dict[str, Any]]:
    """Per agent, over its last `window` runs of its latest scoring version: reward, bound, cost, usefulness.

    A run that failed by the agent's own fault found nothing: its reward is 0. Infrastructure failures are skipped.
    The bound is worked out only for a mean below `floor`: above it, nothing depends on it.
    """
    return {agent: plain(found) for agent, found in metrics_of(events, window, floor).items()}


def metrics_of(events: Iterable[Event], window: int, floor: float) -> dict[str, Metrics]:
    """The same as records."""
    by_agent: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.get("error_kind") not in INFRASTRUCTURE:
            by_agent[str(event["agent"])].append(event)
    return {agent: _metrics(rows, window, floor) for agent, rows in by_agent.items()}


def _metrics(rows: Sequence[Event], window: int, floor: float) -> Metrics:
    versions = [row.get("scoring_version") for row in rows if row.get("scoring_version")]
    current = versions[-1] if versions else None
    own = [row for row in rows if row.get("scoring_version") in (current, None)][-window:]
    rewards = [float(row["reward"]) if row.get("reward") is not None else 0.0 for row in own]
    mean = sum(rewards) / len(rewards)
    costs = [row.get("cost_usd") for row in own]
    known = [float(cost) for cost in costs if cost is not None]
    useful = sum((row.get("signal_strength") or 0.0) >= USEFUL_SIGNAL for row in own)
    measured = Measured(
        upper_bound=mean_upper_bound(rewards) if mean < floor else None,
        scoring_version=current,
        other_version_runs=len(rows) - len(own) if len(rows) <= window else 0,
        own_failures=sum(row.get("error_kind") is not None for row in own),
        total_cost_usd=sum(known) if known else None,
        unpriced_runs=len(costs) - len(known),
        useful_runs=useful,
        cost_per_useful_signal_usd=sum(known) / useful if useful and len(known) == len(costs) else None,
    )
    return Metrics(len(own), mean, tuple(rewards), measured)


def _trend(rewards: Sequence[float]) -> tuple[float, ...]:
    """The rewards as at most TREND_POINTS averages, oldest first."""
    size = max(1, -(-len(rewards) // TREND_POINTS))
    chunks = [rewards[i : i + size] for i in range(0, len(rewards), size)]
    return tuple(round(sum(chunk) / len(chunk), 4) for chunk in chunks)


def state(spec: AgentSpec, metrics: Metrics | None, min_n: int, floor: float) -> str:
    """Where an agent stands between active and retired."""
    if metrics is None:
        return "no_telemetry" if spec.enabled else "retired"
    if not spec.enabled:
        recovered = metrics.n >= min_n and mean_lower_bound(metrics.rewards) > floor
        return "revival" if recovered else "retired"
    if metrics.n < min_n:
        return "too_few_runs"
    if metrics.rolling_avg_reward >= floor:
        return "active"
    bound = metrics.measured.upper_bound
    return "candidate" if bound is not None and bound < floor else "probation"


def assess(
    manifest: Manifest,
    events: Sequence[Event],
    outcomes: Sequence[Event] = (),
    *,
    min_n: int = MIN_N,
    reward_floor: float = REWARD_FLOOR,
    window: int = WINDOW,
) -> list[Agent]:
    """One row per agent of the manifest and per unknown name in the telemetry, candidates first."""
    from agents.domain import load_domain

    metrics = metrics_of(events, window, reward_floor)
    unique = unique_shares(events)
    domain = load_domain(manifest.domain)
    by_agent: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_agent[str(event["agent"])].append({**event, "day": day_of(event)})
    rows = []
    for spec in manifest.agents:
        measured, own = metrics.pop(spec.name, None), by_agent[spec.name]
        where = state(spec, measured, min_n, reward_floor)
        if where == "candidate" and spec.name in manifest.retirement.exempt:
            where = "exempt"
        listed = Listed(spec.execution_sensitive, hits(own, outcomes, domain.came_true))
        alone = unique.get(spec.name, Unique())
        found = {column.name: column.measure(own, outcomes) for column in domain.columns}
        more = {"listed": listed, "unique": alone, "columns": found}
        rows.append(_row(spec.name, spec.module, where, measured, **more))
    rows += [_row(name, None, "not_in_manifest", metrics[name]) for name in sorted(metrics)]
    return sorted(rows, key=lambda row: (ORDER.index(row.state) if row.state in ORDER else 9, row.agent))


def _row(agent: str, module: str | None, where: str, metrics: Metrics | None, **more: Any) -> Agent:
    if metrics is None:
        return Agent(agent, module, where, 0, None, (), **more)
    mean, trend = metrics.rolling_avg_reward, _trend(metrics.rewards)
    return Agent(agent, module, where, metrics.n, mean, trend, metrics.measured, **more)


OUTCOMES = Path("telemetry/outcomes.jsonl")

CameTrue = Callable[[Event], tuple[str, bool] | None]  # of an outcome: what it is about, and did it happen


def day_of(event: Event) -> str:
    """The day a run stood on: `as_of` of a replayed one, else the day it ran."""
    return str(event.get("day") or event.get("as_of") or event.get("ts") or "")[:10]


def _said(event: Event) -> list[str]:
    """The signals of a run; see telemetry.reward."""
    return str(event.get("signals") or "").split()


def unique_shares(events: Iterable[Event]) -> dict[str, Unique]:
    """Per agent: distinct signals by day, and the share of them that no other agent gave the same day."""
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        for key in _said(event):
            said[day_of(event), key].add(str(event["agent"]))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for agents in said.values():
        for agent in agents:
            totals[agent][0] += 1
            totals[agent][1] += len(agents) == 1
    return {agent: Unique(n, alone, alone / n) for agent, (n, alone) in totals.items()}


def load_outcomes(repo: Repo, path: Path | None = None) -> list[dict[str, Any]]:
    """What happened next, one JSON object a line; no file is no outcome."""
    file = repo / OUTCOMES if path is None else path
    if not file.exists():
        return []
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as problem:
            raise BadInput(f"{file}: line {number}: not JSON: {problem}") from None
        if not isinstance(row, dict) or not isinstance(row.get("date"), str):
            raise BadInput(f"{file}: line {number}: date: must be a string such as 2026-03-16")
        rows.append(row)
    return rows


def hits(events: Iterable[Event], outcomes: Iterable[Event], came_true: CameTrue) -> Hits | None:
    """Hit rate of an agent's alerts and its lift over the base rate of the subjects it speaks of."""
    happened = {(row["date"], known[0]): known[1] for row in outcomes if (known := came_true(row))}
    said = {(day_of(event), key.split(":")[0]) for event in events for key in _said(event)}
    alerts = said & happened.keys()
    if not alerts:
        return None
    subjects = {subject for _, subject in alerts}
    of = [came for (_, subject), came in happened.items() if subject in subjects]
    true = sum(happened[alert] for alert in alerts)
    rate, base = true / len(alerts), sum(of) / len(of)
    interval = wilson(true, len(alerts))
    lifted = (interval[0] / base, interval[1] / base) if interval and base else None
    return Hits(len(alerts), rate, interval, base, rate / base if base else None, lifted)
