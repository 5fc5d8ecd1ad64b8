"""Two hundred offline agents in one run, start-up included; and a replay of 120 days, as a first night makes it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.bench import Row
from tests.worlds import world

REPOSITORY = Path(__file__).resolve().parents[2]
AGENTS = 200
DAYS = len(world.DAYS)
TARGET_S = 2.0
REPLAY_TARGET_S = 4.0


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _crowd(root)
        bare = min(_seconds("-c", "pass") for _ in range(3))
        crowd = min(_seconds("-m", "agents.orchestrator", "--root", folder, "--quiet") for _ in range(3))
        written = len(list((root / "agents/outputs").glob("*.json")))
        runs = (root / "telemetry/events.jsonl").read_text(encoding="utf-8").count('"kind":"run"')
        assert (written, runs) == (AGENTS, 3 * AGENTS), (
            f"{written} outputs and {runs} rows of {AGENTS} agents"
        )
        world.toy(root)
        replay = _seconds("-m", "agents.orchestrator", "--root", folder, "--replay", str(DAYS), "--quiet")
    return [
        Row(
            f"{AGENTS} offline agents, start-up included",
            f"{crowd:.2f} s",
            f"{bare:.2f} s (python -c pass)",
            f"{crowd / bare:.0f}x",
            f"<= {TARGET_S:g} s",
            crowd <= TARGET_S,
        ),
        Row(
            f"replay of {DAYS} days, both agents of the toy",
            f"{replay:.2f} s",
            f"{bare:.2f} s (python -c pass)",
            f"{replay / bare:.0f}x",
            f"<= {REPLAY_TARGET_S:g} s",
            replay <= REPLAY_TARGET_S,
        ),
    ]


def _crowd(root: Path) -> None:
    """A checkout whose manifest has 200 agents: the watchers of the toy, over and over."""
    world.toy(root)
    manifest = yaml.safe_load((root / "agents/manifest.yaml").read_text())
    watchers = [agent for agent in manifest["agents"] if agent["inputs"] == "levels"]
    crowd = [watchers[n % len(watchers)] | {"name": f"agent_{n}"} for n in range(AGENTS)]
    world.manifest(root, crowd, domain=manifest["domain"])


def _seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=REPOSITORY, check=True)
    return time.perf_counter() - start
