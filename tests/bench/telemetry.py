"""What does telemetry cost? Appending, summing up and sealing, beside the obvious way of doing the same.

The references: open-append-`json.dumps` for every event, and a rollup with `json.loads` of every line that gives
the same figures and keeps only what they need. Each is measured in the same run, in turns with ours; the best counts.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from telemetry import logger, retention
from telemetry.edge.files import here, working_in
from telemetry.read import store
from tests.bench import Row
from tests.worlds.eventlog import events

EVENTS = 1_000_000
DAYS = 30
LAST_N = 5000
APPENDS = 2_000
WRITERS, EACH = 4, 50_000
TURNS = 4
REPOSITORY = Path(__file__).resolve().parent.parent.parent
FIELDS: dict[str, Any] = {
    "cost_source": "price_list",
    "price_list_version": "2026-10-01",
    "tokens_thinking": 0,
    "signal_strength": 0.7,
    "scoring_version": "1.0",
    "model": "gpt-5-mini",
    "provider": "openai",
    "prompt_hash": "9f86d081884c",
}


def main() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ratchet-bench-") as scratch:
        root = Path(scratch)
        rows = [append_one(root / "append"), many_writers(root / "writers")]
        log = root / "rollup" / logger.LOG_PATH
        generate(log, EVENTS)
        rows += rollups(root / "rollup", root / "short")
    return [*rows, help_of_every_script()]


def append_one(root: Path) -> Row:
    (root / "telemetry").mkdir(parents=True)
    plain = root / "plain.jsonl"
    with working_in(root):
        (ours, _), (reference, _) = best_in_turns(
            lambda: timed(lambda: append_ours(APPENDS)),
            lambda: timed(lambda: append_plainly(plain, APPENDS)),
            turns=20,
        )
    us, reference_us = ours / APPENDS * 1e6, reference / APPENDS * 1e6
    ratio = reference / ours
    return Row(
        "append one event", f"{us:.1f} µs", f"{reference_us:.1f} µs", f"{ratio:.1f}x",
        ">= 2x, about 15 µs on an idle core", ratio >= 2,
    )  # fmt: skip


def append_ours(count: int) -> None:
    for number in range(count):
        logger.log_event(
            agent="macro_watcher", run_id="20261001T120000-0123456789ab", latency_ms=812.25 + number, cost_usd=0.00123,
            tokens_in=900, tokens_out=200, error=None, reward=0.42, **FIELDS,
        )  # fmt: skip


def append_plainly(path: Path, count: int) -> None:
    for number in range(count):
        now = datetime.now(UTC)
        row = {
            "event_id": uuid.uuid4().hex,
            "schema_version": 1,
            "ts": now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z",
            "kind": "run",
            "agent": "macro_watcher",
            "run_id": "20261001T120000-0123456789ab",
            "source": "runtime",
            "latency_ms": 812.25 + number,
            "cost_usd": 0.00123,
            "tokens_in": 900,
            "tokens_out": 200,
            "error": None,
            "error_kind": None,
            "reward": 0.42,
            **FIELDS,
        }
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def many_writers(root: Path) -> Row:
    (root / "telemetry").mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(root, number)) for number in range(WRITERS)]
    start = time.perf_counter()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    seconds = time.perf_counter() - start
    seen, torn, runs = set(), 0, set()
    for line in (root / logger.LOG_PATH).read_bytes().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            torn += 1
            continue
        seen.add(row["event_id"])
        runs.add(row["run_id"])
    lines = (root / logger.LOG_PATH).read_bytes().count(b"\n")
    lost, doubled = WRITERS * EACH - len(runs), lines - torn - len(seen)
    return Row(
        f"{WRITERS} processes x {EACH:,} events", f"{torn} torn, {lost} lost, {doubled} doubled",
        f"{WRITERS * EACH / seconds:,.0f} events/s", "-", "none", not (torn or lost or doubled),
    )  # fmt: skip


def _write_many(root: Path, writer: int) -> None:
    with working_in(root):
        for number in range(EACH):
            logger.log_event(
                "macro_watcher", f"{writer}-{number}", 812.5, cost_usd=0.00123, reward=0.42, **FIELDS
            )


def generate(log: Path, count: int) -> None:
    import orjson

    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        for row in events(count, DAYS):
            file.write(orjson.dumps(row) + b"\n")


def rollups(root: Path, short: Path) -> list[Row]:
    """The long log as lines, its end, and then sealed; the reference reads the same lines."""
    log = root / logger.LOG_PATH
    generate(short / logger.LOG_PATH, LAST_N * 4)
    (reference, reference_mib), (lines, lines_mib), (tail, _), (short_tail, _) = best_in_turns(
        lambda: measured(REFERENCE, str(log)),
        lambda: measured(OURS, str(root), "0"),
        lambda: measured(OURS, str(root), str(LAST_N)),
        lambda: measured(OURS, str(short), str(LAST_N)),
    )
    with working_in(root):
        start = time.perf_counter()
        done = retention.seal(here())
        sealing = time.perf_counter() - start
        assert sum(done.rows_by_day.values()) == EVENTS
        size = sum(path.stat().st_size for path in (root / store.SEALED).rglob("*.parquet")) / EVENTS
    ((sealed, sealed_mib),) = best_in_turns(lambda: measured(OURS, str(root), "0"))
    plain = f"{reference:.2f} s, {reference_mib:.0f} MiB"
    return [
        Row(
            f"rollup of {EVENTS:,} events, JSONL", f"{lines:.2f} s, {lines_mib:.0f} MiB", plain,
            f"{reference / lines:.1f}x", ">= 8x, <= 250 MiB", reference / lines >= 8 and lines_mib <= 250,
        ),
        Row(
            "the same, days sealed", f"{sealed:.2f} s, {sealed_mib:.0f} MiB", plain,
            f"{reference / sealed:.1f}x", ">= 15x", reference / sealed >= 15,
        ),
        Row(
            f"last {LAST_N:,} of {EVENTS:,}", f"{tail * 1000:.0f} ms", f"{short_tail * 1000:.0f} ms of {LAST_N * 4:,}",
            f"{tail / short_tail:.2f}x", "does not grow: <= 1.5x", tail / short_tail <= 1.5,
        ),
        Row(
            "sealed size", f"{size:.1f} bytes/event", f"{done.bytes_before / EVENTS:.0f} bytes as JSON",
            f"{done.bytes_before / EVENTS / size:.0f}x smaller", "<= 70 bytes/event", size <= 70,
        ),
        Row("sealing", f"{EVENTS / sealing:,.0f} events/s", "-", "-", "-", True),
    ]  # fmt: skip


OURS = """
import sys, time
from pathlib import Path
from telemetry import rollup
from telemetry.edge.files import working_in
with working_in(Path(sys.argv[1])):
    start = time.perf_counter()
    summary = rollup.rollup(int(sys.argv[2]))
    seconds = time.perf_counter() - start
