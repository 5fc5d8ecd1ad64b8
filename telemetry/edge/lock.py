"""One at a time: a lock on a file, which ends with its process, however that ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from telemetry.edge.errors import Stopped
from telemetry.edge.files import SCRATCH, Repo


def only_opened(path: Path) -> int | None:
    """A file held by one process at a time, made if need be; None if another has it."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def let_go(file: int) -> None:
    """Close it, and end the lock even if a process that was started meanwhile has the file open too."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


@contextmanager
def only_one(repo: Repo, name: str, what: str) -> Iterator[None]:
    """Refuses a second one in the same checkout, and says who is at work there."""
    path = repo / SCRATCH / f"{name}.lock"
    file = only_opened(path)
    if file is None:
        holder = path.read_text(errors="replace").strip()
        raise Stopped(f"another {what} is at work in this checkout ({holder}); wait for it to end")
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
        os.ftruncate(file, 0)
        os.write(file, f"process {os.getpid()}, since {since}\n".encode())
        yield
    finally:
        let_go(file)
