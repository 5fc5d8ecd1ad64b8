"""Ships sealed days to PostgreSQL, for when several machines write at once, or people ask while they do.

`TELEMETRY_DSN` says where to. Each sealed file is one transaction: its rows are copied to a staging table, those that
are not there yet are taken over, and the file is marked, all of it or nothing. Kill it anywhere, run it again: no row
is lost, none comes twice. While the server is away the sealed days wait here (exit 3). Run `telemetry.retention` first.

    events             the rows as they are read here, a partition a day; what is no column of its own is in `extra`
    routing_decisions  execution_metrics  agent_profiles  agent_stats_daily       worked out from them, as views
    agent_stats_kept   what days came to whose rows are gone (telemetry.retention apply)
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SEALED, Repo
from telemetry.edge.frozen import frozen
from telemetry.read.rows import COLUMNS, TEXTS, quoted
from telemetry.read.server import DSN, connected
from telemetry.read.store import day_of, memory_limit

if TYPE_CHECKING:
    import psycopg

CHUNK: Final = 1 << 20  # bytes sent at a time
LOCK: Final = 0x7261746368  # of the advisory lock: one ships at a time, the others wait

_KINDS: Final = {
    "timestamp": "timestamp",
    "varchar": "text",
    "double": "double precision",
    "bigint": "bigint",
}
_COLUMNS: Final = ", ".join(f"{name} {_KINDS[kind]}" for name, kind in COLUMNS.items())
SCHEMA: Final = f"""
create table if not exists events ({_COLUMNS}, extra json, primary key (event_id, ts)) partition by range (ts);
create table if not exists shipped (file text primary key, rows bigint not null, at timestamptz not null default now());
create or replace view routing_decisions as
select event_id, ts, run_id, source, extra ->> 'task_id' as task_id, extra ->> 'task_type' as task_type,
    extra -> 'requirements' as requirements, extra ->> 'selected_agent_id' as selected_agent_id,
    extra ->> 'routing_strategy' as routing_strategy, (extra ->> 'confidence')::double precision as confidence,
    extra -> 'candidate_agents' as candidate_agents, extra ->> 'primary_reason' as primary_reason,
    (extra ->> 'propensity')::double precision as propensity, extra ->> 'policy_version' as policy_version
from events where kind = 'routing';
create or replace view execution_metrics as
select event_id, ts, agent, run_id, source, model, provider, latency_ms, tokens_in, tokens_out, cost_usd, cost_source,
    error, error_kind, reward, scoring_version, extra ->> 'task_id' as task_id, extra ->> 'task_type' as task_type,
    (extra ->> 'success')::boolean as success, (extra ->> 'quality_score')::double precision as quality_score
from events where kind = 'run';
create or replace view agent_profiles as
select agent, min(ts) as first_seen, max(ts) as last_seen, count(*) as runs,
    count(distinct model) as models, count(coalesce(error, error_kind)) * 1e0 / count(*) as error_rate
from events where kind = 'run' group by agent;
create table if not exists agent_stats_kept (agent text, day date, scoring_version text, runs bigint, errors bigint,
    avg_latency_ms double precision, p95_latency_ms double precision, cost_usd double precision, unpriced_runs bigint,
    avg_reward double precision);
create or replace view agent_stats_daily as
select agent, cast(ts as date) as day, scoring_version, count(*) as runs, count(coalesce(error, error_kind)) as errors,
    avg(latency_ms) as avg_latency_ms, percentile_cont(0.95) within group (order by latency_ms) as p95_latency_ms,
    sum(cost_usd) as cost_usd, count(*) - count(cost_usd) as unpriced_runs, avg(reward) as avg_reward
