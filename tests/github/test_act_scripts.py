"""The workflows with the real scripts, on the offline model: the night as GitHub would run it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta.publish.kinds import KINDS
from telemetry.branch.remote import BRANCH
from tests.github.act_night import Night, toy_tree
from tests.worlds import proposal_repo as repo
from tests.worlds.ab_world import run, verdicts
from tests.worlds.world import with_agents_of


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    with Night(tmp_path) as night:
        toy_tree(night.tree)
        with_agents_of(night.tree, monkeypatch)
        yield night


def test_a_night_too_large_for_one_machine_is_run_in_parts_and_decided_as_if_it_were_whole(
    night: Night, tmp_path: Path
) -> None:
    text = (night.tree / "eval/ab_testing.py").read_text()
    repo.write(night.tree, "eval/ab_testing.py", text.replace("SHARD_TRIALS = 2_000", "SHARD_TRIALS = 150"))
    whole = shutil.copytree(night.tree, tmp_path / "whole")
    night.start()
    hostile = night.run("prompt_ab_test", "schedule", TEST_HOSTILE="shard-*")
    assert hostile.proposing == {"produce": "failure"}, hostile.log
    assert (hostile.requests, hostile.results.get("record")) == ({}, "failure")
    ran = night.run("prompt_ab_test", "schedule")
    assert ran.results["plan"] == ran.results["record"] == "success", ran.log
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    parts = {path.name for path in (night.store / "artifacts").glob("shard-*/*")}
    assert parts == {"events.jsonl", "texts.jsonl", "shard-1-of-2.jsonl", "shard-2-of-2.jsonl"}
    form = KINDS["ab_champion"]
    decided = json.loads(night.diff(form.branch)[f"{form.report}.json"])
    assert decided["status"] == "complete"
    assert verdicts(decided) == verdicts(run(whole))
    (events,) = [
        name
        for name in repo.git(night.remote, "ls-tree", "-r", "--name-only", BRANCH).split()
        if name.startswith("events/")
    ]
    rows = repo.git(night.remote, "show", f"{BRANCH}:{events}").splitlines()
    graded = [row for row in map(json.loads, rows) if row["kind"] == "evaluation" and "arm" in row]
    assert len(graded) == decided["spend"]["trials"]  # what the parts measured is kept, each trial once
