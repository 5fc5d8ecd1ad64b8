"""Rows as Parquet: which of them it gives back exactly as they were, and how they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.errors import Stopped
from telemetry.read import rows
from telemetry.read.store import LINE_BUFFER, ONCE, memory_limit

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROW_GROUP: Final = 100_000  # rows; a day rarely holds more, and a reader skips by group


def sealable(line: bytes) -> dict[str, Any] | None:
    """The event, if its columns can be given back from Parquet exactly as they were."""
    event = rows.parse(line)
    return event if event is not None and _fit([event.get(name) for name in rows.COLUMNS]) else None


def columns(event: dict[str, Any]) -> bytes | None:
    """The event as it goes to Parquet: known columns, and the rest as one JSON object, which is what is left of it.

    None where it could not be given back as it was.
    """
    import orjson

    values = [event.pop(name, None) for name in rows.COLUMNS]
    if not _fit(values):
        return None
    try:
        return orjson.dumps(dict(zip(rows.COLUMNS, values, strict=True)) | {"extra": event}) + b"\n"
    except TypeError:  # nested hundreds deep
        return None


def _fit(values: list[Any]) -> bool:
    """Whether columns hold these values without loss."""
    shape = tuple(map(type, values))
    if (numbers := _numbers(shape)) is None:
        return False
    for at in numbers:
        value = values[at]
        if not (-(2**53) <= value <= 2**53 if shape[at] is int else isfinite(value)):
            return False
    return True


@lru_cache(maxsize=1000)  # rows of one program are of a few shapes, and there are millions of them
def _numbers(shape: tuple[type, ...]) -> tuple[int, ...] | None:
    """At which places values of these types are numbers; None if a column cannot hold its value."""
    for name, kind in zip(rows.COLUMNS, shape, strict=True):
        holds = {"double": (int, float), "bigint": (int,)}.get(rows.NUMBERS.get(name, ""), (str,))
        if kind not in (type(None), *holds):
            return None
    return tuple(at for at, kind in enumerate(shape) if kind in (int, float))


def write(lines: Path, target: Path, count: int) -> int:
    """Write the lines as Parquet, each row once, make it durable, and count the rows that can be read back."""
    import duckdb

    source, written = rows.quoted(str(lines)), rows.quoted(str(target))
    with duckdb.connect(config={"memory_limit": memory_limit(), "threads": 1}) as con:
        con.execute("set enable_progress_bar = false")
        found = _copied(con, source, written, "*")
        if found[0] == count and found[-1] < count:
            found = _copied(con, source, written, "distinct on (event_id) *")
            count = found[-1]
    if found != (count,) * 4:
        said = f"{found[:-1]} rows read back where {count} were written"
        raise Stopped(f"{target.name}: {said}; the log is untouched")
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return count


def _copied(con: DuckDBPyConnection, lines: str, target: str, what: str) -> tuple[int, ...]:
    """Write a file, and count what can be read back: rows, those with an id, those with a moment, and different ids."""
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in (rows.COLUMNS | {"extra": "json"}).items())
    con.execute(
        f"copy (select {what} from read_json({lines}, format='newline_delimited', columns={{{columns}}},"
        f" maximum_object_size={LINE_BUFFER})) to {target} (format parquet, compression zstd,"
        f" row_group_size {ROW_GROUP}, kv_metadata {{note: {rows.quoted(ONCE)}}})"
    )
    counted = "count(*), count(event_id), count(ts), count(distinct event_id)"
    return tuple(con.execute(f"select {counted} from read_parquet({target})").fetchone() or ())


def events(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The rows of sealed files as they were logged; what was missing then is null."""
    import duckdb
    import orjson

    if not files:
        return
    names = ", ".join(rows.quoted(str(path)) for path in files)
    with duckdb.connect(config={"memory_limit": memory_limit(), "threads": 2}) as con:
        con.execute("set enable_progress_bar = false")
        told = "replace (strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z' as ts)"
        found = con.execute(
            f"select * {told} from read_parquet([{names}], hive_partitioning=false, union_by_name=true)"
        )
        fields = [column[0] for column in found.description or ()]
        while batch := found.fetchmany(10_000):
            for row in batch:
                event = dict(zip(fields, row, strict=True))
                yield event | orjson.loads(event.pop("extra") or "{}")


def holds_day(file: Path, day: str) -> bool:
    """Whether a file from elsewhere is Parquet with the columns of events, all of them of that day."""
    import duckdb

    names = ", ".join((*rows.REQUIRED, *rows.MEASURES, "extra"))
    with duckdb.connect(config={"memory_limit": memory_limit(), "threads": 1}) as con:
        con.execute("set enable_progress_bar = false")
        try:
            asked = con.execute(
                f"select count(event_id) = count(*), min(strftime(ts, '%Y-%m-%d')), max(strftime(ts, '%Y-%m-%d'))"
                f" from (select {names} from read_parquet({rows.quoted(str(file))}, hive_partitioning=false))"
            )
            return asked.fetchone() == (True, day, day)
        except duckdb.Error:
            return False
