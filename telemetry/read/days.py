"""What sealed days come to, kept beside them: readers of a year look at days, not at rows.

For each sealed day five small files stand in `telemetry/sealed/days/`, made when first asked for: its cells (runs,
errors, cost and reward by agent, source, error kind and scoring version), its parts of field reward
(telemetry/read/field.py), the inputs that its runs saw, a sketch of latency by agent, and some of the runs. They are
named by a hash of what makes them: size and footer of the day's files, and the SQL. Whoever deletes them loses nothing,
and a day that changed is another one.

A run on the same input and prompt as an earlier one stands for both, on whatever days: only agents that repeated an
input across days are summed up from their rows again.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from math import log
from pathlib import Path
from struct import iter_unpack
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.errors import of_engine
from telemetry.edge.files import SEALED, Repo
from telemetry.edge.frozen import frozen
from telemetry.logger import FIELD
from telemetry.read import field
from telemetry.read.parquet import opened
from telemetry.read.rows import COLUMNS, ELSEWHERE, Window, quoted
from telemetry.read.store import by_day, footer, sealed_sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PLACE: Final = SEALED / "days"
COLD: Final = SEALED / "cold"  # below it: dt=YYYY-MM-DD/<what>.parquet, instead of rows (telemetry/tiers)
COLD_SUMS: Final = ("cells", "field", "latency")  # inputs of which only the hash is left repeat nothing
LARGE: Final = 24 << 20  # bytes of sealed days, some 800,000 rows, from which on their sums are kept
AT_ONCE: Final = 2  # sums of a day that are made at a time: one of them takes as long as the others together
BUCKETS: Final = 256
# Between two buckets of latency, from 1 ms to a quarter of an hour: values are known to 3 %.
STEP: Final = 1.055

CELLS_SQL: Final = """
select
    agent, source, cast(ts as date) as day, error_kind, scoring_version,
    count(*) as runs,
    count(*) filter (where error is not null or error_kind is not null) as errors,
    count(cost_usd) as priced,
    sum(cost_usd) as cost,
    count(reward) as rewarded,
    avg(reward) as reward,
    var_samp(reward) as reward_variance,
    max(ts) as last_ts
