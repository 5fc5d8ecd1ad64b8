"""Keeps which trials are done, one JSON line per finished trial, so that a killed run goes on where it was.

The first line names the configuration (its key, and the parts that made it) and the run: when it began, and a name of
its own. A journal with another key was written for another prompt, suite, model or seed: it is started afresh. A line
torn by a kill is dropped; its trial runs again. What a trial leaves in the log goes by the name of the run and the
identity of the trial, so that whoever was killed between log and journal finds it there (`on_record`).
A request to an endpoint is on record before it leaves: one that no finished trial follows was lost with its process.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from agents.model.call import Sent
from telemetry import logger
from telemetry.edge.errors import Stopped
from telemetry.edge.frozen import frozen
from telemetry.edge.lock import let_go, only_opened

Identity = tuple[Any, ...]  # of a trial

BLOCK = 1 << 12  # bytes read at a time; most rows are shorter
MAX_AGE_S = 20 * 3600  # since its last line; what was left over from yesterday is not part of tonight


def key_of(about: Mapping[str, Any]) -> str:
    """Sixteen hex digits that name a configuration: hashes of suites and prompts, model, provider, seed, ..."""
    text = json.dumps(about, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Rows(Mapping[Identity, dict[str, Any]]):
    """The rows of a journal by trial, read when asked for: of a large suite only their places are held."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._places: dict[Identity, int] = {}

    def put(self, identity: Identity, offset: int) -> None:
        self._places[identity] = offset

    def __getitem__(self, identity: Identity) -> dict[str, Any]:
        import orjson

        offset, line = self._places[identity], b""
        while not line.endswith(b"\n"):
            block = os.pread(self._file, BLOCK, offset + len(line))
            line += block[: block.find(b"\n") + 1] or block
        return dict(orjson.loads(line)["row"])

    def __contains__(self, identity: object) -> bool:
        return identity in self._places

    def __iter__(self) -> Iterator[Identity]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@frozen
class Entries:
    """What stands in a journal: its first line, its rows, and the requests of trials that never ended.

    Of a trial that was run again the last row counts, of a torn line nothing.
    """

    head: Mapping[str, Any]
    rows: Rows
    lost: Mapping[Identity, list[dict[str, Any]]]
    size: int  # of its whole lines

    @classmethod
    def of(cls, descriptor: int) -> Entries:
        import orjson

        head: dict[str, Any] = {}
        rows, lost, size = Rows(descriptor), dict[Identity, list[dict[str, Any]]](), 0
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                entry = orjson.loads(line)
                if not size:
                    head = dict(entry)
                else:
                    identity = tuple(entry["identity"])
                    if "sent" in entry:
                        lost.setdefault(identity, []).append(entry["sent"])
                    else:
                        lost.pop(identity, None)
                        if entry["row"] is not None:
                            rows.put(identity, size)
                size += len(line)
        return cls(head, rows, lost, size)


class Journal:
    """Rows of finished trials by identity, on disk as they come. One writer at a time: a second one is refused.

    `about` describes the configuration; its hash is the key. With `resume=False` whatever is there is thrown away.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], *, resume: bool = True) -> None:
        self.path, self.key = path, key_of(about)
        self.began, self.name = "", ""
        self._tell: Callable[[bytes], None] | None = None  # in a process that was split off
        file = only_opened(path)
        if file is None:
            raise Stopped(f"{path}: another run is at work on this; wait for it to end")
        self._file, self.rows = file, Rows(file)
        fresh = time.time() - os.fstat(self._file).st_mtime <= MAX_AGE_S
        found = self._read()
        self.lost = {} if found is None else dict(found.lost)  # of whichever run left the file
        self.resumed = found is not None and found.head["journal"] == self.key and resume and fresh
        self._size = found.size if found is not None and self.resumed else 0
        os.ftruncate(self._file, self._size)
        if found is not None and self.resumed:
            self.rows, self.name, self.began = found.rows, found.head["name"], found.head["began"]
        else:
            self.began, self.name = logger.utc_now(), os.urandom(8).hex()
            head = {"journal": self.key, "began": self.began, "name": self.name, "about": dict(about)}
            self._write(head)

    def add(self, identity: Identity, row: Mapping[str, Any] | None) -> None:
        """Put one finished trial on record; it counts as done once this returns. None: it will have to run again."""
        place = self._write({"identity": identity, "row": row})
        if row is not None:
            self.rows.put(identity, place)

    def sends(self, identity: Identity, sent: Sent) -> None:
        """Put a request on record that is about to leave."""
        self._write({"identity": identity, "sent": sent}, foreign=None)  # names and numbers of ours

    def row_id(self, identity: Identity) -> str:
        """The id under which the grade of a trial stands in the log."""
        about = "/".join(map(str, (self.name, *identity)))
        return f"trial-{hashlib.sha256(about.encode()).hexdigest()[:24]}"

    def handed_to(self, tell: Callable[[bytes], None]) -> Journal:
        """The same in a process that was split off: lines go to who has the file, and `take` puts them on record."""
        self._tell = tell
        return self

    def take(self, line: bytes) -> dict[str, Any] | None:
        """Put a line on record that was handed over; the row of the trial that it ends, if it ends one."""
        import orjson

        entry, place = orjson.loads(line), self._append(line)
        row: dict[str, Any] | None = entry.get("row")
        if row is not None:
            self.rows.put(tuple(entry["identity"]), place)
        return row

    @cached_property
    def on_record(self) -> frozenset[str]:
        """The ids of grades that the log holds since this run began; of a run that was not killed before, none."""
        if not self.resumed:
            return frozenset()
        from telemetry.edge.files import here
        from telemetry.read import store
        from telemetry.read.rows import Window

        window = Window(kind="evaluation", since=datetime.fromisoformat(self.began))
        with store.connect(here(), window) as con:
            found = con.execute("select event_id from events where event_id like 'trial-%'").fetchall()
        return frozenset(name for (name,) in found)

    def remove(self) -> None:
        """The run is complete and written elsewhere: nothing is left to resume."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the file; the next run may resume from it."""
        let_go(self._file)

    def _read(self) -> Entries | None:
        """What a run before left here; None where that is not one of ours."""
        try:
            found = Entries.of(self._file)
            datetime.fromisoformat(found.head["began"])
            return found if isinstance(found.head["name"], str) and "journal" in found.head else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def _write(self, entry: Mapping[str, Any], *, foreign: Any = ...) -> int:
        """Append a line, or hand it over; returns where it begins."""
        line = logger.encode(entry, foreign=foreign)
        if self._tell is not None:
            self._tell(line)
            return 0
        return self._append(line)

    def _append(self, line: bytes) -> int:
        try:
            written = os.write(self._file, line)
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, str(self.path)) from None
        if written != len(line):  # a full disk takes what still fits
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += written
        return self._size - written
