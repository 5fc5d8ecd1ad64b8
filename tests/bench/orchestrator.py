"""Two hundred offline agents in one run, start-up included; and the replay of 130 days that a first night makes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import Row

REPOSITORY = Path(__file__).resolve().parents[2]
AGENTS = 200
DAYS = 130
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
        manifest = (REPOSITORY / "agents/manifest.yaml").read_text(encoding="utf-8")
        (root / "agents/manifest.yaml").write_text(manifest, encoding="utf-8")
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
            f"replay of {DAYS} days, all market agents",
            f"{replay:.2f} s",
            f"{bare:.2f} s (python -c pass)",
            f"{replay / bare:.0f}x",
            f"<= {REPLAY_TARGET_S:g} s",
            replay <= REPLAY_TARGET_S,
        ),
    ]


def _crowd(root: Path) -> None:
    """A checkout whose manifest has 200 agents: the market agents of the real one, over and over."""
    import yaml

    for name in ("agents/prompts", "agents/schemas", "agents/sample", "eval/suites"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(REPOSITORY / name)
    manifest = yaml.safe_load((REPOSITORY / "agents/manifest.yaml").read_text(encoding="utf-8"))
    market = [agent for agent in manifest["agents"] if agent["inputs"] in ("macro", "headlines", "quotes")]
    crowd = [market[n % len(market)] | {"name": f"agent_{n}", "enabled": True} for n in range(AGENTS)]
    changed = manifest | {"agents": crowd, "critique_pairs": []}
    changed.pop("retirement", None)
    (root / "agents/manifest.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")


def _seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=REPOSITORY, check=True)
    return time.perf_counter() - start
