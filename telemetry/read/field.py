"""Field reward: what runs in the field earned, by agent and day; the one place where a mean reward comes from.

Four runs of a day see the same world: the day is the observation, and its reward is the mean over its runs. Runs on
the same input under the same prompt are one run, however often they are repeated. A run that failed by the agent's own
fault found nothing: its reward is 0. Failures of the endpoint or of a data source are no runs. Rewards under different
scoring versions are never averaged: an agent's newest version counts. A run that came through without a reward is one
that nobody can weigh: it is no part of a mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.frozen import frozen
from telemetry.logger import FIELD, INFRASTRUCTURE
from telemetry.read.intervals import Mean
from telemetry.read.rows import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

WINDOW: Final = 200  # days
USEFUL_SIGNAL: Final = 0.2  # signal strength from which a run was of use to somebody

# A row: one run as logged, or all runs of a day that said the same, their number in `runs` and their means beside it.
Row = Mapping[str, Any]

# What is asked of a row.
ASKED: Final = (
    *("agent", "source", "ts", "as_of", "error_kind", "scoring_version", "cost_usd", "reward", "latency_ms"),
    *("input_hash", "prompt_hash", "signals", "signal_strength", "profit_pct", "provider"),
)
# What some rows come to by day, repeated runs once. Parts of rows that repeat none of each other's inputs add up.
# Of an input that was said different things about, the newest counts. Few inputs are, and looking for the newest takes
# several times as long as looking for those: a hash that two inputs share only sends both the longer way.
PART_SQL: Final = """
with alike as materialized (
    select
        agent, input_hash, prompt_hash, scoring_version, signals, source = 'shadow' as shadow,
        coalesce(try_cast(as_of as date), cast(ts as date)) as day,
        hash(agent, source = 'shadow', input_hash, prompt_hash) as input, count(*) as copies, max(ts) as ts,
        case when unweighed then null when input_hash is null then avg(coalesce(reward, 0))
            else arg_max(coalesce(reward, 0), ts) end as reward,
        case when input_hash is null then avg(coalesce(signal_strength, 0))
            else arg_max(coalesce(signal_strength, 0), ts) end as signal_strength,
        count(*) filter (where signal_strength >= {useful}) as useful,
        count(error_kind) as failures, count(*) - count(cost_usd) as unpriced,
        sum(cost_usd) as cost_usd, max(profit_pct) as profit_pct, max(provider) as provider,
        avg(cost_usd) as run_cost_usd, avg(latency_ms) as latency_ms
    from (select *, reward is null and error_kind is null as unweighed from {table} as asked) as told
    where source in ({sources}) and (error_kind is null or error_kind not in ({foreign}))
    group by 1, 2, 3, 4, 5, 6, 7, unweighed
),
changed as (
    select input from alike where input_hash is not null group by input having count(*) > 1
)
select
    agent, day, scoring_version, signals, shadow, reward is null as unweighed, sum(runs) as runs, max(ts) as ts,
    sum(reward * runs) / sum(runs) as reward, sum(signal_strength * runs) / sum(runs) as signal_strength,
    sum(case when copies = runs then useful when signal_strength >= {useful} then 1 else 0 end) as useful_runs,
    sum(least(failures, runs)) as own_failures,
    sum(least(unpriced, runs)) as unpriced_runs,
    sum(cost_usd) as cost_usd, max(profit_pct) as profit_pct, max(provider) as provider,
    sum(case when run_cost_usd is not null then runs end) as priced,
    sum(run_cost_usd * runs) / sum(case when run_cost_usd is not null then runs end) as run_cost_usd,
    sum(case when latency_ms is not null then runs end) as timed,
    sum(latency_ms * runs) / sum(case when latency_ms is not null then runs end) as latency_ms
from (
    select *, case when input_hash is null then copies else 1 end as runs
    from (
        select * from alike where input_hash is null or input not in (select input from changed)
        union all
        select * exclude (k)
        from (
            select *, row_number() over (partition by agent, shadow, input_hash, prompt_hash order by ts desc) as k
            from alike where input_hash is not null and input in (select input from changed)
        ) as numbered
        where k = 1
    ) as latest
) as single
group by 1, 2, 3, 4, 5, 6
"""
# The parts together, of each agent's last days.
WHOLE_SQL: Final = """
select
    agent, cast(day as varchar) as day, scoring_version, signals, shadow, cast(sum(runs) as bigint) as runs,
    sum(reward * runs) / sum(runs) as reward, sum(signal_strength * runs) / sum(runs) as signal_strength,
    cast(sum(useful_runs) as bigint) as useful_runs,
    cast(sum(own_failures) as bigint) as own_failures,
    cast(sum(unpriced_runs) as bigint) as unpriced_runs,
    sum(cost_usd) as cost_usd, max(profit_pct) as profit_pct, max(provider) as provider,
    sum(run_cost_usd * priced) / sum(priced) as run_cost_usd,
    sum(latency_ms * timed) / sum(timed) as latency_ms, max(ts) as ts
