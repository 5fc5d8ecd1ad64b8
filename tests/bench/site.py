"""How long does the site of a large repository take, and how heavy are its pages? 1,000 agents over 365 nights."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from tests.bench import Row
from tests.worlds import world

REPOSITORY = Path(__file__).resolve().parents[2]
AGENTS, NIGHTS, CASES = 1_000, 365, 40
TARGET_S, TARGET_BYTES = 10.0, 1_000_000


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _crowd(root)
        start, before = time.perf_counter(), os.times()
        command = [sys.executable, "-m", "meta.dashboard", "--root", folder, "--quiet"]
        subprocess.run(command, cwd=REPOSITORY, check=True)
        taken, after = time.perf_counter() - start, os.times()
        cpu = sum(after[2:4]) - sum(before[2:4])  # of the child, whatever else the machine does
        sizes = {page: page.stat().st_size for page in (root / "site").rglob("*.html")}
        heaviest = max(sizes, key=lambda page: sizes[page])
        name, most = heaviest.relative_to(root / "site"), sizes[heaviest]
    what = f"{len(sizes):,} pages of {AGENTS:,} agents, {NIGHTS} nights, start-up included"
    return [
        Row(what, f"{taken:.1f} s; {cpu:.1f} s of CPU", "", "", f"<= {TARGET_S:g} s", taken <= TARGET_S),
        Row(
            f"the heaviest of them, {name}",
            f"{most:,} bytes",
            "",
            "",
            f"<= {TARGET_BYTES:,}",
            most <= TARGET_BYTES,
        ),
    ]


def _crowd(root: Path) -> None:
    """The toy, its first agent a thousand times, with a year of history, runs and results."""
    world.toy(root)
    raw = yaml.safe_load((root / "agents/manifest.yaml").read_text())
    entry = next(one for one in raw["agents"] if one["name"] == "flood_watch")
    names = [f"watch_{number:04}" for number in range(AGENTS)]
    raw["agents"] = [{**entry, "name": name} for name in names]
    for about_others in ("critique_pairs", "retirement"):
        raw.pop(about_others, None)
    (root / "agents/manifest.yaml").write_text(yaml.safe_dump(raw))
    (root / "telemetry").mkdir(exist_ok=True)
    chance, now = random.Random(3), datetime.now(UTC)
    nights = [now - timedelta(days=NIGHTS - number) for number in range(NIGHTS)]
    with (
        (root / "eval/history.jsonl").open("w") as history,
        (root / "telemetry/events.jsonl").open("w") as events,
    ):
        for night in nights:
            ts = night.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            passed = {name: {"counted": CASES, "passed": chance.randint(25, 38)} for name in names}
            history.write(json.dumps({"ts": ts, "run_type": "eval", "summary": {"agents": passed}}) + "\n")
            for number, name in enumerate(names):
                row = {"event_id": f"{ts}-{number}", "schema_version": 1, "ts": ts, "kind": "run", "agent": name,
                       "run_id": f"{ts}-{number}", "source": "runtime", "latency_ms": 5.0, "cost_usd": 0.001,
                       "reward": chance.random() / 3, "signal_strength": 0.3, "scoring_version": "1.0",
                       "provider": "offline", "model": "m"}  # fmt: skip
                events.write(json.dumps(row) + "\n")
    for name in names:
        rows = [_result(f"{name}-{number}", chance.random() < 0.8) for number in range(CASES)]
        summary = {"counted": CASES, "passed": sum(row["ok"] is True for row in rows), "empty_rate": 0.3}
        world.put(root, f"eval/results/{name}.json", {"summary": summary, "results": rows})
    world.commit(root)


def _result(case: str, ok: bool) -> dict[str, object]:
    output = [{"id": "Elm", "signal": "rising", "rationale": "the level rose by a third since yesterday"}]
    about = {"split": "tune", "family": "rise", "tags": ["rise"], "output": output, "output_kept": True}
    return {"id": case, "ok": ok, "score": float(ok), "reasons": [] if ok else ["expected nothing"], **about}
