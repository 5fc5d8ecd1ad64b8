"""Rows of segments by the day they belong to, each once, as Parquet: how a pull and a compaction read the branch."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from telemetry.branch.remote import DataBranch
from telemetry.branch.segments import Segment
from telemetry.read import parquet
from telemetry.read.rows import parse
from telemetry.read.store import each_once

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH: Final = 200  # segments read from git at a time

Known = Mapping[str, set[str]]  # day -> ids of rows that are not wanted


def by_day(
    branch: DataBranch,
    segments: Sequence[Segment],
    scratch: Path,
    known: Callable[[Iterable[str]], Known] = lambda days: {},
) -> Iterator[tuple[str, Path]]:
    """A Parquet file for every day that has rows which are not `known`, in `scratch`, which is empty at first."""
    sealed: dict[str, list[Path]] = defaultdict(list)
    days = set(_staged(_lines(branch, [one for one in segments if one.form == "jsonl"]), scratch))
    for one, data in _read(branch, [one for one in segments if one.form == "parquet"]):
        file = scratch / f"{one.day}-{len(sealed[one.day])}.parquet"
        file.write_bytes(data)
        if parquet.holds_day(file, one.day):
            sealed[one.day].append(file)
        else:
            print(f"{one.path}: no Parquet file of that day's events; left out", file=sys.stderr)
    ids = known(days | sealed.keys())
    for day, files in sealed.items():
        if day not in days and len(files) == 1 and not ids.get(day) and each_once(files[0]):
            yield day, files[0]
        elif files:
            days |= _staged(parquet.events(files), scratch)
    with parquet.opened() as con:
        for day in sorted(days):
            if (written := _once(con, scratch / f"{day}.jsonl", ids.get(day, set()))) is not None:
                yield day, written


def _read(branch: DataBranch, segments: Sequence[Segment]) -> Iterator[tuple[Segment, bytes]]:
    for start in range(0, len(segments), BATCH):
        some = segments[start : start + BATCH]
        yield from zip(some, branch.read([one.path for one in some]), strict=True)


def _lines(branch: DataBranch, segments: Sequence[Segment]) -> Iterator[dict[str, Any]]:
    """The events of plain segments; what is malformed was not pushed by us, and is nothing here."""
    for _, data in _read(branch, segments):
        for line in data.split(b"\n"):
            if line.strip() and (event := parse(line)) is not None:
                yield event


def _staged(events: Iterable[dict[str, Any]], scratch: Path) -> set[str]:
    """Write events to one file a day, as they go to Parquet; the days."""
    days: set[str] = set()
    waiting: dict[str, list[bytes]] = defaultdict(list)

    def flush() -> None:
        for day, rows in waiting.items():
            with (scratch / f"{day}.jsonl").open("ab") as file:
                file.writelines(rows)
        waiting.clear()

    for number, event in enumerate(events):
        day, row = event["ts"][:10], parquet.columns(event)
        if row is None:  # no column could hold it: it stays in its segment
            continue
        days.add(day)
        waiting[day].append(row)
        if number % 10_000 == 0:
            flush()
    flush()
    return days


def _once(con: DuckDBPyConnection, staged: Path, known: set[str]) -> Path | None:
    """The rows of a day that are not known, each once, as a Parquet file; None if there is none."""
    import orjson

    kept: dict[str, bytes] = {}
    with staged.open("rb") as rows:
        for line in rows:
            name = orjson.loads(line)["event_id"]
            if name not in known:
                kept.setdefault(name, line)
    if not kept:
        return None
    fresh, written = staged.with_suffix(".fresh"), staged.with_suffix(".parquet")
    fresh.write_bytes(b"".join(kept.values()))
    parquet.write(con, fresh, written, len(kept))
    return written
