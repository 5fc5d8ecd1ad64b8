"""Runs a command that may be hostile: a time limit, no secret in its environment, and walls where there are any.

Walls are Linux namespaces, tried once from the strictest down: no network but its own loopback, no other process to
be seen, no file to be written outside the folders it is given. Where the platform grants none, the command still runs
with a clean environment, bounded and without privileges, and `Walls.told` says what was missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

INNER = Path(__file__).with_name("confined.py")
# By path: no package, no sys.path.
START = "import runpy, sys; runpy.run_path(sys.argv[1])['main'](sys.argv[2:])"
KEPT = ("PATH", "LANG", "LC_ALL", "TZ")  # all that a command learns of our environment
TAIL_CHARS = 3_000  # of what the command said
PROBE_SECONDS = 10.0

OK, FAILED, TIMED_OUT = "ok", "failed", "timed out"

_NAMESPACES = ("unshare", "--user", "--map-root-user", "--net")
_PR_SET_PDEATHSIG = 1
_OWN_PROCESSES = ("--pid", "--fork", "--mount-proc", "--kill-child")


@dataclass(frozen=True, slots=True)
class Walls:
    """What keeps a command in; each False is a wall that this platform does not grant."""

    network: bool = False
    processes: bool = False
    files: bool = False
    told: str = ""  # in words, for a report

    def __post_init__(self) -> None:
        held = {
            "no network but its own loopback": self.network,
            "no other process to be seen": self.processes,
            "nothing outside its worktree to be written": self.files,
        }
        have = [what for what, there in held.items() if there]
        lack = [what for what, there in held.items() if not there]
        said = f"held: {', '.join(have)}" if have else "no namespaces on this platform"
        said += f"; not held: {', '.join(lack)}" if lack else ""
        object.__setattr__(self, "told", self.told or said)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a confined command ended."""

    outcome: str  # ok, failed or timed out
    code: int | None
    seconds: float
    tail: str  # the end of what it said


def run(
    command: Sequence[str], cwd: Path, time_limit_s: float, env: Mapping[str, str] | None = None, *,
    walls: Walls | None = None,
) -> Ran:  # fmt: skip
    """Run `command` in `cwd`, which it may write; never longer than the limit, whatever it started."""
    held = probe() if walls is None else walls
    with _scratch() as scratch:
        log = scratch / "said"
        (scratch / "tmp").mkdir()
        start = time.monotonic()
        with log.open("wb") as said:
            process = subprocess.Popen(
                _wrapped(command, held, (cwd.resolve(), scratch.resolve())),
                cwd=cwd,
                env={**environment(scratch), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_us,
            )
            code = _wait(process, time_limit_s)
        seconds = round(time.monotonic() - start, 2)
        outcome = TIMED_OUT if code is None else FAILED if code else OK
        return Ran(outcome, code, seconds, _tail(log))


def environment(scratch: Path) -> dict[str, str]:
    """A clean environment: nothing of ours but where programs are and how text is written."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {
        **kept,
        "HOME": str(scratch),
        "TMPDIR": str(scratch / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


@functools.cache
def probe() -> Walls:
    """The strictest walls that this platform grants; tried once per process, for real."""
    for walls in (Walls(True, True, True), Walls(True, True, False), Walls(True, False, False)):
        with _scratch() as scratch:
            try:
                done = subprocess.run(
                    _wrapped(["true"], walls, (scratch.resolve(),)),
                    cwd=scratch,
                    env=environment(scratch),
                    capture_output=True,
                    timeout=PROBE_SECONDS,
                )
            except (OSError, subprocess.TimeoutExpired):  # no `unshare` here, or one that hangs: no such wall
                continue
        if done.returncode == 0:
            return walls
    return Walls()


def _die_with_us() -> None:
    """Should we be killed, nobody is left to hold the command to its time limit: it goes, too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wrapped(command: Sequence[str], walls: Walls, writable: Sequence[Path]) -> list[str]:
    outer = [*_NAMESPACES, *(_OWN_PROCESSES if walls.processes else ()), "--"] if walls.network else []
    flags = [name for name, there in (("--network", walls.network), ("--files", walls.files)) if there]
    folders = [word for folder in writable for word in ("--writable", str(folder))]
    return [*outer, sys.executable, "-I", "-c", START, str(INNER), *flags, *folders, "--", *command]


def _wait(process: subprocess.Popen[bytes], time_limit_s: float) -> int | None:
    """The exit code; None when the time was over and everything in its session was killed."""
    try:
        return process.wait(time_limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and so has all it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(log: Path) -> str:
    with log.open("rb") as said:
        said.seek(0, os.SEEK_END)
        said.seek(max(0, said.tell() - 4 * TAIL_CHARS))
        return said.read().decode(errors="replace")[-TAIL_CHARS:]


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ratchet-confined-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
