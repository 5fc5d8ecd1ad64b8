"""The shipped example goes by one command, and what is left works: a night, the audit, a new agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.manifest import load_manifest
from agents.market import DOMAIN
from telemetry.edge.files import Repo
from tests.after_merge import Clone
from tests.worlds.world import compiled

pytestmark = pytest.mark.answers

# Scripts in one process of the clone: importing what they stand on takes longer than most of them run.
IN_TURN = """
import importlib, json, sys
for module, *argv in json.loads(sys.argv[1]):
    code = importlib.import_module(module).main(argv)
    if code:
        sys.exit(f"{module} {argv}: exit code {code}")
"""


@pytest.mark.slow
def test_the_engine_works_without_its_example(tmp_path: Path, repository: Path) -> None:
    clone = Clone.of(repository, tmp_path / "clone")
    clone.overlay(repository)
    compiled(clone.root)
    told = json.loads(clone.python("eval.scaffold", "--clear-example", "--yes", "--json"))
    assert set(told["agents"]) <= set(DOMAIN.agents)
    assert not [path for path in (*DOMAIN.paths, *told["removed"]) if (clone.root / path).exists()]
    clone.commit("Remove the example")
    assert "There is no example" in clone.python("eval.scaffold", "--clear-example")

    assert not {spec.name for spec in load_manifest(Repo(clone.root)).agents} & set(DOMAIN.agents)
    commands = (
        ("eval.suites", "check"),
        ("meta.night", "--quiet"),  # whoever is left runs, is graded and compared
        ("meta.audit", "--quiet"),
        ("eval.scaffold", "quite_another", "--quiet"),
        ("agents.orchestrator", "--agent", "quite_another", "--quiet"),
        ("eval.harness", "--agent", "quite_another", "--quiet"),
    )
    clone.run("python", "-c", IN_TURN, json.dumps(commands))
    clone.run("lint-imports")


def test_the_domain_names_what_is_there(repository: Path) -> None:
    """Or a rename would leave something behind."""
    assert [path for path in DOMAIN.paths if not (repository / path).exists()] == []
