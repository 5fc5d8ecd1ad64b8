"""Prepares a seal: each finished day of the live log as a Parquet file, and beside them what stays in the log.

Reading lines is Python's work, and one process keeps one core busy with it. So a large log is cut into shares where a
day ends, and each share is staged by a process of its own, which ends with the sealer.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from telemetry.edge.frozen import frozen
from telemetry.edge.split import Tell, cores, split_off
from telemetry.read import parquet, rows

if TYPE_CHECKING:
    from concurrent.futures import Future

    from duckdb import DuckDBPyConnection

BATCH: Final = 1 << 20  # bytes of lines that are read at a time
QUIET: Final = 8 << 20  # bytes of lines without a day's, after which it is taken to be complete
SHARE: Final = 128 << 20  # bytes of lines that are worth another process
LIVE: Final = "live.jsonl"  # what stays in the log


@frozen
class Staged:
    """What was staged."""

    rows: dict[str, int]  # by part: `dt=<part>.parquet` holds rows of the day that its name begins with
    kept: int  # lines that stay
    first: dict[str, Any]  # the first line that does not, and where it stood; empty if all of them stay


def stage(log: IO[bytes], size: int, today: str, staging: Path) -> Staged:
    """Stage the lines of the first `size` bytes of the log."""
    own, *others = _shares(log, size)

    def work(name: str, share: tuple[int, int], _tell: Tell) -> Staged:
        return _stage(log, share, today, staging, name)

    named = {f"-{number}": share for number, share in enumerate(others, 1)}
    with split_off([partial(work, name, share) for name, share in named.items()]) as parts:
        staged = [_stage(log, own, today, staging), *(part.result() for part in parts)]
    with (staging / LIVE).open("ab") as live:
        for name in named:
            with (staging / f"{name}{LIVE}").open("rb") as more:
                shutil.copyfileobj(more, live)
    return Staged(
        {part: count for one in staged for part, count in one.rows.items()},
        sum(one.kept for one in staged),
        next((one.first for one in staged if one.first), {}),
    )


def _shares(log: IO[bytes], size: int) -> list[tuple[int, int]]:
    """Where shares of the log begin and end, for as many processes as are of use."""
    count = cores(size // SHARE)
    ends = [*(_next_day(log, size * number // count, size) for number in range(1, count)), size]
    return [share for share in zip([0, *ends], ends, strict=False) if share[0] < share[1]] or [(0, size)]


def _next_day(log: IO[bytes], position: int, size: int) -> int:
    """Where the lines of another day begin, from some position on: a day in two files is slower to read."""
    lines, day = chain.from_iterable(_blocks(log, position, size)), None
    position += len(next(lines, b""))  # most likely a part of a line
    for line in lines:
        event = rows.parse(line)
        if event is not None and day not in (None, event["ts"][:10]):
            return position
        day = day if event is None else event["ts"][:10]
        position += len(line)
    return size


def _blocks(log: IO[bytes], start: int, end: int) -> Iterator[list[bytes]]:
    """The lines of a stretch of the log, line feeds included; processes that share the file share no place in it."""
    torn = b""
    while start < end and (block := os.pread(log.fileno(), min(BATCH, end - start), start)):
        start += len(block)
        lines = io.BytesIO(torn + block).readlines()
        torn = b"" if lines[-1].endswith(b"\n") else lines.pop()
        yield lines
    if torn:
        yield [torn]


def _stage(log: IO[bytes], share: tuple[int, int], today: str, staging: Path, name: str = "") -> Staged:
    """Stage a share: days are written and counted while later lines are read."""
    from concurrent.futures import ThreadPoolExecutor

    with parquet.opened() as con, ThreadPoolExecutor(1) as pool:
        writing: dict[str, Future[int]] = {}

        def write(part: str, count: int) -> None:
            writing[part] = pool.submit(_write, con, staging / f"dt={part}.jsonl", count)

        kept, first = _split(log, share, today, staging, name, write)
        return Staged({part: count.result() for part, count in writing.items()}, kept, first)


def _write(con: DuckDBPyConnection, lines: Path, count: int) -> int:
    """A part as Parquet; its lines go at once, before most of them were brought to disk."""
    written = parquet.write(con, lines, lines.with_suffix(".parquet"), count)
    lines.unlink()
    return written


def _split(
    log: IO[bytes],
    share: tuple[int, int],
    today: str,
    staging: Path,
    name: str,
    write: Callable[[str, int], None],
) -> tuple[int, dict[str, Any]]:
    """Stage each finished day's events in a file of its own, and what stays in another.

    A day that no line has spoken of for a while is told to `write`, with its rows, while the next ones are read; should
    there be more of it, that is a part of its own. Gives how many lines stay, and the first that does not.
    """
    parts: dict[str, _Part] = {}  # by day
    position, kept = share[0], 0
    first: dict[str, Any] = {}
    (staging / f"{name}{LIVE}").touch()
    for lines in _blocks(log, *share):
        staying = []
        for line in lines:
            found = rows.read(line)
            day = found[0]["ts"][:10] if found is not None else today
            row = parquet.row(line, *found) if found is not None and day < today else None
            if row is None:
                staying.append(line)
                continue
            if (part := parts.get(day)) is None:
                part = parts[day] = _Part(f"{day}{name}")
                before = lines[: lines.index(line)]
                first = first or {"offset": position + sum(map(len, before)), "line": line.decode()}
            part.waiting.append(row)
        position += sum(map(len, lines))
        kept += sum(bool(line.strip()) for line in staying)
        with (staging / f"{name}{LIVE}").open("ab") as live:
            live.writelines(staying)
        for part in list(parts.values()):
            if part.waiting:
                part.flush(staging, position)
            elif position - part.touched > QUIET and not part.late:
                write(part.name, part.rows)
                parts[part.name[:10]] = _Part(f"{part.name}-late", position, late=True)
    for part in parts.values():
        if part.rows:
            write(part.name, part.rows)
    return kept, first


@dataclass(slots=True)
class _Part:
    """The rows of a day that are being staged, or those that came after it was closed."""

    name: str
    touched: int = 0  # where in the log the last of its lines was read
    late: bool = False
    rows: int = 0
    waiting: list[bytes] = field(default_factory=list)

    def flush(self, staging: Path, position: int) -> None:
        with (staging / f"dt={self.name}.jsonl").open("ab") as file:
            file.write(b"".join(self.waiting))
        self.rows += len(self.waiting)
        self.touched = position
        self.waiting.clear()
