"""How each agent has been doing of late, and before that: what a reviewer compares.

Only runs of real nights: a replay runs many days at once and an eval is an exercise, so their latency and cost say
nothing about tonight's. A run that failed through no fault of the agent's is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from telemetry.edge.repo import Repo

RECENT: Final = 20  # runs that count as lately: the reviewer asks for as many before it speaks of a spike
BEFORE: Final = 200  # runs before those that make the baseline, as far as there are so many
NEWEST: Final = 20_000  # runs looked at: enough for RECENT + BEFORE of some ninety agents

FIGURES: Final = ("count", "error_rate", "p95_latency_ms", "avg_cost_usd", "avg_reward")
FIGURES_SQL: Final = """
select
    agent,
    age <= {recent} as lately,
    count(*) as count,
    count(coalesce(error, error_kind)) * 1e0 / count(*) as error_rate,
    percentile_cont(0.95) within group (order by latency_ms) as p95_latency_ms,
    avg(cost_usd) as avg_cost_usd,
    case when count(distinct scoring_version) = 1 then avg(reward) end as avg_reward
from (
    select *, row_number() over (partition by agent order by ts desc, event_id desc) as age
    from events
    where error_kind is null or error_kind not in ({foreign})
) as numbered
where age <= {recent} + {before}
group by agent, age <= {recent}
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """An agent's figures over its last runs, and over those before; empty where there are none."""

    telemetry: Mapping[str, Any] = field(default_factory=dict)
    baseline: Mapping[str, Any] = field(default_factory=dict)


def standings(repo: Repo) -> dict[str, Standing]:
    """By agent, from the log and the sealed days as they are now."""
    from telemetry.names import INFRASTRUCTURE
    from telemetry.read import store
    from telemetry.read.rows import Window, quoted

    foreign = ", ".join(map(quoted, sorted(INFRASTRUCTURE)))
    sql = FIGURES_SQL.format(recent=RECENT, before=BEFORE, foreign=foreign)
    found: dict[tuple[str, bool], dict[str, Any]] = {}
    with store.connect(repo, Window(last_n=NEWEST, source="runtime", kind="run")) as con:
        for agent, lately, *figures in con.execute(sql).fetchall():
            found[agent, lately] = dict(zip(FIGURES, map(_rounded, figures), strict=True))
    return {
        agent: Standing(found.get((agent, True), {}), found.get((agent, False), {})) for agent, _ in found
    }


def _rounded(figure: float | None) -> float | None:
    """Fit to be quoted as evidence."""
    return round(figure, 6) if isinstance(figure, float) else figure
