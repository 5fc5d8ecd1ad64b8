"""Do the readers hold at ten million rows? Each script as a person starts it: its time, its memory, beside a bare scan.

`SCALE_ROWS` asks for another number of rows. The rows are written as sealed days by DuckDB itself, 500 agents over a
hundred days, runs of an agent within an hour on one input; the JSONL is a part of them, as the live log has it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import duckdb

from telemetry.read.rows import COLUMNS
from telemetry.read.store import ONCE
from tests.bench import Row, Used, used
from tests.bench.retirement import AGENTS, _crowd

ROWS = int(os.environ.get("SCALE_ROWS", "10_000_000"))
DAYS = 100
START = f"date '{date.today() - timedelta(DAYS + 1):%Y-%m-%d}'"  # so that the last days are the world's last

GIVEN = {
    "event_id": "printf('e%015d', i)",
    "ts": f"{START} + interval (day) day + interval (second) second",
    "kind": "'run'",
    "agent": "printf('agent_%03d', i % {agents})",
    "run_id": "printf('r%015d', i)",
    "source": "case when i % 20 = 0 then 'eval' else 'runtime' end",
    "error_kind": "case when i % 97 = 0 then 'timeout' when i % 89 = 0 then 'agent' end",
    "error": "case when i % 97 = 0 or i % 89 = 0 then 'it failed' end",
    "cost_source": "'price_list'",
    "scoring_version": "'1.0'",
    "model": "'gpt-4.1-mini'",
    "provider": "'openai'",
    "prompt_hash": "'0123456789ab'",
    "input_hash": "printf('%012x', hash(i % {agents}, day, second // 3600) & 281474976710655)",
    "signals": "'[]'",
    "latency_ms": "200 + 3000 * r * r",
    "cost_usd": "0.0004 + 0.0004 * r",
    "reward": "case when i % {agents} % 10 = 0 then 0 else 0.4 * r end",
    "signal_strength": "r",
    "tokens_in": "900",
    "tokens_out": "120",
    "schema_version": "1",
}


@contextmanager
def crowd() -> Iterator[Path]:
    """A checkout of 500 agents, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="ratchet-scale-") as folder:
        _crowd(Path(folder))
        yield Path(folder)


def write_sealed(root: Path, rows: int, first: int = 0, days: int = DAYS) -> None:
    """So many rows as sealed days, from day `first` on."""
    each = rows // days
    picked = ", ".join(
        f"cast({GIVEN.get(name, 'null').format(agents=AGENTS)} as {kind}) as {name}"
        for name, kind in COLUMNS.items()
    )
    with duckdb.connect() as con:
        con.execute("select setseed(0.5)")
        for day in range(first, first + days):
            name = con.execute(f"select strftime({START} + {day}, '%Y-%m-%d')").fetchone()
            assert name is not None
            target = root / f"telemetry/sealed/dt={name[0]}/bench.parquet"
            target.parent.mkdir(parents=True)
            con.execute(
                f"copy (select {picked}, '{{}}'::json as extra from (select {day} as day, i + {day * each} as i,"
                f" cast(86399.0 * i / {each} as int) as second, random() as r from range({each}) t(i)))"
                f" to '{target}' (format parquet, compression zstd, row_group_size 100000,"
                f" kv_metadata {{note: '{ONCE}'}})"
            )


def write_log(root: Path, rows: int, day: str = "dt=*") -> None:
    """So many rows, of all days or of one, as the live log."""
    with duckdb.connect() as con:
        con.execute(
            "copy (select * exclude (extra) replace (strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z' as ts)"
            f" from read_parquet('{root}/telemetry/sealed/{day}/*.parquet', hive_partitioning=false) limit {rows})"
            f" to '{root}/telemetry/events.jsonl' (format json)"
        )


def bare_scan(root: Path) -> float:
    """DuckDB alone: the same groups of the same rows, means only."""
    start = time.perf_counter()
    with duckdb.connect() as con:
        con.execute(
            "select agent, source, cast(ts as date), count(*), avg(reward), avg(cost_usd), avg(latency_ms)"
            f" from read_parquet('{root}/telemetry/sealed/dt=*/*.parquet', hive_partitioning=false) group by all"
        ).fetchall()
    return time.perf_counter() - start


def main() -> list[Row]:
    """The rows of the table."""
    told: list[Row] = []

    def row(what: str, found: Used, reference: str, seconds: float, megabytes: float = 300) -> None:
        ok = found.wall_s <= seconds and found.peak_mib <= megabytes
        measured = f"{found.wall_s:.2f} s ({found.cpu_s:.2f} s CPU), {found.peak_mib:.0f} MiB"
        told.append(Row(what, measured, reference, "", f"<= {seconds:g} s, <= {megabytes:.0f} MiB", ok))

    with crowd() as root:
        write_sealed(root, ROWS)
        at = ("--root", str(root), "--quiet")
        all_of_it = ("--last-n", "0", *at)
        beside = f"{bare_scan(root):.2f} s: DuckDB alone, means only"
        row(
            f"rollup of everything, {ROWS:,} rows sealed, first time",
            used("-m", "telemetry.rollup", *all_of_it),
            beside,
            10,
        )
        row("the same again", used("-m", "telemetry.rollup", *all_of_it), beside, 2.5)
        write_sealed(root, ROWS // DAYS, first=DAYS, days=1)
        newest = max(root.glob("telemetry/sealed/dt=*"))
        write_log(root, ROWS // DAYS, newest.name)
        shutil.rmtree(newest)
        row("sealing one new day", used("-m", "telemetry.retention", "seal", *at), "", 2)
        row("rollup of everything after one new day", used("-m", "telemetry.rollup", *all_of_it), beside, 0.3)
        row("plots of everything", used("-m", "telemetry.plots", *all_of_it), beside, 2.5)
        row("retirement", used("-m", "meta.retirement", *at), beside, 1.5)
    with crowd() as root:
        write_sealed(root, ROWS * 3 // 10)
        write_log(root, ROWS * 3 // 10)
        at = ("--root", str(root), "--quiet")
        all_of_it = ("--last-n", "0", *at)
        beside = f"{bare_scan(root):.2f} s: DuckDB alone, sealed"
        for file in root.glob("telemetry/sealed/dt=*/*"):
            file.unlink()
        row(
            f"rollup of everything, {ROWS * 3 // 10:,} rows JSONL",
            used("-m", "telemetry.rollup", *all_of_it),
            beside,
            3.5,
        )
        row(
            f"sealing {ROWS * 3 // 10:,} rows",
            used("-m", "telemetry.retention", "seal", *at),
            beside,
            18,
            600,
        )
    return told
