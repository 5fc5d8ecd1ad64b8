"""A connection to the PostgreSQL server that `TELEMETRY_DSN` names; one that is away, or goes away, stops us."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.text import redact, remember
from telemetry.read.rows import COLUMNS, quoted

if TYPE_CHECKING:
    import psycopg
    from duckdb import DuckDBPyConnection

DSN: Final = "TELEMETRY_DSN"
CONNECT_S: Final = 10


@contextmanager
def connected(dsn: str, meanwhile: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection; `meanwhile` says what holds until the server is back."""
    import psycopg

    remember(dsn)
    try:
        with psycopg.connect(dsn, connect_timeout=CONNECT_S, autocommit=True) as con:
            yield con
    except psycopg.ProgrammingError as problem:
        raise BadInput(f"{DSN}: {_line(problem)}") from None
    except psycopg.OperationalError as problem:
        raise Stopped(f"{DSN}: {_line(problem)}; {meanwhile}") from None


@contextmanager
def brought(con: psycopg.Connection[Any], rows: str, columns: Sequence[str]) -> Iterator[DuckDBPyConnection]:
    """These columns of rows of the server (`from events where ...`), as the table `brought` of a DuckDB."""
    import tempfile

    import duckdb

    with tempfile.TemporaryDirectory(prefix="ratchet-server-") as folder, duckdb.connect() as here:
        file = Path(folder) / "rows.csv"
        asked = f"copy (select {', '.join(columns)} {rows}) to stdout (format csv, force_quote *)"
        with file.open("wb") as lines, con.cursor() as cursor, cursor.copy(asked) as copy:
            lines.writelines(copy)
        kinds = "{" + ", ".join(f"{name}: {quoted(COLUMNS[name])}" for name in columns) + "}"
        options = (
            """header=false, auto_detect=false, allow_quoted_nulls=false, delim=',', quote='"', escape='"'"""
        )
        here.execute(
            f"create table brought as from read_csv({quoted(str(file))}, columns={kinds}, {options})"
        )
        yield here


def _line(problem: Exception) -> str:
    return redact(str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__)
