"""Where `telemetry.ship` brings its rows while it is killed: a real PostgreSQL, emptied for every life."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from telemetry import ship
from tests.worlds import children, postgres


@functools.cache
def server() -> postgres.Server:
    """One for as long as this process lives. Whatever it is asked may be the last thing that a client did."""
    import psycopg

    running = ExitStack()
    atexit.register(running.close)
    for kind, name in ((psycopg.Connection, "execute"), (psycopg.Copy, "write")):
        setattr(kind, name, _as_a_step(getattr(kind, name)))
    return running.enter_context(postgres.server())


def _as_a_step(asked: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(asked)
    def step(*args: Any, **more: Any) -> Any:
        sys.audit(children.STEP)
        return asked(*args, **more)

    return step


def named() -> None:
    os.environ[ship.DSN] = server().dsn


def emptied() -> None:
    import psycopg

    with psycopg.connect(server().dsn, autocommit=True) as con:
        con.execute("drop schema public cascade")
        con.execute("create schema public")


def found(_: Path) -> Any:
    """Every row there, and which files are said to be."""
    import psycopg

    with psycopg.connect(server().dsn) as con:
        rows = con.execute("select e.*, extra::text from events e order by event_id, ts").fetchall()
        files = con.execute("select file, rows from shipped order by file").fetchall()
    return len(rows), len({row[0] for row in rows}), files, str(rows)
