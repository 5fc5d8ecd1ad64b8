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
from tests.worlds import world
from tests.worlds.ab_world import run, verdicts
from tests.worlds.eventlog import day
from tests.worlds.world import with_agents_of


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    with Night(tmp_path) as night:
        toy_tree(night.tree)
        with_agents_of(night.tree, monkeypatch)
        yield night


def test_the_ab_night_proposes_the_better_challenger_and_the_next_one_nothing(night: Night) -> None:
    night.start()
    ran = night.run("prompt_ab_test", "schedule")
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    form = KINDS["ab_champion"]
    request = ran.requests[form.branch]
    assert request["body"].startswith("> [!TIP]\n> **Promote `flood_watch` B ")
    assert request["commit-message"].startswith("Promote flood_watch: +")
    better = (night.tree / "agents/prompts/variants/flood_watch/B.md").read_text()
    changed = night.diff(form.branch)
    decision = changed.pop(next(name for name in changed if name.startswith("meta/decisions/")))
    assert json.loads(decision)["decision"] == "promote"
    assert changed.pop("agents/prompts/flood_watch.md") == better
    assert changed.pop("agents/prompts/variants/flood_watch/champion.md") == better
    assert sorted(changed) == [f"{form.report}.json", f"{form.report}.md"]
    assert_explained(night, form.branch, "agents/prompts/flood_watch.md")

    segments = repo.git(night.remote, "ls-tree", "-r", "--name-only", BRANCH).split()
    assert [name.split("/")[0] for name in segments] == ["events", "history"]
    assert ran.results["record"] == "success"

    opened = night.hub.open(form.branch)
    assert opened is not None
    night.hub.merge(opened["number"])
    ran = night.run("prompt_ab_test", "schedule")
    assert ran.proposing == {"produce": "success"}, ran.log
    assert "Nothing to propose" in ran.summaries["produce"]
    assert "record" not in ran.results  # what lost is remembered through the data branch: no call, no new row


def test_a_night_too_large_for_one_machine_is_run_in_parts_and_decided_as_if_it_were_whole(
    night: Night, tmp_path: Path
) -> None:
    many = (world.gauge_case("flood_watch", n % 40) | {"id": f"flood_watch-{n:04}"} for n in range(2100))
    world.suite(night.tree, "flood_watch", many)
    whole = shutil.copytree(night.tree, tmp_path / "whole")
    night.start()
    ran = night.run("prompt_ab_test", "schedule")
    assert ran.results["plan"] == ran.results["record"] == "success", ran.log
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    parts = {path.name for path in (night.store / "artifacts").glob("shard-*/*")}
    assert parts == {"events.jsonl", "shard-1-of-2.jsonl", "shard-2-of-2.jsonl"}
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


def test_the_critiques_of_a_fresh_runner_rest_on_what_it_measured(night: Night) -> None:
    night.start()
    ran = night.run("cross_critiques", "schedule")
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    form = KINDS["critiques"]
    changed = night.diff(form.branch)
    assert set(changed) == {f"{form.report}.json", f"{form.report}.md"}
    assert ran.requests[form.branch]["body"] == changed[f"{form.report}.md"]
    assert json.loads(changed[f"{form.report}.json"])["critiques"]


def test_proposals_bring_a_new_challenger_and_touch_nothing_that_is_live(night: Night) -> None:
    night.start()
    ran = night.run("prompt_proposals", inputs={"prompt": "agents/prompts/flood_watch.md"})
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    form = KINDS["proposals"]
    changed = night.diff(form.branch)
    body = changed.pop(f"{form.report}.md")
    assert ran.requests[form.branch]["body"] == body
    assert json.loads(changed.pop(f"{form.report}.json"))["proposals"]
    folder = "agents/prompts/variants/flood_watch"
    assert set(changed) == {f"{folder}/C.md", f"{folder}/lineage.json"}


def test_a_sandbox_with_nothing_to_patch_opens_nothing(night: Night) -> None:
    """The offline critics ask for rules, never for code."""
    night.start()
    ran = night.run("sandbox_patch")
    assert (ran.proposing, ran.requests) == ({"produce": "success"}, {}), ran.log
    assert "the script found nothing patched" in ran.summaries["produce"]


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
    assert_explained(night, form.branch, "gauge_echo")


def assert_explained(night: Night, branch: str, subject: str) -> None:
    """Once merged, the audit finds the change justified by the decision that came with it."""
    repo.git(night.tree, "pull", "-q", "origin", branch)
    with working_in(night.tree):
        (finding,) = [one for one in audit.audit(Repo(night.tree)) if one.subject == subject]
    assert finding.explained, finding.why
    assert "by meta/decisions/" in finding.why


def test_retirement_with_nothing_to_decide_opens_nothing(night: Night) -> None:
    night.start()
    ran = night.run("agent_retirement", "schedule")
    assert (ran.proposing, ran.requests) == ({"produce": "success"}, {}), ran.log
    assert "Nothing to propose" in ran.summaries["produce"]
