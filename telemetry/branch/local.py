"""What came from the data branch, on this machine: sealed days of its own, beside what was measured here.

The live log holds only what was measured here. A row is known by its `event_id`, a line of history by its text: what is
here already is not taken twice, so a pull may be killed anywhere and run again, and own rows are no obstacle. Which
segments have been looked at is remembered only to save work.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from telemetry import logger, texts
from telemetry.branch.days import by_day
from telemetry.branch.remote import DataBranch
from telemetry.branch.segments import COLD, LINES, MAX_BYTES, Segment, lines
from telemetry.edge.files import EVENTS, SCRATCH, SEALED, Repo, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.read import days, sealed_texts
from telemetry.read.sealed_texts import CAME

STATE: Final = SCRATCH / "sync.json"


@frozen
class State:
    """Segments of the branch that were looked at, and own sealed files that are there."""

    segments: tuple[str, ...] = ()
    pushed: tuple[str, ...] = ()


def state(repo: Repo) -> State:
    """What is remembered of earlier pulls and pushes; nothing stands on it, so a broken file is none."""
    try:
        found = load_json((repo / STATE).read_bytes())
        json.dumps(found, ensure_ascii=False).encode()  # half a character is no name
        return State(**{name: tuple(map(str, value)) for name, value in found.items()})
    except (OSError, ValueError, TypeError, AttributeError):
        return State()


def remember(repo: Repo, now: State) -> None:
    """Keep it for the next time."""
    write_json(repo / STATE, asdict(now))


def merge(repo: Repo, branch: DataBranch, fresh: Sequence[Segment]) -> None:
    """Bring these segments: rows that are not here yet to sealed days, lines that are not here yet to their logs."""
    for log, path in LINES.items():
        merge_lines(repo / path, branch.read([one.path for one in fresh if one.log == log]))
    if spoken := [one for one in fresh if one.log == "texts"]:
        with laid_out(branch, spoken) as files:
            sealed_texts.bring(repo, files)
    _bring_cold(repo, branch, [one for one in fresh if one.log == COLD])
    frozen = {path.name[3:] for path in (repo / days.COLD).glob("dt=*")}
    if not (events := [one for one in fresh if one.log == "events" and one.day not in frozen]):
        return
    scratch = repo / SEALED / "coming"  # on the disk of the sealed days, so that a file arrives by its rename
    shutil.rmtree(scratch, ignore_errors=True)  # what a killed sync left
    scratch.mkdir(parents=True)
    for day, written in by_day(branch, events, scratch, lambda days: held(repo, days)):
        target = repo / SEALED / f"dt={day}" / f"{CAME}{os.urandom(8).hex()}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        written.rename(target)
    shutil.rmtree(scratch)


def _bring_cold(repo: Repo, branch: DataBranch, segments: Sequence[Segment]) -> None:
    """What days came to whose rows are gone, where nothing is known of them here; a file of another form is none."""
    by: dict[str, list[Segment]] = defaultdict(list)
    for one in segments:
        by[one.day].append(one)
    for day, own in by.items():
        target = repo / days.COLD / f"dt={day}"
        if target.exists() or (repo / SEALED / f"dt={day}").exists():
            continue
        coming = target.with_name(f".coming-{day}-{os.getpid()}")
        shutil.rmtree(coming, ignore_errors=True)
        coming.mkdir(parents=True)
        for one in own:
            what = one.path.rpartition("/")[2].partition("-")[0]
            if what in days.COLD_SUMS:
                (coming / f"{what}.parquet").write_bytes(branch.read([one.path])[0])
        if days.readable(coming):
            coming.rename(target)
        else:
            shutil.rmtree(coming)
            print(f"{own[0].path}: not what a day comes to; left out", file=sys.stderr)


@contextmanager
def laid_out(branch: DataBranch, segments: Sequence[Segment]) -> Iterator[list[Path]]:
    """Segments of texts as files; one that is no such file is told and left out."""
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        files = []
        data = branch.read([one.path for one in segments])
        for number, (one, content) in enumerate(zip(segments, data, strict=True)):
            file = Path(scratch) / f"{number}.{one.form}"
            file.write_bytes(content)
            if sealed_texts.readable(file):
                files.append(file)
            else:
                print(f"{one.path}: holds no texts; left out", file=sys.stderr)
        yield files


def own_texts(repo: Repo) -> bytes:
    """The texts that were kept here and are not on the branch, as far as is known: as many as one segment holds."""
    there = set(state(repo).pushed)
    held = [path for path in sealed_texts.files(repo, own=True) if path.name not in there]
    known = [path for path in sealed_texts.files(repo) if path not in held]
    found, size, left = list[bytes](), 0, 0
    for ts, text in sealed_texts.rows([*held, *sealed_texts.logs(repo)], known):
        line = texts.line_of(ts, text)
        size += len(line)
        if size <= MAX_BYTES:
            found.append(line)
        else:
            left += 1
    if left:
        print(f"texts.jsonl: {left} texts stay here: a segment holds {MAX_BYTES} bytes", file=sys.stderr)
    return b"".join(found)


def merge_lines(path: Path, raws: Iterable[bytes]) -> None:
    """Append the lines that the file does not hold yet."""
    here = lines([path.read_bytes()] if path.exists() else ())
    if new := [line for line in lines(raws) if line not in here]:
        logger.append(b"".join(line + b"\n" for line in new), path)


def held(repo: Repo, days: Iterable[str]) -> dict[str, set[str]]:
    """The ids of the rows of these days that are here already, sealed or in the live log."""
    from telemetry.read import store
    from telemetry.read.rows import Window, quoted

    wanted = sorted(days)
    live = (repo / EVENTS).exists() and (repo / EVENTS).stat().st_size
    if not live and not any((repo / SEALED / f"dt={day}").exists() for day in wanted):
        return {}
    found: dict[str, set[str]] = defaultdict(set)
    with store.connect(repo, Window(elsewhere=True)) as con:
        among = ", ".join(map(quoted, wanted))
        rows = f"select strftime(ts, '%Y-%m-%d') as day, event_id from lines where not malformed and day in ({among})"
        for day, name in con.execute(rows).fetchall():
            found[day].add(name)
    return found


def own_sealed(repo: Repo) -> list[Path]:
    """The sealed files of what was measured here, oldest day first."""
    return sorted(path for path in (repo / SEALED).glob("dt=*/*.parquet") if not path.name.startswith(CAME))


def own_lines(repo: Repo, branch: DataBranch) -> dict[str, bytes]:
    """By log, the lines that the branch, as fetched last, does not hold."""
    found, today = {}, datetime.now(UTC).date()
    kept = [one for one in branch.segments() if not one.is_past(today)]
    for log, path in LINES.items():
        there = lines(branch.read([one.path for one in kept if one.log == log]))
        here = lines([(repo / path).read_bytes()] if (repo / path).exists() else ())
        found[log] = b"".join(line + b"\n" for line in here if line not in there)
    return found
