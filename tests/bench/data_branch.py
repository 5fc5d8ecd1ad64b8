"""How long does a runner wait for a year of telemetry? The data branch of a hundred runs a day, compacted, cloned.

Every run is a commit with one segment of twenty rows, as `meta.record` pushes it; what is compacted is the eleven
months that are over, and the twelfth is left as its runs left it. Beside it, the same branch before it is compacted.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from telemetry.branch.compact import compact
from telemetry.branch.remote import BRANCH
from telemetry.branch.segments import name
from tests.bench import Row
from tests.worlds.eventlog import events
from tests.worlds.world import git

DAYS, RUNS, ROWS = 365, 100, 20
MAX_S = 10.0


def main() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ratchet-bench-") as scratch:
        bare, desk = Path(scratch) / "remote.git", Path(scratch) / "desk"
        git(Path(scratch), "init", "-q", "--bare", str(bare))
        _year(bare)
        before, size = _cloned(bare)
        git(Path(scratch), "clone", "-q", "--shared", "--no-checkout", str(bare), str(desk))
        done = compact(desk, date(2027, 9, 15))
        after, left = _cloned(bare)
    told = f"{after:.1f} s, {left / 1e6:.0f} MB ({done.before:,} segments became {done.after})"
    beside = f"{before:.1f} s, {size / 1e6:.0f} MB (not compacted)"
    asked = f"<= {MAX_S:g} s"
    what = f"clone of a year of {RUNS} runs a day"
    return [Row(what, told, beside, f"{before / after:.1f}x", asked, after <= MAX_S)]


def _year(bare: Path) -> None:
    """A commit for each run, on top of each other."""
    feed = subprocess.Popen(["git", "-C", bare, "fast-import", "--quiet"], stdin=subprocess.PIPE)
    assert feed.stdin is not None
    for number, (path, data) in enumerate(_segments()):
        start = f"commit refs/heads/{BRANCH}\ncommitter Ratchet <r@example.com> {1790000000 + number} +0000\n"
        feed.stdin.write(
            f"{start}data 3\nrun\nM 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n"
        )
    feed.stdin.close()
    assert feed.wait() == 0


def _segments() -> Iterator[tuple[str, bytes]]:
    rows = events(DAYS * RUNS * ROWS, days=DAYS)
    for number in range(DAYS * RUNS):
        own: list[dict[str, Any]] = [next(rows) for _ in range(ROWS)]
        for day, same in groupby(own, key=lambda row: str(row["ts"])[:10]):
            data = b"".join(orjson.dumps(row) + b"\n" for row in same)
            yield name("events", day, data, run=f"run-{number}"), data


def _cloned(bare: Path) -> tuple[float, int]:
    """Seconds of a clone of the branch, checked out, and its bytes."""
    with tempfile.TemporaryDirectory(prefix="ratchet-bench-") as scratch:
        start = time.perf_counter()
        git(Path(scratch), "clone", "-q", "--single-branch", "--branch", BRANCH, f"file://{bare}", "clone")
        spent = time.perf_counter() - start
        packs = (Path(scratch) / "clone/.git/objects/pack").glob("*.pack")
        return spent, sum(pack.stat().st_size for pack in packs)