from (
    select *, dense_rank() over (partition by agent, shadow order by day desc) as age from {parts} as part
) as aged
where age <= {window}
group by agent, day, scoring_version, signals, shadow, unweighed
"""
COLUMNS: Final = (
    *(
        "agent",
        "day",
        "scoring_version",
        "signals",
        "shadow",
        "runs",
        "reward",
        "signal_strength",
        "useful_runs",
    ),
    *("own_failures", "unpriced_runs", "cost_usd", "profit_pct", "provider", "run_cost_usd", "latency_ms"),
)
# What tells how much agents earned: of a million inputs, a third less to work out.
EARNED: Final = ("agent", "day", "scoring_version", "runs", "reward", "own_failures")


def load(
    con: DuckDBPyConnection,
    sources: Iterable[str],
    window: int = WINDOW,
    *,
    table: str = "events",
    parts: str | None = None,
    columns: Sequence[str] = COLUMNS,
) -> list[dict[str, Any]]:
    """The rows of each agent's last `window` days, oldest first: runs of a day that said the same are one row.

    `parts` stands for the table, where what its rows come to is known already; `columns` are those that are asked for.
    """
    whole = WHOLE_SQL.format(parts=parts or f"({part_sql(table, sources)})", window=int(window))
    found = con.execute(f"select {', '.join(columns)} from ({whole}) as whole order by agent, ts")
    return [dict(zip(columns, row, strict=True)) for row in iter(found.fetchone, None)]


def part_sql(table: str, sources: Iterable[str]) -> str:
    """What the rows of a table come to by day."""
    return PART_SQL.format(
        sources=", ".join(map(quoted, sources)),
        foreign=", ".join(map(quoted, sorted(INFRASTRUCTURE))),
        useful=USEFUL_SIGNAL,
        table=table,
    )


def said(row: Row) -> list[str]:
    """The signals of a run; see telemetry.reward."""
    return str(row.get("signals") or "").split()


def subjects(row: Row) -> set[str]:
    """What a run speaks of."""
    return {key.split(":")[0] for key in said(row)}


def day_of(row: Row) -> str:
    """The day a run stood on: `as_of` of a replayed one, else the day it ran."""
    return str(row.get("day") or row.get("as_of") or row.get("ts") or "")[:10]


def by_agent(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows that count, repeated runs once, in the order given."""
    kept: dict[Any, Row] = {}
    for number, row in enumerate(rows):
        if row.get("error_kind") not in INFRASTRUCTURE:
            given = row.get("input_hash")
            key = (
                number
                if given is None
                else (row["agent"], row.get("source") == "shadow", given, row.get("prompt_hash"))
            )
            kept.pop(key, None)  # the newest of equal runs stands for them, in its place
            kept[key] = row
    found: dict[str, list[Row]] = defaultdict(list)
    for row in kept.values():
        found[str(row["agent"])].append(row)
    return found


@frozen
class Days:
    """An agent's last days under its newest scoring version, oldest first."""

    version: str | None
    rows: Mapping[str, Sequence[Row]]  # day -> its rows

    @property
    def runs(self) -> int:
        return sum(map(runs, chain.from_iterable(self.rows.values())))

    def rewards(self) -> dict[str, float]:
        """The mean reward of each day on which a run was weighed."""
        days = {day: [row for row in own if weighed(row)] for day, own in self.rows.items()}
        return {day: mean(own) for day, own in days.items() if own}


def lately(rows: Sequence[Row], window: int = WINDOW) -> Days:
    """One agent's rows by day; the version of its last rewarded run counts, and runs that failed under any."""
    versions = [version for row in rows if (version := row.get("scoring_version"))]
    current = versions[-1] if versions else None
    days: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("scoring_version") in (current, None):
            days[day_of(row)].append(row)
    return Days(current, {day: days[day] for day in sorted(days)[-window:]})


def runs(row: Row) -> int:
    """How many runs a row stands for."""
    return int(row.get("runs", 1))


def weighed(row: Row) -> bool:
    """Whether it is known what the run earned: a reward, or nothing by its agent's own fault."""
    return row.get("reward") is not None or failed(row)


def failed(row: Row) -> bool:
    """Whether the agent broke the run itself."""
    return bool(row.get("own_failures", row.get("error_kind") is not None))


def mean(rows: Sequence[Row], name: str = "reward") -> float:
    """The mean over the runs of some rows; what is missing is 0."""
    if len(rows) == 1:  # most days of most agents
        return float(rows[0].get(name) or 0.0)
    known = [(float(row.get(name) or 0.0), runs(row)) for row in rows]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known)


@frozen
class Earned:
    """What an agent earned: by day how many runs were weighed, and their mean reward, None where nobody could."""

    version: str | None
    days: Mapping[str, tuple[int, float | None]]  # oldest first
    seen: int  # days, with those of other versions

    @classmethod
    def of(cls, rows: Sequence[Row], window: int = WINDOW) -> Earned:
        lasting = lately(rows, window)
        known = {day: [row for row in own if weighed(row)] for day, own in lasting.rows.items()}
        days = {day: (sum(map(runs, own)), mean(own) if own else None) for day, own in known.items()}
        return cls(lasting.version, days, len({day_of(row) for row in rows}))

    def then(self, later: Earned, window: int = WINDOW) -> Earned | None:
        """With days that came later; None where that cannot be told without the rows."""
        if later.version not in (self.version, None) or min(later.days) <= max(self.days, default=""):
            return None
        seen, days = self.seen + later.seen, [*self.days.items(), *later.days.items()]
        if seen > window and seen != len(days):  # days of another version leave the window, too
            return None
        return Earned(self.version, dict(days[-window:]), min(seen, window))

    @property
    def weighed_runs(self) -> int:
        return sum(count for count, _ in self.days.values())

    def reward(self) -> Mean:
        """The mean over day means: what every report, summary and table calls an agent's reward."""
        return Mean.of([value for _, value in self.days.values() if value is not None])


def earned(rows: Iterable[Row]) -> dict[str, Earned]:
    """Field reward by agent."""
    return {agent: Earned.of(own) for agent, own in by_agent(rows).items()}


def earned_in(con: DuckDBPyConnection, table: str) -> dict[str, Earned]:
    """The same of the rows of a table."""
    return earned(load(con, FIELD, table=table, columns=EARNED))
