"""How long do a million sealed events take to a PostgreSQL server here, and what does a second run bring?"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import duckdb
import psycopg

from telemetry import ship
from telemetry.edge.files import Repo
from tests.bench import Row
from tests.bench.scale import write_sealed
from tests.worlds import postgres

ROWS, DAYS = 1_000_000, 20
SQL = "select agent, count(*), sum(cost_usd), avg(reward), avg(latency_ms) from {table} group by agent order by agent"


def main() -> list[Row]:
    if postgres.binaries() is None:
        return [Row("1M events to PostgreSQL", "no server on this machine", "", "", "<= 60 s", False)]
    with tempfile.TemporaryDirectory() as folder, postgres.server() as server:
        write_sealed(Path(folder), ROWS, 0, DAYS)
        start = time.perf_counter()
        first = ship.ship(Repo(Path(folder)), server.dsn)
        took = time.perf_counter() - start
        again = ship.ship(Repo(Path(folder)), server.dsn)
        with psycopg.connect(server.dsn) as con:
            theirs = con.execute(SQL.format(table="events")).fetchall()
        files = f"read_parquet('{folder}/telemetry/sealed/dt=*/*.parquet', hive_partitioning=false)"
        with duckdb.connect() as con:
            ours = con.execute(SQL.format(table=files)).fetchall()
    apart = max(
        abs(mine - other) / max(1e-300, abs(mine))
        for row, there in zip(ours, theirs, strict=True)
        for mine, other in zip(row[1:], there[1:], strict=True)
    )
    return [
        Row(
            f"{first.rows:,} events shipped to PostgreSQL, {DAYS} days",
            f"{took:.1f} s",
            f"again: {again.rows} rows",
            "",
            "<= 60 s, again 0",
            took <= 60 and first.rows == ROWS and again.rows == 0,
        ),
        Row(
            "sums and means there and here differ by at most",
            f"{apart:.1e}",
            "relative",
            "",
            "<= 1e-9",
            apart <= 1e-9,
        ),
    ]
