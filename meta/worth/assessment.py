"""What an agent is worth lately: pure functions from its runs to metrics, a state, and a row of the report."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from meta.worth.evidence import CONVINCED, Known, against
from meta.worth.record import Agent, Basis, Hits, Listed, Measured, Metrics, Unique
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain
from telemetry.read import field
from telemetry.read.field import USEFUL_SIGNAL, WINDOW, Row, day_of, said
from telemetry.read.intervals import Mean, mean_lower_bound, mean_upper_bound, wilson
from telemetry.reward import DEFAULT, Weights, penalty

if TYPE_CHECKING:
    from agents.manifest import AgentSpec, Manifest

MIN_N = 100  # days
REWARD_FLOOR = 0.05
SETTLED_SHARE = 0.5  # of the runs, from which settled reward decides
TREND_POINTS = 40

ORDER = ("candidate", "revival", "loud", "probation")  # of the states that a reader wants to see first

NOTHING_KNOWN = Known({}, {})


@frozen
class Graded:
    """How an agent did on its suite, and how often an empty answer would have passed there."""

    passed: int
    counted: int
    empty_rate: float

    def better_than_silence(self) -> bool:
        """Whether it passes clearly more than who says nothing."""
        low, _ = wilson(self.passed, self.counted) or (0.0, 1.0)
        return low > self.empty_rate

    def worth(self, *, off: bool) -> float:
        """What it passes beyond silence, in 0..1: at best for who runs, at worst for who wants to come back."""
        low, high = wilson(self.passed, self.counted) or (0.0, 1.0)
        beyond = (low if off else high) - self.empty_rate
        return max(0.0, beyond / (1 - self.empty_rate)) if self.empty_rate < 1 else 0.0


Grades = Callable[[str], Graded | None]  # by agent; None where its suite was not run


def rolling_metrics(
    events: Iterable[Row], window: int = WINDOW, floor: float = math.inf
) -> dict[str, dict[str, Any]]:
    """Per agent, over its last `window` days under its latest scoring version: reward, evidence, cost, usefulness.

    The bound is worked out only for a mean below `floor`: above it, nothing depends on it.
    """
    found = field.by_agent(events)
    return {agent: plain(_metrics(rows, window, floor, NOTHING_KNOWN, None)) for agent, rows in found.items()}


def _metrics(
    rows: Sequence[Row],
    window: int,
    floor: float,
    known: Known,
    graded: Graded | None,
    weights: Weights = DEFAULT,
    off: bool = False,
) -> Metrics:
    days = field.lately(rows, window)
    own = list(chain.from_iterable(days.rows.values()))
    rewards = days.rewards()
    settled, share = _settled(days, known)
    weighed = _weighed(own)
    basis: Basis
    if share >= SETTLED_SHARE:
        basis, judged = "settled_reward", settled
    elif weighed:
        basis, judged = "reward_and_pass_rate" if graded else "reward", rewards
    elif graded:
        basis, judged = "pass_rate", _by_pass_rate(days, graded.worth(off=off), weights)
    else:
        basis, judged = "nothing", {}
    values = list(judged.values())
    found = against(values, min(floor, 0.999)) if values and math.isfinite(floor) else None
    known_costs = [float(row["cost_usd"]) for row in own if row.get("cost_usd") is not None]
    unpriced = sum(int(row.get("unpriced_runs", row.get("cost_usd") is None)) for row in own)
    useful = [sum(map(_useful, of_day)) for of_day in days.rows.values()]
    spoken, cost = sum(useful), sum(known_costs)
    silences = (len(list(own)) for spoke, own in groupby(map(bool, useful)) if not spoke)
    others = (row for row in rows if row.get("scoring_version") not in (days.version, None))
    measured = Measured(
        runs=days.runs,
        basis=basis,
        settled_share=share,
        settled_reward=sum(settled.values()) / len(settled) if settled else None,
        pass_rate=graded.passed / graded.counted if graded else None,
        empty_pass_rate=graded.empty_rate if graded else None,
        odds=found.odds if found else None,
        since=list(judged)[found.start] if found and judged else None,
        longest_silence=max(silences, default=0) if weighed else None,
        upper_bound=mean_upper_bound(values) if sum(values) < floor * len(values) else None,
        lower_bound=mean_lower_bound(values) if off and values else None,
        scoring_version=days.version,
        other_version_runs=sum(map(field.runs, others)),
        own_failures=sum(int(row.get("own_failures", row.get("error_kind") is not None)) for row in own),
        total_cost_usd=cost if known_costs else None,
        unpriced_runs=unpriced,
        useful_runs=spoken if weighed else None,
        cost_per_useful_signal_usd=cost / spoken if weighed and spoken and not unpriced else None,
    )
    mean = Mean.of(list(rewards.values())).mean if rewards and weighed else None
    trend = tuple((rewards if weighed else judged).values())
    return Metrics(len(days.rows), mean, trend, measured, tuple(values))


def _weighed(rows: Iterable[Row]) -> bool:
    """Whether most of what it said has a reward: somebody says what a signal is."""
    said = [(row.get("reward") is not None, field.runs(row)) for row in rows if not field.failed(row)]
    return 2 * sum(runs for rewarded, runs in said if rewarded) >= sum(runs for _, runs in said)


def _by_pass_rate(days: field.Days, worth: float, weights: Weights) -> dict[str, float]:
    """What each day was worth by the suite, less what its runs cost and how long they took; a broken run is worth 0."""

    def value(row: Row) -> float:
        cost = row.get("run_cost_usd", row.get("cost_usd"))
        return 0.0 if field.failed(row) else worth - penalty({**row, "cost_usd": cost}, weights)

    return {day: field.mean([{**row, "reward": value(row)} for row in own]) for day, own in days.rows.items()}


def _settled(days: field.Days, known: Known) -> tuple[dict[str, float], float]:
    """The mean settled reward of each day of which anything is known, and the share of runs that are settled."""
    if not known.happened:
        return {}, 0.0
    own = list(chain.from_iterable(days.rows.values()))
    by_day: dict[str, list[Row]] = defaultdict(list)
    for row, value in zip(own, known.settled(own), strict=True):
        if value is not None:
            by_day[day_of(row)].append({**row, "reward": value})
    done = sum(field.runs(row) for row in chain.from_iterable(by_day.values()))
    return {day: field.mean(rows) for day, rows in by_day.items()}, done / days.runs


def _useful(row: Row) -> int:
    return int(row.get("useful_runs", (row.get("signal_strength") or 0.0) >= USEFUL_SIGNAL))


def _trend(rewards: Sequence[float]) -> tuple[float, ...]:
    """The rewards as at most TREND_POINTS averages, oldest first."""
    size = max(1, -(-len(rewards) // TREND_POINTS))
    chunks = [rewards[i : i + size] for i in range(0, len(rewards), size)]
    return tuple(round(sum(chunk) / len(chunk), 4) for chunk in chunks)


def loud(hits: Hits | None, enough: int) -> bool:
    """Whether so many alerts have an outcome, and those come true no more often than chance has it."""
    if hits is None or hits.alerts < enough or hits.hit_rate_interval is None:
        return False
    return hits.hit_rate_interval[0] <= hits.base_rate


def state(
    spec: AgentSpec,
    metrics: Metrics | None,
    min_n: int,
    floor: float,
    hits: Hits | None = None,
    graded: Graded | None = None,
) -> str:
    """Where an agent stands between active and retired."""
    if metrics is None:
        return "no_telemetry" if spec.enabled else "retired"
    judged, measured = metrics.judged, metrics.measured
    if not spec.enabled:
        bound = measured.lower_bound
        return "revival" if len(judged) >= min_n and bound is not None and bound > floor else "retired"
    if metrics.n < min_n:
        return "too_few_runs"
    if loud(hits, min_n):
        return "loud"
    if measured.basis == "nothing":
        return "ungraded"
    if measured.odds is not None and measured.odds >= CONVINCED:
        vouched = measured.basis == "reward_and_pass_rate" and graded and graded.better_than_silence()
        return "probation" if vouched else "candidate"
    return "active" if sum(judged) >= floor * len(judged) else "probation"


def assess(
    manifest: Manifest,
    events: Iterable[Row],
    outcomes: Sequence[Row] = (),
    *,
    min_n: int = MIN_N,
    reward_floor: float = REWARD_FLOOR,
    window: int = WINDOW,
    grades: Grades = lambda agent: None,
) -> list[Agent]:
    """One row per agent of the manifest and per unknown name in the telemetry, those to decide on first."""
    from agents.domain import load_domain

    by_agent = field.by_agent(events)
    unique = unique_shares(chain.from_iterable(by_agent.values()))
    domain = load_domain(manifest.domain)
    known = Known.of(outcomes, domain.came_true)
    rows = []
    for spec in manifest.agents:
        own = [row if "day" in row else {**row, "day": day_of(row)} for row in by_agent.pop(spec.name, ())]
        shadow = [row for row in own if row.get("shadow", row.get("source") == "shadow")]
        counted = own if spec.enabled else shadow
        graded = grades(spec.name) if counted else None
        about = (window, reward_floor, known, graded, spec.reward, not spec.enabled)
        measured = _metrics(counted, *about) if counted else None
        hits = known.hits(counted)
        where = state(spec, measured, min_n, reward_floor, hits, graded)
        if where in ("candidate", "loud") and spec.name in manifest.retirement.exempt:
            where = "exempt"
        row = _row(spec.name, spec.module, where, measured)
        found = {column.name: column.measure(own, outcomes) for column in domain.columns}
        listed = Listed(spec.execution_sensitive, hits)
        rows.append(replace(row, listed=listed, unique=unique.get(spec.name, Unique()), columns=found))
    for name, own in by_agent.items():
        measured = _metrics(own, window, reward_floor, known, None)
        rows.append(_row(name, None, "not_in_manifest", measured))
    return sorted(rows, key=lambda row: (ORDER.index(row.state) if row.state in ORDER else 9, row.agent))


def _row(agent: str, module: str | None, where: str, metrics: Metrics | None) -> Agent:
    if metrics is None:
        return Agent(agent, module, where, 0, None, ())
    mean, trend = metrics.rolling_avg_reward, _trend(metrics.rewards)
    return Agent(agent, module, where, metrics.n, mean, trend, metrics.measured)


def unique_shares(rows: Iterable[Row]) -> dict[str, Unique]:
    """Per agent: distinct signals by day, and the share of them that no other agent gave the same day."""
    gave: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        for key in said(row):
            gave[day_of(row), key].add(str(row["agent"]))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for agents in gave.values():
        for agent in agents:
            totals[agent][0] += 1
            totals[agent][1] += len(agents) == 1
    return {agent: Unique(n, alone, alone / n) for agent, (n, alone) in totals.items()}
