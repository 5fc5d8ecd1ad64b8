"""A connection to the PostgreSQL server that `TELEMETRY_DSN` names; one that is away, or goes away, stops us."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.text import redact, remember

if TYPE_CHECKING:
    import psycopg

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


def _line(problem: Exception) -> str:
    return redact(str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__)
