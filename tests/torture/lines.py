"""One bad line stops nothing: every kind of broken line alone in a log, and whoever reads or seals it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import orjson

from tests.torture import Clock, Figure, lived
from tests.worlds import children, world
from tests.worlds.broken_lines import BROKEN
from tests.worlds.eventlog import events

GOOD = [orjson.dumps(one) for one in events(60, days=2)]
READERS = (
    ("telemetry.rollup", ("--last-n", "0")),
    ("telemetry.summarize", ()),
    ("telemetry.plots", ("--last-n", "0")),
    ("meta.retirement", ()),
)
SEAL, COUNT = ("telemetry.retention", ("seal",)), ("telemetry.rollup", ("--last-n", "0"))


def run(clock: Clock, wanted: int | None = None) -> list[Figure]:
    """Each kind: a reader in turn, the sealer, and the good rows that are counted before and after."""
    lived.loaded()
    wanted, faults, tried = wanted or len(BROKEN), list[str](), 0
    with tempfile.TemporaryDirectory(prefix="ratchet-lines-") as folder:
        for number, (name, make) in enumerate(list(BROKEN.items())[:wanted]):
            if clock.over:
                break
            tried += 1
            root = world.toy(Path(folder) / str(number))
            lines = [*GOOD[:30], make(), *GOOD[30:]]
            world.put(root, "telemetry/events.jsonl", b"\n".join(lines) + b"\n")
            counts = []
            for script, words in (COUNT, READERS[number % len(READERS)], SEAL, COUNT):
                ended = children.run(
                    lambda root=root, script=script, words=words: lived.call(root, script, words)
                )  # type: ignore[misc]
                if ended.code != 0:
                    faults.append(f"{name}: {script}: {ended.traceback or ended.said[-200:]}")
                    break
                if (script, words) == COUNT:
                    summary = json.loads((root / "telemetry/summary.json").read_bytes())
                    counts.append((summary["count"], summary["malformed_lines"]))
            else:
                if counts[0][0] < len(GOOD) or counts[0] != counts[1]:
                    faults.append(f"{name}: rows and malformed lines {counts}, of {len(GOOD)} good ones")
    return [Figure("kinds of broken log lines survived", tried - len(faults), tried, wanted, tuple(faults))]
