"""The workflows with the real scripts, on the offline model: the night as GitHub would run it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta import audit
from meta.publish.kinds import KINDS
from telemetry import logger, sync
from telemetry.branch.remote import BRANCH
from telemetry.edge.files import Repo, working_in
from tests.github.act_night import Night, toy_tree
from tests.worlds import proposal_repo as repo
from tests.worlds.ab_world import run, verdicts
from tests.worlds.eventlog import day
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


def push_idle_runs(night: Night, agent: str, n: int = 150) -> None:
    """Telemetry of an agent that never finds anything, as earlier nights left it on the data branch."""
    with working_in(night.tree), logger.source("replay"):
        for number in range(n):
            fields = {"cost_usd": 0.001, "reward": -0.1, "as_of": day(number)}
            logger.log_event(agent=agent, run_id=logger.new_run_id(), latency_ms=400.0, **fields)
    assert sync.push(Repo(night.tree))
    (night.tree / logger.LOG_PATH).unlink()


def test_retirement_disables_what_no_longer_earns_its_keep_as_a_draft(night: Night) -> None:
    night.start()
    ran = night.run("agent_retirement", "schedule")
    assert (ran.proposing, ran.requests) == ({"produce": "success"}, {}), ran.log
    assert "Nothing to propose" in ran.summaries["produce"]

    push_idle_runs(night, "gauge_echo")
    ran = night.run("agent_retirement", inputs={"mode": "disable"})
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    form = KINDS["retirement_disable"]
    request = ran.requests[form.branch]
    assert (request["draft"], request["commit-message"]) == ("always-true", "Disable gauge_echo")
    assert "Retire `gauge_echo`?" in request["body"]
    changed = night.diff(form.branch)
    assert "enabled: false" in changed["agents/manifest.yaml"]
    (decision,) = [json.loads(text) for name, text in changed.items() if name.startswith("meta/decisions/")]
    assert (decision["decision"], decision["subject"]) == ("disable", "gauge_echo")
    repo.git(night.tree, "pull", "-q", "origin", form.branch)
    with working_in(night.tree):
        (finding,) = [one for one in audit.audit(Repo(night.tree)) if one.subject == "gauge_echo"]
    assert finding.explained and "by meta/decisions/" in finding.why
