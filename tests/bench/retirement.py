"""Who earns their keep among 500 agents with a million runs? Against reading every line with json.loads."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import yaml

from tests.bench import Row
from tests.worlds import world

REPOSITORY = Path(__file__).resolve().parents[2]
EVENTS, AGENTS = 1_000_000, 500
TARGET_S = 2.0


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _crowd(root)
        _log(root / "telemetry/events.jsonl")
        live = min(_ours(folder) for _ in range(3))
        report = json.loads((root / "meta/reports/retirement_report.json").read_text())
        flagged = {row["agent"] for row in report["candidates"]}
        start = time.perf_counter()
        plain = _plain(root / "telemetry/events.jsonl")
        reference = time.perf_counter() - start
        subprocess.run(
            [sys.executable, "-m", "telemetry.retention", "seal", "--root", folder, "--quiet"], check=True
        )
        sealed = min(_ours(folder) for _ in range(3))
    assert flagged == {name for name, mean in plain.items() if mean < 0.01}, "both ways have to agree"
    return [
        Row(
            f"retirement, {EVENTS:,} events of {AGENTS} agents, {form}, start-up included",
            f"{ours:.2f} s",
            f"{reference:.2f} s (json.loads, means only)",
            f"{reference / ours:.1f}x faster",
            f"<= {TARGET_S:g} s",
            ours <= TARGET_S,
        )
        for form, ours in (("JSONL", live), ("days sealed", sealed))
    ]


def _ours(folder: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "meta.retirement", "--root", folder, "--quiet"], cwd=REPOSITORY, check=True
    )
    return time.perf_counter() - start


def _plain(log: Path) -> dict[str, float]:
    rewards: dict[str, list[float]] = defaultdict(list)
    with log.open() as lines:
        for line in lines:
            event = json.loads(line)
            rewards[event["agent"]].append(event["reward"])
    return {agent: sum(own[-200:]) / len(own[-200:]) for agent, own in rewards.items()}


def _crowd(root: Path) -> None:
    """A checkout of 500 agents: one of the toy's under other names."""
    world.toy(root)
    manifest = yaml.safe_load((root / "agents/manifest.yaml").read_text())
    crowd = [manifest["agents"][0] | {"name": f"agent_{number:03d}"} for number in range(AGENTS)]
    world.manifest(root, crowd, domain=manifest["domain"])
    (root / "telemetry").mkdir()


def _log(path: Path) -> None:
    """A hundred days of runs; every tenth agent finds nothing."""
    chance = random.Random(7)
    fixed = '"tokens_in":900,"tokens_out":120,"cost_usd":0.0006,"cost_source":"price_list","error":null'
    with path.open("w") as log:
        for number in range(EVENTS):
            agent, day = number % AGENTS, number // (EVENTS // 100)
            reward = 0.0 if agent % 10 == 0 else round(chance.random(), 3)
            date = f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}"
            log.write(
                f'{{"event_id":"e{number}","schema_version":1,'
                f'"ts":"{date}T06:{number // 60000 % 60:02d}:{number // 1000 % 60:02d}.{number % 1000:03d}Z",'
                f'"kind":"run","agent":"agent_{agent:03d}","run_id":"r{number}","source":"runtime",'
                f'"latency_ms":812.5,{fixed},"reward":{reward},"signal_strength":{reward},"scoring_version":"1.0",'
                f'"signals":"Elm:rising"}}\n'
            )


if __name__ == "__main__":
    print(main())
