"""Does a whole night get through an endpoint that answers one question at a time, a second each, without a time-out?

All agents of this checkout, their suites cut to a few cases: what counts is that many questions wait for one slot. The
endpoint says, to every question, as little as the schema allows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from agents.offline.model import fitted
from eval.grading import suite as suites
from telemetry.edge import cli
from telemetry.edge.files import EVENTS, HISTORY, SUITES, Repo
from tests.bench import Row
from tests.worlds import world
from tests.worlds.loopback import Loopback, Reply, Request, chat, error

ROOT = Path(__file__).resolve().parents[2]
CASES = 8  # of each suite
ANSWER_S = 1.0


class OneSlot:
    """Each answer is begun when the one before it is done."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._free = seconds, 0.0

    def __call__(self, request: Request) -> Reply:
        if request.method == "GET":  # is the model about to be shut down?
            return error(404, "no such page")
        asked = request.json().get("response_format", {}).get("json_schema", {})
        now = time.monotonic()
        self._free = max(self._free, now) + self._seconds
        return chat(json.dumps(fitted({}, asked.get("schema", {}))), delay_s=self._free - now)


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, Loopback(OneSlot(ANSWER_S)) as server:
        root = Path(folder) / "checkout"
        _checkout(root)
        _run(
            root, "agents.orchestrator"
        )  # without a model: so that the night is not a first one, which replays
        start = time.monotonic()
        code = _run(root, "meta.night", OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none")
        took = time.monotonic() - start
        calls = len([one for one in server.requests if one.method == "POST"])
        lines = (root / EVENTS).read_text("utf-8").splitlines()
    failed = Counter(row.get("error_kind") for row in map(json.loads, lines) if row.get("error_kind"))
    told = ", ".join(f"{count} {kind}" for kind, count in failed.items()) or "none"
    return [
        Row(
            f"a night of all agents, {CASES} cases each, one slot of {ANSWER_S:g} s: failed calls and runs",
            f"{told}; {calls} calls in {took:.0f} s, exit code {code}",
            f"{calls * ANSWER_S:.0f} s: the answers alone",
            f"{took / calls / ANSWER_S:.2f}",
            "none, exit code 0",
            not failed and code == cli.OK,
        )
    ]


def _run(root: Path, script: str, **variables: str) -> int:
    """The exit code of a script of that checkout."""
    without = ("GITHUB_", "OPENAI_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    environment |= variables | {"PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-m", script, "--quiet"], cwd=root, env=environment, check=False
    ).returncode


def _checkout(root: Path) -> None:
    """This repository, its suites cut short."""
    shutil.copytree(
        ROOT,
        root,
        ignore=shutil.ignore_patterns(
            ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "site", "outputs"
        ),
    )
    for path in (EVENTS, HISTORY):
        (root / path).unlink(missing_ok=True)
    cut = sorted((root / SUITES).glob("*.jsonl"))
    for path in cut:
        path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:CASES]), "utf-8")
    suites.pin(Repo(root), [path.relative_to(root) for path in cut])
    world.change(root, ab_test={"min_cases": 2})
    world.commit(root, "A short night")


if __name__ == "__main__":
    print(*main(), sep="\n")
