"""Rows as Parquet: which of them it gives back exactly as they were, and how they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.errors import Stopped, of_engine
from telemetry.read import rows
from telemetry.read.store import LINE_BUFFER, ONCE, memory_limit

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Up to which whole numbers are doubles, too; itself one, as Python compares numbers of one kind faster.
EXACT: Final = 2.0**53
ROW_GROUP: Final = 100_000  # rows; a day rarely holds more, and a reader skips by group


def sealable(line: bytes) -> dict[str, Any] | None:
    """The event, if its columns can be given back from Parquet exactly as they were."""
    event = rows.parse(line)
    return event if event is not None and _fit(event, rows.form_of(event)) else None


def row(line: bytes, event: dict[str, Any], form: rows.Form | None) -> bytes | None:
    """The event on a line as it goes to Parquet, with its form, if the line says all of it.

    None where it could not be given back as it was. Most lines need not be written anew, which takes longer than to
    read them: they stand for themselves, with what belongs in no column said again at their end. Only a line that names
    a field twice, or has objects in it, has more colons after a quote than it has fields.
    """
    if form is None or line.count(b'":') != len(event) or not line.endswith(b"}\n") or "extra" in event:
        return columns(event)
    if not _fit(event, form):
        return None
    if not form.rest:
        return line
    rest = _json({name: event[name] for name in form.rest})
    return None if rest is None else b'%b,"extra":%b}\n' % (line[:-2], rest)


def columns(event: dict[str, Any]) -> bytes | None:
    """The event as it goes to Parquet: known columns, and the rest as one JSON object.

    None where it could not be given back as it was.
    """
    form = rows.form_of(event)
    if not _fit(event, form):
        return None
    known = {name: event.get(name) for name in rows.COLUMNS}
    told = _json(known | {"extra": {name: event[name] for name in form.rest}})
    return None if told is None else told + b"\n"


def _json(content: dict[str, Any]) -> bytes | None:
    import orjson

    try:
        return orjson.dumps(content)
    except TypeError:  # nested hundreds deep
        return None


def _fit(event: dict[str, Any], form: rows.Form) -> bool:
    """Whether columns hold the values of an event without loss."""
    for name in form.numbers if form.fits else ():
        value = event[name]
        if not -EXACT <= value <= EXACT and (type(value) is int or not isfinite(value)):
            return False
    return form.fits


def opened(threads: int = 1) -> DuckDBPyConnection:
    """A connection to read and write files with: to open one takes as long as to write some thousand rows."""
    import duckdb

    con = duckdb.connect(config={"memory_limit": memory_limit(), "threads": threads})
    con.execute("set enable_progress_bar = false")
    return con


def write(con: DuckDBPyConnection, lines: Path, target: Path, count: int) -> int:
    """Write the lines as Parquet, each row once, make it durable, and count the rows that can be read back."""
    source, written = rows.quoted(str(lines)), rows.quoted(str(target))
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
        f"copy (select {what} replace (coalesce(extra, '{{}}') as extra)"
        f" from read_json({lines}, format='newline_delimited', columns={{{columns}}},"
        f" maximum_object_size={LINE_BUFFER})) to {target} (format parquet, compression zstd,"
        f" row_group_size {ROW_GROUP}, kv_metadata {{note: {rows.quoted(ONCE)}}})"
    )
    counted = "count(*), count(event_id), count(ts), count(distinct event_id)"
    return tuple(con.execute(f"select {counted} from read_parquet({target})").fetchone() or ())


def events(files: Sequence[Path], most: int = 0) -> Iterator[dict[str, Any]]:
    """The rows of sealed files as they were logged, or so many of them by chance; what was missing then is null."""
    import orjson

    if not files:
        return
    names = ", ".join(rows.quoted(str(path)) for path in files)
    some = f" using sample reservoir({most} rows) repeatable (1)" if most else ""
    with opened(threads=2) as con:
        told = "replace (strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z' as ts)"
        found = con.execute(
            f"select * {told} from read_parquet([{names}], hive_partitioning=false, union_by_name=true){some}"
        )
        fields = [column[0] for column in found.description or ()]
        while batch := found.fetchmany(10_000):
            for row in batch:
                event = dict(zip(fields, row, strict=True))
                yield event | orjson.loads(event.pop("extra") or "{}")


def holds_day(file: Path, day: str) -> bool:
    """Whether a file from elsewhere is Parquet with the columns of events, measures that can be, all of that day."""
    names = ", ".join((*rows.REQUIRED, *rows.MEASURES, "extra"))
    sound = " and ".join(f"coalesce(max(abs({name})), 0) <= {rows.MAX_MEASURE}" for name in rows.MEASURES)
    with opened() as con:
        try:
            asked = con.execute(
                f"select count(event_id) = count(*) and {sound},"
                f" min(strftime(ts, '%Y-%m-%d')), max(strftime(ts, '%Y-%m-%d'))"
                f" from (select {names} from read_parquet({rows.quoted(str(file))}, hive_partitioning=false))"
            )
            return asked.fetchone() == (True, day, day)
        except of_engine():
            return False
