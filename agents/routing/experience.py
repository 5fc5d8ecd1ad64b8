"""What is known of each arm (an agent, or a model of one) by task type: counted from rows, believed as a normal.

An arm's worth differs by task type, but not by much: what it earned on other types is the prior for this one.

    worth of an arm           ~ normal(mean of everyone, PRIOR_SD)
    worth of it on one type   ~ normal(worth of the arm, TYPE_SD)
    reward of a run           ~ normal(worth on its type, noise as pooled over all cells)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from agents.routing.task import UNTYPED
from telemetry.edge.frozen import frozen
from telemetry.logger import FIELD, INFRASTRUCTURE

if TYPE_CHECKING:
    import numpy as np

    from telemetry.edge.files import Repo

    Array = np.ndarray[Any, np.dtype[np.float64]]

PRIOR_SD: Final = 0.5  # of an arm's worth before it ran; rewards lie in about -1..1
TYPE_SD: Final = 0.15  # how much an arm's worth differs from one task type to another
LEAST_NOISE: Final = 0.05  # of a single run: arms that always earned the same may yet differ
USUAL_NOISE: Final = 0.3  # until two runs of one cell have shown it
DAYS: Final = 90  # that count: models and prompts behind a name change
AT: Final = "@"  # between an agent and one of its models


@frozen
class Beliefs:
    """By arm, as asked for: what a run is expected to earn, how unsure that is, how many runs it stands on."""

    mean: Array
    sd: Array
    runs: Array


class Experience:
    """Runs and their rewards, by task type and arm."""

    def __init__(self, arms: Iterable[str]) -> None:
        import numpy as np

        self.arms = {arm: at for at, arm in enumerate(dict.fromkeys(arms))}
        self.types: dict[str, int] = {}
        self._sums: Any = np.zeros((3, 0, len(self.arms)))  # runs, sum and sum of squares: type by arm

    def observe(self, arm: str, task_type: str, reward: float) -> None:
        """One more run."""
        self.add(arm, task_type, 1, reward, reward * reward)

    def add(self, arm: str, task_type: str, runs: float, total: float, squares: float) -> None:
        """Many more; an arm that nobody routes to is left out."""
        if arm in self.arms:
            own = self._type(task_type)  # may make room, so before the sums are looked up
            self._sums[:, own, self.arms[arm]] += (runs, total, squares)

    def _type(self, name: str) -> int:
        import numpy as np

        if name not in self.types:
            self.types[name] = len(self.types)
            self._sums = np.concatenate([self._sums, np.zeros((3, 1, len(self.arms)))], axis=1)
        return self.types[name]

    def beliefs(self, task_type: str, arms: Sequence[str]) -> Beliefs:
        """What these arms are believed to be worth on tasks of that type."""
        return self.beliefs_at(task_type, self.columns(arms))

    def columns(self, arms: Iterable[str]) -> Array:
        """Where these arms stand: for who asks about many, often."""
        import numpy as np

        return np.array([self.arms[arm] for arm in arms])

    def beliefs_at(self, task_type: str, columns: Array) -> Beliefs:
        """The same, of arms by where they stand."""
        import numpy as np

        runs, total, squares = self._sums[:, :, columns]
        own = self.types.get(task_type)
        known = runs > 0
        mean = np.divide(total, runs, out=np.zeros_like(total), where=known)
        spread = float((squares - total * mean).sum())
        free = float((runs - 1)[known].sum())
        noise = max(LEAST_NOISE**2, spread / free if free > 0 else USUAL_NOISE**2)
        everyone = float(total.sum() / runs.sum()) if known.any() else 0.0
        weight = np.where(known, 1 / (TYPE_SD**2 + noise / np.where(known, runs, 1)), 0.0)
        if own is not None:
            weight[own] = 0.0  # other types make the prior, this one the evidence
        precision = 1 / PRIOR_SD**2 + weight.sum(axis=0)
        prior = (everyone / PRIOR_SD**2 + (weight * mean).sum(axis=0)) / precision
        before = 1 / (1 / precision + TYPE_SD**2)
        here = runs[own] if own is not None else np.zeros(len(columns))
        earned = total[own] if own is not None else np.zeros(len(columns))
        after = before + here / noise
        return Beliefs((before * prior + earned / noise) / after, 1 / np.sqrt(after), runs.sum(axis=0))


# A run that failed by its agent's own fault earned nothing; one that the endpoint or a source broke is no run.
# Versions of the reward are never averaged: an agent's newest counts.
WORTH_SQL: Final = """
worth as (
    select run_id, agent, task_type, scoring_version, ts,
        case when error_kind in ({foreign}) then null when error_kind is not null then 0 else reward end as worth
    from events where kind = 'run'
),
newest as (
    select agent, arg_max(scoring_version, ts) filter (where scoring_version is not null) as version
    from worth group by agent
),
runs as (
    select run_id, agent, coalesce(task_type, {untyped}) as task_type, worth from worth join newest using (agent)
    where worth is not null and (scoring_version is null or scoring_version = version)
)
"""
# The same in one pass over the rows, for the many: which version is an agent's newest is seen from the groups.
AGENTS_SQL: Final = """
with worth as (
    select agent, coalesce(task_type, {untyped}) as task_type, scoring_version, ts,
        case when error_kind is not null then 0 else reward end as worth
    from events where error_kind is null or error_kind not in ({foreign})
),
groups as (
    select agent, task_type, scoring_version, max(ts) as last,
        count(worth) as runs, sum(worth) as total, sum(worth * worth) as squares
    from worth group by agent, task_type, scoring_version
),
ranked as (select *, arg_max(scoring_version, last) over (partition by agent) as version from groups)
select agent, task_type, sum(runs), sum(total), sum(squares) from ranked
where runs > 0 and (scoring_version is null or scoring_version = version) group by agent, task_type
"""
DRAWN_SQL: Final = f"""
with {WORTH_SQL}
select selected_agent_id, runs.task_type, count(*), sum(worth), sum(worth * worth)
from runs join events using (run_id) where kind = 'routing' and position('{AT}' in selected_agent_id) > 0
group by selected_agent_id, runs.task_type
"""


def worth_of(row: Mapping[str, Any]) -> float | None:
    """What a run earned, as the SQL has it: None where it is not known, or no fault of its agent."""
    if row.get("error_kind") is not None:
        return None if row["error_kind"] in INFRASTRUCTURE else 0.0
    return row.get("reward")


def filled(sql: str, **parts: str) -> str:
    """A query with the words that every one of them shares."""
    from telemetry.read.rows import quoted

    foreign = ", ".join(map(quoted, sorted(INFRASTRUCTURE)))
    return sql.format(untyped=quoted(UNTYPED), foreign=foreign, **parts)


def load_experience(repo: Repo, agents: Iterable[str]) -> Experience:
    """What runs of the last months earned, by agent, however each came by its task."""
    return _loaded(repo, agents, AGENTS_SQL, "run", ["task_type"])


def load_drawn(repo: Repo, arms: Iterable[str]) -> Experience:
    """What the runs earned for which one of an agent's models was drawn, by `agent@model`."""
    return _loaded(repo, arms, DRAWN_SQL, None, ["task_type", "selected_agent_id"])


def _loaded(repo: Repo, arms: Iterable[str], sql: str, kind: str | None, fields: Sequence[str]) -> Experience:
    from telemetry.read.rows import Window
    from telemetry.read.store import connect

    found = Experience(arms)
    window = Window(kind=kind, among=FIELD, since=datetime.now(UTC) - timedelta(days=DAYS))
    with connect(repo, window, fields=fields) as con:
        for tally in con.execute(filled(sql)).fetchall():
            found.add(*tally)
    return found
