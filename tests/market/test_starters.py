"""A new agent that reads a kind of the market's inputs: it runs and is graded at once, with room to improve."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agents import orchestrator
from agents.manifest import load_manifest
from agents.market import DOMAIN
from eval import harness, scaffold
from telemetry.edge import cli
from telemetry.edge.files import Repo


@pytest.mark.parametrize("kind", DOMAIN.starters())
def test_a_scaffolded_agent_runs_and_is_graded_at_once(root: Path, repository: Path, kind: str) -> None:
    for folder in ("agents/prompts", "agents/schemas", "agents/sample", "eval/suites"):
        shutil.copytree(repository / folder, root / folder)
    shutil.copy(repository / "agents/manifest.yaml", root / "agents/manifest.yaml")
    assert scaffold.main(["port_watch", "--inputs", kind, "--quiet"]) == cli.OK
    assert load_manifest(Repo(root)).agent("port_watch").enabled
    assert orchestrator.main(["--quiet", "--agent", "port_watch"]) == cli.OK
    assert harness.main(["--quiet", "--agent", "port_watch"]) == cli.OK
    summary = json.loads((root / "eval/results/port_watch.json").read_text())["summary"]
    assert (summary["counted"], summary["passed"]) == (10, 9)
