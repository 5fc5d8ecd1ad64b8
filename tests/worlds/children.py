"""Runs a piece of work in a child of its own, which may be killed in the middle of it, and says how that ended."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

CRASHED = 70  # the exit code of a child that ended in a traceback
# What a process does to the world outside; a kill just before one of them is the worst moment.
STEP = "ratchet.step"  # raised with `sys.audit` for what Python does not see
STEPS = (STEP, "open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "subprocess.Popen", "shutil.rmtree")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit code, or None when it was killed, and what it said."""

    code: int | None
    said: str

    @property
    def killed(self) -> bool:
        return self.code is None

    @property
    def traceback(self) -> str:
        """The last line of an exception that nobody caught; empty when there was none."""
        if self.code == CRASHED or "Traceback (most recent call last)" in self.said:
            return self.said.strip().splitlines()[-1]
        return ""


def run(
    work: Callable[[], object],
    *,
    at_step: int | None = None,
    after_s: float | None = None,
    file_bytes: int | None = None,
    cpu_s: int | None = None,
) -> Ended:
    """Do the work in a child: killed (SIGKILL) at its n-th step outwards, or after a while, if it lives that long.

    `file_bytes` is the size at which no file grows any further: a full disk, for who has no disk to fill.
    `cpu_s` are the seconds of computing after which it is taken for endless, and killed.
    """
    with tempfile.TemporaryFile() as said:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _work(work, said.fileno(), at_step, file_bytes, cpu_s)
        if after_s is not None:
            time.sleep(after_s)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return Ended(code, said.read().decode(errors="replace"))


def _work(
    work: Callable[[], object], said: int, at_step: int | None, file_bytes: int | None, cpu_s: int | None
) -> None:
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(said, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    # As Python opens it: whatever an error says can be told.
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    code = CRASHED
    try:
        if at_step is not None:
            _die_at(at_step)
        if file_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        if cpu_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        answer = work()
        code = answer if isinstance(answer, int) else 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(code)


def steps(work: Callable[[], object]) -> int:
    """How many steps outwards the work takes when nothing happens to it."""
    with mmap.mmap(-1, 8) as shared:

        def counted() -> object:
            seen = [0]

            def step() -> None:
                seen[0] += 1
                shared[:8] = seen[0].to_bytes(8)

            _at_every_step(step)
            return work()

        ended = run(counted)
        assert ended.code == 0, ended
        return int.from_bytes(shared[:8])


def _die_at(step: int) -> None:
    """Let this process be killed at its n-th step outwards."""
    left = [step]

    def die() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _at_every_step(die)


def _at_every_step(do: Callable[[], None]) -> None:
    """Before anything is written, opened for writing, moved, removed or started."""
    write, parent = os.write, os.getpid()

    def watch(event: str, args: tuple[object, ...]) -> None:
        if os.getpid() == parent and event in STEPS and (event != "open" or _writes(*args[1:3])):
            do()

    def written(file: int, data: bytes) -> int:
        if file > 2 and os.getpid() == parent:
            do()
        return write(file, data)

    sys.addaudithook(watch)
    os.write = written


def _writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return bool(set(mode) & set("wax+"))
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