from {table} group by 1, 2, 3, 4, 5
"""
_KEYS_SQL: Final = """
select agent, md5_number_lower(concat_ws('|', agent, shadow, input_hash, coalesce(prompt_hash, ''))) as key
from (
    select agent, source = 'shadow' as shadow, input_hash, prompt_hash from {table}
    where input_hash is not null and source in ({field}) group by 1, 2, 3, 4
)
"""
# Pairs of bucket and count as hexadecimal text, two and eight digits.
_SKETCH_SQL: Final = """
select agent, string_agg(printf('%02x%08x', bucket, runs), '' order by bucket) as sketch
from (
    select
        agent, count(*) as runs,
        cast(greatest(0, least({last}, floor(ln(greatest(latency_ms, 1)) / {step}))) as int) as bucket
    from {table} where latency_ms is not null and not starts_with(source, {elsewhere}) group by 1, 3
) group by 1
"""
SAMPLE: Final = 32  # one run in so many is kept as it is
_SAMPLE_SQL: Final = """
select event_id, kind, agent, source, ts, as_of, latency_ms, cost_usd, reward, scoring_version
from {table} where hash(event_id) % {every} = 0
"""


def _sums(table: str) -> dict[str, str]:
    """By name of the small file, how it is made of the runs in a table."""
    sources = ", ".join(map(quoted, FIELD))
    return {
        "cells": CELLS_SQL.format(table=table),
        "field": field.part_sql(table, FIELD),
        "keys": _KEYS_SQL.format(table=table, field=sources),
        "latency": _SKETCH_SQL.format(
            table=table, last=BUCKETS - 1, step=repr(log(STEP)), elsewhere=quoted(ELSEWHERE)
        ),
        "sample": _SAMPLE_SQL.format(table=table, every=SAMPLE),
    }


@frozen
class Kept:
    """The sums of some sealed days."""

    repo: Repo
    names: tuple[str, ...]
    cold: tuple[Path, ...] = ()  # folders of days whose rows are gone

    def table(self, what: str, *, warm: bool = True, cold: bool = True) -> str:
        """One kind of them, as SQL: of days that have their rows, of those that have not, or of both."""
        found = [*self._files(what)] if warm else []
        found += [file for day in self.cold if (file := day / f"{what}.parquet").exists()] if cold else []
        if not found:
            return f"({_sums(NO_RUNS)[what]})"
        files = ", ".join(quoted(str(path)) for path in found)
        return f"read_parquet([{files}], hive_partitioning=false)"

    def cold_names(self) -> Iterator[str]:
        """Like `names`, of the days whose rows are gone."""
        return (name_of(day.name[3:], sorted(day.glob("*.parquet"))) for day in self.cold)

    def _files(self, what: str) -> Iterator[Path]:
        return (self.repo / PLACE / f"{name}.{what}.parquet" for name in self.names)


def kept(repo: Repo, files: Sequence[Path], window: Window) -> Kept | None:
    """The sums of sealed files, made where they are missing; None where rows have to be looked at.

    That is: where there are few of them, where the window is less than whole days, and where nothing can be written.
    """
    whole = window.since is None or window.since.strftime("%H%M%S%f") == "000000000000"
    if window.last_n or window.kind != "run" or not whole or window != Window(0, window.since, kind="run"):
        return None
    first = "" if window.since is None else window.since.date().isoformat()
    cold = [path for path in sorted((repo / COLD).glob("dt=*")) if path.name[3:] >= first]
    if not cold and sum(path.stat().st_size for path in files) < LARGE:
        return None
    frozen = {path.name[3:] for path in cold}
    days = {name_of(day, own): own for day, own in by_day(files).items() if day not in frozen}
    found = Kept(repo, tuple(name for name in days if name >= first), tuple(cold))
    missing = [
        name
        for name in found.names
        if not all((repo / PLACE / f"{name}.{what}.parquet").exists() for what in _sums(""))
    ]
    try:
        if missing:
            tidy(repo, {*days, "total"})
            (repo / PLACE).mkdir(parents=True, exist_ok=True)
            with opened() as con:
                for name in missing:
                    sum_up(con, days[name], repo / PLACE, f"{name}.")
    except OSError:  # a full or read-only disk: rows are there all the same
        return None
    return found


def repeating(con: DuckDBPyConnection, sums: Kept, live: str, known: Path | None = None) -> list[str]:
    """The agents that repeat an input across days, live rows among them; `known` has the keys of days before.

    What those days repeat among themselves is not asked again.
    """
    con.execute(f"create or replace temp table live_keys as {_sums(live)['keys']}")
    both = f"(select agent, key from {sums.table('keys', cold=False)} union all select agent, key from live_keys)"
    repeated = f"select agent from {both} group by agent, key having count(*) > 1"
    if known is not None:
        before = f"read_parquet({quoted(str(known))})"
        repeated += f" union all select agent from {both} where key in (select key from {before})"
    else:
        seen, inputs = con.execute(f"select count(*), count(distinct key) from {both}").fetchone() or (0, 0)
        if seen == inputs:
            return []
    return [agent for (agent,) in con.execute(f"select distinct agent from ({repeated})").fetchall()]


def field_rows(
    con: DuckDBPyConnection,
    sums: Kept,
    sealed: str,
    live: str,
    again: Collection[str],
    window: int = field.WINDOW,
    *,
    told: bool = True,
    agents: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Field reward of sealed days and live rows together, with all that the runs said if that is `told`.

    `sealed` and `live` are tables of rows; agents that are repeating are summed up from those `again`. Where only some
    `agents` are asked for, nothing is told of the others.
    """
    names = ", ".join(map(quoted, again)) or "null"
    once = f"agent not in ({names})" if again else "true"
    known = [
        f"select * from {sums.table('field', cold=False)} where {once}",
        f"select * from {sums.table('field', warm=False)}",
        field.part_sql(f"(select * from {live} where {once})", FIELD),
    ]
    if again:
        rows = f"select * from {{table}} where agent in ({names})"
        all_of_them = " union all by name ".join(f"({rows.format(table=one)})" for one in (sealed, live))
        known.append(field.part_sql(f"({all_of_them})", FIELD))
    together = " union all by name ".join(f"({one})" for one in known)
    said, columns = ("*", field.COLUMNS) if told else ("* replace ('' as signals)", field.EARNED)
    asked = f"agent in ({', '.join(map(quoted, agents))})" if agents else "true"
    parts = f"(select {said} from ({together}) where {asked})"
    return field.load(con, FIELD, window, parts=parts, columns=columns)


