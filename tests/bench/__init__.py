"""The measured figures: one module per area, each beside a plain reference in the same run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SEED = 0  # of what is simulated: `python -m tests.bench rounds --seed 3` draws other worlds

# Started from a small process, since what a command took at its peak is never less than what started it had then.
_STARTER = """
import json, os, subprocess, sys, time
start = time.perf_counter()
child = subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
wall = time.perf_counter() - start
took = start, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
print(json.dumps([*took, os.waitstatus_to_exitcode(status)]))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    measured: str
    reference: str
    ratio: str
    target: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Used:
    """What a command took."""

    start: float  # by `time.perf_counter`
    wall_s: float
    cpu_s: float
    peak_mib: float


def used(*arguments: str, url: str = "") -> Used:
    """Run Python to its end, with an address as that of the endpoint; what it prints goes nowhere."""
    # Bytecode as on anybody's machine: else only our side would be compiled anew each time.
    without = ("OPENAI_", "GITHUB_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    if url:
        kept |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    command = [sys.executable, "-S", "-c", _STARTER, *arguments]
    told = subprocess.run(command, cwd=REPOSITORY, env=kept, stdout=subprocess.PIPE, text=True, check=True)
    *took, code = json.loads(told.stdout)
    if code:
        raise RuntimeError(f"a side of the benchmark failed with {code}")
    return Used(*took)


@contextmanager
def endpoint(*flags: str) -> Iterator[str]:
    """A chat endpoint in a process of its own; its address."""
    command = [sys.executable, "-m", "tests.worlds.loopback", *flags]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()
