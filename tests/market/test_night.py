"""One night on what is shipped, whoever is champion and whoever is disabled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from meta.publish.kinds import KINDS
from tests.conftest import REPOSITORY
from tests.worlds.night_checkout import git
from tests.worlds.world import compiled

pytestmark = pytest.mark.answers


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What HEAD and the working tree hold together, on the history that explains it."""
    copy = tmp_path / "ratchet"
    git(tmp_path, "clone", "-q", "--no-local", str(REPOSITORY), str(copy))
    for name in git(REPOSITORY, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (REPOSITORY / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((REPOSITORY / name).read_bytes())
        else:
            (copy / name).unlink(missing_ok=True)
    git(copy, "add", "-A")
    git(copy, "commit", "-q", "--allow-empty", "-m", "as it is now")
    return compiled(copy)


@pytest.mark.slow
def test_a_night_comes_through_and_its_changes_are_explained_once_merged(checkout: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}

    def python(*command: str) -> str:
        run = [sys.executable, "-m", *command]
        done = subprocess.run(run, cwd=checkout, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = json.loads(python("meta.night", "--json"))
    assert {step["status"] for step in told["steps"]} == {"done"}
    by_name = {step["name"]: step["told"] for step in told["steps"]}
    assert re.search(r"\b\w+ [B-Z] [0-9a-f]{7}\b.*points|nothing to compare", by_name["A/B"])
    assert re.fullmatch(r"(\w+ \d+ %(, )?)+", by_name["evals"])
    assert git(checkout, "status", "--porcelain") == ""
    branches = git(checkout, "branch", "--list", "--format=%(refname:short)", "meta/*").split()
    assert set(branches) <= {kind.branch for kind in KINDS.values()}
    for branch in sorted(branches, key=lambda name: name != KINDS["ab_champion"].branch):
        git(checkout, "merge", "-q", "--no-edit", branch)
    python("meta.audit")
