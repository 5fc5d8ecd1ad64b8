"""Runs a command that may be hostile, on a copy of a tree: it gets no secret, a time limit, and walls.

The walls are those of confined.py: Linux namespaces and a filter of system calls. `probe` tries each of them from the
inside, with what an intruder would try; where the platform grants none, the command still runs with a clean
environment, bounded and without privileges, and `Walls.told` says what is missing.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from telemetry.edge.frozen import frozen
from telemetry.edge.split import ending_with_us

PYTHON = os.path.abspath(sys.executable)  # noqa: PTH100 - behind the walls `x/../y` leads nowhere; no link is resolved
INNER = Path(__file__).with_name("confined.py")
TRIES = Path(__file__).with_name("intruder.py")
# By path: no package, no sys.path.
START = "import runpy, sys; runpy.run_path(sys.argv[1])['main'](sys.argv[2:])"
KEPT = ("PATH", "LANG", "LC_ALL", "TZ")  # all that a command learns of our environment
SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")  # how the names of such variables end
TAIL_CHARS = 3_000  # of what the command said
PROBE_SECONDS = 20.0
GRACE_SECONDS = 30.0  # for putting up walls and taking them down

OK, FAILED, TIMED_OUT = "ok", "failed", "timed out"
WALLS = {
    "network": "no network but its own loopback",
    "processes": "no other process to be seen",
    "files": "no file of ours to be read or written but a copy of the tree",
    "sockets": "no socket but internet ones",
}


@frozen
class Walls:
    """What keeps a command in; each False is a wall that this platform does not grant."""

    network: bool = False
    processes: bool = False
    files: bool = False
    sockets: bool = False
    told: str = ""  # in words, for a report

    def __post_init__(self) -> None:
        have = [what for name, what in WALLS.items() if getattr(self, name)]
        lack = [what for name, what in WALLS.items() if not getattr(self, name)]
        said = f"held: {', '.join(have)}" if have else "no walls on this platform"
        said += f"; not held: {', '.join(lack)}" if lack else ""
        object.__setattr__(self, "told", self.told or said)

    @property
    def complete(self) -> bool:
        """Whether all of them stand."""
        return all(getattr(self, name) for name in WALLS)


@frozen
class Ran:
    """How a confined command ended."""

    outcome: str  # ok, failed or timed out
    code: int | None
    seconds: float
    tail: str  # the end of what it said
    returned: Mapping[str, bytes]  # the files that were asked for, and are there


def run(
    command: Sequence[str], tree: Path, time_limit_s: float, returns: Sequence[str] = (), *,
    walls: Walls | None = None,
) -> Ran:  # fmt: skip
    """Run `command` in a copy of `tree`, of which only the files in `returns` come back; all that it starts ends."""
    held = probe() if walls is None else walls
    with _scratch() as scratch:
        out, base, log = scratch / "out", scratch / "base", scratch / "said"
        out.mkdir(mode=0o700)
        base.mkdir()
        asked = {
            "command": list(command),
            "tree": str(tree.resolve()),
            "base": str(base.resolve()),
            "out": str(out.resolve()),
            "seen": _programs(),
            "returns": list(returns),
            "seconds": time_limit_s,
            "namespaces": held.files,
            "filter": held.sockets,
        }
        start = time.monotonic()
        with log.open("wb") as said:
            process = subprocess.Popen(
                [PYTHON, "-I", "-c", START, str(INNER), json.dumps(asked)],
                env=environment(None if held.files else base),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=ending_with_us(),
            )
            _wait(process, time_limit_s + GRACE_SECONDS)
        seconds = round(time.monotonic() - start, 2)
        ended = _ended(out)
        code, why = ended["code"], ended["stopped"]
        outcome = TIMED_OUT if why == TIMED_OUT else FAILED if code or why else OK
        tail = _tail(log) + (f"\nstopped: {why}" if why not in ("", TIMED_OUT) else "")
        found = ((name, out / f"returned-{at}") for at, name in enumerate(returns))
        return Ran(outcome, code, seconds, tail, {n: file.read_bytes() for n, file in found if file.exists()})


def environment(base: Path | None) -> dict[str, str]:
    """A clean environment: nothing of ours but where programs are and how text is written. Without walls in `base`."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {
        **kept,
        "HOME": "/home/nobody" if base is None else str(base),
        "TMPDIR": "/tmp" if base is None else str(base),
        "PYTHONPATH": "/tree" if base is None else f"{base}/tree",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


@functools.cache
def probe() -> Walls:
    """The walls that hold here: tried once per process, by an intruder of our own (intruder.py)."""
    for wanted in (Walls(True, True, True, True), Walls(True, True, True), Walls(sockets=True)):
        if (found := _tried(wanted)) != Walls():
            return found
    return Walls()


def _tried(wanted: Walls) -> Walls:
    """Which of the wanted walls hold against somebody who tries; none where we are behind such walls ourselves."""
    try:
        door = socket.socket(socket.AF_UNIX)
    except PermissionError:
        return Walls()
    with _scratch() as scratch, door as path, socket.socket() as port:
        (tree := scratch / "tree").mkdir()
        (scratch / "secret").write_text("secret")
        path.bind(str(scratch / "door"))
        port.bind(("127.0.0.1", 0))
        for one in (path, port):
            one.listen()
        (tree / "intruder.py").write_bytes(TRIES.read_bytes())
        about = [str(scratch), str(port.getsockname()[1]), str(os.getpid())]
        ran = run([PYTHON, "-I", "intruder.py", *about], tree, PROBE_SECONDS, ["got"], walls=wanted)
    if ran.outcome != OK or "got" not in ran.returned:  # these walls cannot even be put up
        return Walls()
    got = json.loads(ran.returned["got"])
    network, processes, files, sockets = (getattr(wanted, name) and not got[name] for name in WALLS)
    return Walls(network, processes, files, sockets)


def secrets_present() -> list[str]:
    """The names of environment variables that hold what a confined command must not learn."""
    return sorted(name for name, value in os.environ.items() if value and name.upper().endswith(SECRETS))


def _programs() -> list[str]:
    """Where this interpreter and what is installed for it stand, outside the usual places."""
    binaries = {str(Path(PYTHON).parent), str(Path(PYTHON).resolve().parent)}
    # An environment may borrow the packages of another one.
    packages = {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    return sorted({sys.prefix, sys.base_prefix, sys.exec_prefix} | packages | binaries, key=len)


def _wait(process: subprocess.Popen[bytes], most_s: float) -> None:
    """Until the guard inside is done; should it hang, or we be interrupted, everything goes."""
    try:
        process.wait(most_s)
    except subprocess.TimeoutExpired:
        return
    # Without namespaces only the guard knows what runs below it: it has to end that.
    except KeyboardInterrupt:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(GRACE_SECONDS)
        raise
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and so has all it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ended(out: Path) -> dict[str, Any]:
    """What the guard wrote down; without a word it never came to running anything, or hung."""
    try:
        ended: dict[str, Any] = json.loads((out / "ended").read_bytes())
    except FileNotFoundError:
        return {"code": None, "stopped": "the walls could not be put up"}
    return ended


def _tail(log: Path) -> str:
    with log.open("rb") as said:
        said.seek(0, os.SEEK_END)
        said.seek(max(0, said.tell() - 4 * TAIL_CHARS))
        return said.read().decode(errors="replace")[-TAIL_CHARS:]


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ratchet-confined-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
