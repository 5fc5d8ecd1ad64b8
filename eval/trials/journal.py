"""Keeps which trials are done, one JSON line per finished trial, so that a killed run goes on where it was.

The first line names the configuration (its key, and the parts that made it) and the run: when it began, and a name of
its own. A journal with another key was written for another prompt, suite, model or seed: it is started afresh. A line
torn by a kill is dropped; its trial runs again. What a trial leaves in the log goes by the name of the run and the
identity of the trial, so that whoever was killed between log and journal finds it there (`on_record`).
A request to an endpoint is on record before it leaves: one that no finished trial follows was lost with its process.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from telemetry import logger
from telemetry.edge.errors import Stopped

Identity = tuple[Any, ...]  # of a trial
Rows = dict[Identity, dict[str, Any]]

MAX_AGE_S = 20 * 3600  # since its last line; what was left over from yesterday is not part of tonight


def key_of(about: Mapping[str, Any]) -> str:
    """Sixteen hex digits that name a configuration: hashes of suites and prompts, model, provider, seed, ..."""
    text = json.dumps(about, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def entries(data: bytes) -> tuple[dict[str, Any], Rows, dict[Identity, list[dict[str, Any]]]]:
    """The first line of a journal, its rows, and the requests of trials that never ended.

    Of a trial that was run again the last row counts, of a torn line nothing.
    """
    import orjson

    first, *lines = data[: data.rfind(b"\n") + 1].splitlines()
    rows: Rows = {}
    lost: dict[Identity, list[dict[str, Any]]] = {}
    for entry in map(orjson.loads, lines):
        identity = tuple(entry["identity"])
        if "sent" in entry:
            lost.setdefault(identity, []).append(entry["sent"])
        else:
            lost.pop(identity, None)
            if entry["row"] is not None:
                rows[identity] = entry["row"]
    return dict(orjson.loads(first)), rows, lost


def only_opened(path: Path) -> int | None:
    """A file held by one process at a time, None if another has it; it is let go with the process, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


class Journal:
    """Rows of finished trials by identity, on disk as they come. One writer at a time: a second one is refused.

    `about` describes the configuration; its hash is the key. With `resume=False` whatever is there is thrown away.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], *, resume: bool = True) -> None:
        self.path, self.key = path, key_of(about)
        self.began, self.name = "", ""
        self.rows: Rows = {}
        self.lost: dict[Identity, list[dict[str, Any]]] = {}  # of whichever run left the file
        file = only_opened(path)
        if file is None:
            raise Stopped(f"{path}: another run is at work on this; wait for it to end")
        self._file = file
        fresh = time.time() - os.fstat(self._file).st_mtime <= MAX_AGE_S
        read = self._read()
        keep = read if resume and fresh else 0
        self.rows = self.rows if keep else {}
        os.ftruncate(self._file, keep)
        self.resumed = keep > 0
        if not self.resumed:
            self.began, self.name = logger.utc_now(), os.urandom(8).hex()
            head = {"journal": self.key, "began": self.began, "name": self.name, "about": dict(about)}
            self._write(head)

    def add(self, identity: Identity, row: Mapping[str, Any] | None) -> None:
        """Put one finished trial on record; it counts as done once this returns. None: it will have to run again."""
        self._write({"identity": identity, "row": row})

    def sends(self, identity: Identity, sent: Mapping[str, Any]) -> None:
        """Put a request on record that is about to leave."""
        self._write({"identity": identity, "sent": sent})

    def row_id(self, identity: Identity) -> str:
        """The id under which the grade of a trial stands in the log."""
        about = "/".join(map(str, (self.name, *identity)))
        return f"trial-{hashlib.sha256(about.encode()).hexdigest()[:24]}"

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
        os.close(self._file)

    def _read(self) -> int:
        """Load the rows that belong to our key; returns how many bytes of the file are whole lines of them."""
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            data = file.read()
        try:
            head, rows, self.lost = entries(data)
            name, began = str(head["name"]), str(datetime.fromisoformat(head["began"]))
        except (ValueError, KeyError, TypeError, IndexError):  # not one of ours: begin again
            return 0
        if head.get("journal") != self.key:
            return 0
        self.rows, self.name, self.began = rows, name, began
        return data.rfind(b"\n") + 1

    def _write(self, entry: Mapping[str, Any]) -> None:
        line = logger.encode(entry)
        try:
            written = os.write(self._file, line)
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, str(self.path)) from None
        if written != len(line):  # a full disk takes what still fits
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
