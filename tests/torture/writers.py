"""Eight writers, two sealers and a rollup at once on one log: every row is there, once."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from telemetry import logger
from telemetry.edge.files import Repo, working_in
from telemetry.read import store
from tests.torture import Clock, Figure, lived
from tests.worlds import children
from tests.worlds.eventlog import line

ROWS, WRITERS = 160_000, 8
DAYS = ("2026-10-01", "2026-10-02", "2026-10-03")


def _write(root: Path, writer: int, count: int) -> None:
    with working_in(root):
        for number in range(count):
            stamp = f"{DAYS[number % 3]}T10:00:00.000Z"
            logger.append(line(event_id=f"{writer}-{number:06d}", ts=stamp) + b"\n")


def _until(done: Path, root: Path, script: str, words: tuple[str, ...]) -> None:
    while not done.exists():
        code = lived.call(root, script, words)
        assert code in (0, 3), f"{script}: exit {code}"
        time.sleep(0.05)


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # of two sealers, one gives way and says so
        code = children.CRASHED
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def run(clock: Clock, rows: int = ROWS) -> list[Figure]:
    """All at once; then sealed once more and counted, by ids and by the rollup."""
    lived.loaded()
    with tempfile.TemporaryDirectory(prefix="ratchet-writers-") as folder:
        root = Path(folder) / "ratchet"
        (root / "telemetry").mkdir(parents=True)
        done, each = root / "done", rows // WRITERS
        writers = [_forked(lambda number=number: _write(root, number, each)) for number in range(WRITERS)]  # type: ignore[misc]
        seal, rollup = ("telemetry.retention", ("seal",)), ("telemetry.rollup", ())
        others = [_forked(lambda one=one: _until(done, root, *one)) for one in (seal, seal, rollup)]  # type: ignore[misc]
        wrong = [f"writer: {status}" for child in writers if (status := os.waitpid(child, 0)[1])]
        done.touch()
        wrong += [f"sealer or rollup: {status}" for child in others if (status := os.waitpid(child, 0)[1])]
        for script, words in (seal, ("telemetry.rollup", ("--last-n", "0"))):
            children.run(lambda script=script, words=words: lived.call(root, script, words))  # type: ignore[misc]
        counted = json.loads((root / "telemetry/summary.json").read_bytes())["count"]
        with store.connect(Repo(root)) as con:
            found = con.execute("select count(*), count(distinct event_id) from events").fetchone()
    if (counted, found) != (rows, (rows, rows)):
        wrong.append(f"rollup counts {counted:,}, the log holds {found}")
    return [
        Figure("rows of 8 writers, 2 sealers, rollup", rows if not wrong else 0, rows, rows, tuple(wrong))
    ]