def latency(con: DuckDBPyConnection, sums: Kept, live: str) -> dict[str, str]:
    """A sketch for each agent."""
    both = f"select * from {sums.table('latency')} union all {_sums(live)['latency']}"
    return merged(con.execute(both).fetchall())


def merged(parts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of all sketches of an agent, one."""
    own: dict[str, list[str]] = {}
    for agent, sketch in parts:
        own.setdefault(agent, []).append(sketch)
    return {agent: some[0] if len(some) == 1 else _sketch("".join(some)) for agent, some in own.items()}


def _sketch(pairs: str) -> str:
    counts: dict[int, int] = {}
    for bucket, runs in iter_unpack(">BI", bytes.fromhex(pairs)):
        counts[bucket] = counts.get(bucket, 0) + runs
    return "".join([f"{bucket:02x}{counts[bucket]:08x}" for bucket in sorted(counts)])


def percentiles(sketch: str, shares: Sequence[float]) -> list[float]:
    """Latency at these shares of the runs: within 3 %."""
    pairs = list(iter_unpack(">BI", bytes.fromhex(sketch)))
    upto = list(accumulate(runs for _, runs in pairs))
    told = []
    for share in shares:
        rank = share * upto[-1]
        at = bisect_left(upto, rank)
        bucket, runs = pairs[at]
        told.append(STEP ** (bucket + (rank - upto[at] + runs) / runs))
    return told


def sum_up(
    con: DuckDBPyConnection, files: Sequence[Path], folder: Path, name: str, whats: Sequence[str] = ()
) -> None:
    """What the runs of sealed files come to, each kind (or these) in a file that appears whole, by its rename."""
    # To read the columns of one file again takes less than to keep them; several are looked through for repeats once.
    kept = "view" if len(files) == 1 else "table"
    rows = f"select {', '.join(NEEDED)} from ({sealed_sql(files)}) where kind = 'run'"
    con.execute(f"create {kept} runs as {rows}")
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def copy(what: str, sql: str) -> None:
            file = folder / f"{name}{what}.parquet"
            coming = file.with_name(f"{file.name}.{os.getpid()}.coming")
            with con.cursor() as own:
                own.execute(f"copy ({sql}) to {quoted(str(coming))} (format parquet, compression zstd)")
            coming.rename(file)

        sums = {what: sql for what, sql in _sums("runs").items() if not whats or what in whats}
        list(pool.map(copy, sums.keys(), sums.values()))
    con.execute(f"drop {kept} runs")


def readable(day: Path) -> bool:
    """Whether a folder from elsewhere holds what a day comes to: the columns that such files have here."""
    import tempfile

    import duckdb

    with duckdb.connect(config={"threads": 1}) as con, tempfile.TemporaryDirectory() as scratch:

        def columns(file: Path) -> list[tuple[str, str]]:
            told = con.execute(f"describe select * from read_parquet({quoted(str(file))})").fetchall()
            return [(name, kind) for name, kind, *_ in told]

        for file in day.iterdir():
            ours = Path(scratch) / file.name
            con.execute(f"copy ({_sums(NO_RUNS)[file.stem]}) to {quoted(str(ours))} (format parquet)")
            try:
                if columns(file) != columns(ours):
                    return False
            except of_engine():
                return False
    return (day / "cells.parquet").exists()


def tidy(repo: Repo, current: Collection[str]) -> None:
    """Remove the sums of days as they were before."""
    for path in (repo / PLACE).glob("*"):
        if path.name.split(".")[0] not in current:
            path.unlink(missing_ok=True)


NEEDED: Final = ("event_id", "kind", "error", *field.ASKED)
assert set(NEEDED) <= set(COLUMNS)
NO_RUNS: Final = (
    f"(select {', '.join(f'cast(null as {COLUMNS[name]}) as {name}' for name in NEEDED)} where false)"
)


def name_of(day: str, files: Sequence[Path]) -> str:
    """The day, and a hash of what its sums are made of."""
    made_of = [part for path in files for part in (str(path.stat().st_size).encode(), footer(path))]
    made_of += [sql.encode() for sql in _sums("").values()]
    return f"{day}-{hashlib.sha256(b'|'.join(made_of)).hexdigest()[:16]}"