from events where kind = 'run' group by agent, cast(ts as date), scoring_version
union all select * from agent_stats_kept;
"""


@frozen
class Shipped:
    """What one run brought."""

    files: int
    rows: int  # new there
    known: int  # were there already


def ship(repo: Repo, dsn: str) -> Shipped:
    """Bring every sealed file that is not there yet."""
    files = sorted((repo / SEALED).glob("dt=*/*.parquet"))
    with connected(dsn, f"{len(files)} sealed files wait here until it is back") as con:
        with con.transaction():
            con.execute("select pg_advisory_xact_lock(%s)", [LOCK])
            con.execute(SCHEMA)
        there = {name for (name,) in con.execute("select file from shipped").fetchall()}
        waiting = [path for path in files if _name(path) not in there]
        counted = [_load(con, path) for path in waiting]
    return Shipped(len(waiting), sum(new for new, _ in counted), sum(known for _, known in counted))


def _name(path: Path) -> str:
    """Sealed files are never changed, so a name is enough."""
    return f"{path.parent.name}/{path.name}"


def _load(con: psycopg.Connection[Any], path: Path) -> tuple[int, int]:
    """One file, in one transaction; how many rows were new, and how many were there."""
    with tempfile.TemporaryDirectory(prefix="ratchet-ship-") as folder, con.transaction():
        con.execute("select pg_advisory_xact_lock(%s)", [LOCK])
        if con.execute("select 1 from shipped where file = %s", [_name(path)]).fetchone():
            return 0, 0  # somebody else has, while we waited
        rows = _as_csv(path, Path(folder) / "rows.csv")
        day = date.fromisoformat(day_of(path))
        part = f"events_{day:%Y%m%d}"  # filled by name: a file holds one day, no row has to be looked at for that
        con.execute(
            f"create table if not exists {part} partition of events"
            f" for values from ('{day}') to ('{day + timedelta(days=1)}')"
        )
        con.execute("create temporary table staging (like events) on commit drop")
        with (
            con.cursor() as cursor,
            cursor.copy(f"copy staging ({', '.join(_names())}) from stdin (format csv)") as copy,
            (Path(folder) / "rows.csv").open("rb") as lines,
        ):
            while chunk := lines.read(CHUNK):
                copy.write(chunk)
        taken = con.execute(f"insert into {part} select * from staging on conflict do nothing").rowcount
        con.execute("insert into shipped (file, rows) values (%s, %s)", [_name(path), rows])
    return taken, rows - taken


def _names() -> Sequence[str]:
    return (*COLUMNS, "extra")


def _as_csv(path: Path, target: Path) -> int:
    """The rows of a sealed file as PostgreSQL reads them: every value quoted, so that only null is empty."""
    import duckdb

    source = f"read_parquet({quoted(str(path))}, hive_partitioning=false)"
    with duckdb.connect(config={"memory_limit": memory_limit(), "threads": 2}) as con:
        con.execute("set enable_progress_bar = false")
        there = {name for name, *_ in con.execute(f"describe select * from {source}").fetchall()}
        picked = ", ".join(_picked(name, name in there) for name in _names())
        con.execute(
            f"copy (select {picked} from {source}) to {quoted(str(target))} (format csv, header false, force_quote *)"
        )
        found = con.execute(f"select count(*) from {source}").fetchone()
    return int((found or (0,))[0])


def _picked(name: str, there: bool) -> str:
    if not there:  # a day sealed before there was such a column
        return f"null as {name}"
    if name in TEXTS or name == "extra":  # PostgreSQL has no character 0
        return f"replace(cast({name} as varchar), chr(0), chr(65533)) as {name}"
    return name


def parser() -> cli.Parser:
    return cli.Parser(__doc__)


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    dsn = os.environ.get(DSN, "").strip()
    if not dsn:
        raise BadInput(f"{DSN}: must say where to, like postgresql://user@host/telemetry")
    done = ship(repo, dsn)
    told = cli.found(
        f"{done.rows:,} new rows of {done.files} sealed files; {done.known:,} were there already"
    )
    cli.tell(args, asdict(done), told)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