runs = summary["count"]
"""
REFERENCE = """
import json, sys, time
start = time.perf_counter()
groups = {"agent": {}, "source": {}, "day": {}}
malformed = 0
with open(sys.argv[1], encoding="utf-8") as log:
    for line in log:
        try:
            event = json.loads(line)
        except ValueError:
            malformed += 1
            continue
        if event.get("kind") != "run":
            continue
        event["day"] = event["ts"][:10]
        for key, by in groups.items():
            seen = by.setdefault(event[key], {"latency": [], "cost": [], "reward": [], "errors": {}, "last_ts": ""})
            seen["cost"].append(event["cost_usd"])
            seen["reward"].append(event["reward"])
            seen["last_ts"] = max(seen["last_ts"], event["ts"])
            if event["error"] is not None:
                seen["errors"][event["error_kind"]] = seen["errors"].get(event["error_kind"], 0) + 1
            if key == "agent":
                seen["latency"].append(event["latency_ms"])
runs = 0
for key, by in groups.items():
    for seen in by.values():
        costs = [cost for cost in seen["cost"] if cost is not None]
        seen["mean_cost"], seen["mean_reward"] = sum(costs) / len(costs), sum(seen["reward"]) / len(seen["reward"])
        if key == "agent":
            latency = sorted(seen["latency"])
            seen["percentiles"] = [latency[round(share * (len(latency) - 1))] for share in (0.5, 0.95, 0.99)]
            squares = sum((reward - seen["mean_reward"]) ** 2 for reward in seen["reward"])
            seen["standard_error"] = (squares / (len(latency) - 1) / len(latency)) ** 0.5
            runs += len(latency)
seconds = time.perf_counter() - start
"""
REPORT = """
import json
from pathlib import Path
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([seconds, int(peak.split()[1]) / 1024, runs]))
"""


def measured(program: str, *arguments: str) -> tuple[float, float]:
    """Seconds and peak MiB of a program in a process of its own."""
    command = [sys.executable, "-c", program + REPORT, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    seconds, mib, runs = json.loads(done.stdout)
    assert runs in (EVENTS, LAST_N)
    return seconds, mib


def help_of_every_script() -> Row:
    scripts = sorted(
        str(path.relative_to(REPOSITORY))
        for package in ("telemetry", "agents", "eval", "meta")
        for path in (REPOSITORY / package).glob("*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    )
    times: dict[str, float] = {}
    for _ in range(TURNS * 2):
        for name in ("-c", *scripts):
            command = [sys.executable, name, "pass" if name == "-c" else "--help"]
            start = time.perf_counter()
            subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
            times[name] = min(times.get(name, 9.0), time.perf_counter() - start)
    bare = times.pop("-c")
    slowest = max(times, key=lambda name: times[name])
    return Row(
        f"--help of {len(scripts)} scripts", f"{times[slowest] * 1000:.0f} ms ({slowest})", f"{bare * 1000:.0f} ms",
        f"{times[slowest] / bare:.1f}x", "<= 4x python -c pass", times[slowest] <= 4 * bare,
    )  # fmt: skip


def timed(work: Callable[[], None]) -> tuple[float, float]:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start, 0.0


def best_in_turns(*works: Callable[[], tuple[float, float]], turns: int = TURNS) -> list[tuple[float, float]]:
    """Of each work the least time and the most memory of its turns; taking turns, a busy moment hits all alike."""
    found: list[list[tuple[float, float]]] = [[] for _ in works]
    for _ in range(turns):
        for place, work in enumerate(works):
            found[place].append(work())
    return [(min(seconds for seconds, _ in each), max(mib for _, mib in each)) for each in found]
