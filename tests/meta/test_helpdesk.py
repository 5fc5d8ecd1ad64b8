"""A whole second trade, from a CSV to a merged promotion: no domain package, an own grader, an own signal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eval.grading.suite import write_suite
from telemetry.edge.files import Repo
from tests.conftest import REPOSITORY
from tests.worlds import helpdesk, world

pytestmark = pytest.mark.slow


def python(checkout: Path, *command: str, code: int = 0) -> str:
    """Run a script as a person would who stands in a folder inside the checkout."""
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    env["PYTHONPATH"] = str(REPOSITORY)  # as an editable install has it
    run = [sys.executable, "-m", *command]
    done = subprocess.run(run, cwd=checkout / "data", env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The checkout after its first night, and what each step told."""
    checkout = helpdesk.make(tmp_path_factory.mktemp("helpdesk") / "desk")
    write_suite(Repo(checkout), Path("eval/suites/tickets.jsonl"), helpdesk.cases())
    python(checkout, "eval.suites", "pin", "tickets")
    world.put(checkout, ".gitignore", (checkout / ".gitignore").read_text() + "/data/\n")
    world.commit(checkout)
    assert "data" not in world.git(checkout, "ls-files"), "what customers wrote is in no history"
    told = json.loads(python(checkout, "meta.night", "--json"))
    return checkout, {step["name"]: step for step in told["steps"]}


Night = tuple[Path, dict[str, dict[str, Any]]]


def report(night: Night) -> dict[str, dict[str, Any]]:
    text = world.git(night[0], "show", "meta/agent-retirement:meta/reports/retirement_report.json")
    return {row["agent"]: row for row in json.loads(text)["agents"]}


def test_every_step_of_the_night_comes_through(night: Night) -> None:
    assert {name: step["status"] for name, step in night[1].items() if step["status"] != "done"} == {}


def test_the_history_tells_of_it_although_no_model_was_asked(night: Night) -> None:
    lines = (night[0] / "eval/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["run_type"] for line in lines] == ["eval", "ab_test", "proposals", "night"]


def test_agents_are_replayed_over_the_days_of_the_file(night: Night) -> None:
    rows = [row for row in world.rows(night[0], "run") if row["source"] == "replay"]
    assert len(rows) == 3 * helpdesk.DAYS
    assert not [row for row in rows if row["error"]]
    assert {row["as_of"] for row in rows} == {ticket["created_at"][:10] for ticket in helpdesk.tickets(240)}


def test_the_own_grader_decides_and_the_better_prompt_is_promoted(night: Night) -> None:
    assert "steady 100 %" in night[1]["evals"]["told"]
    assert "mute 0 %" in night[1]["evals"]["told"]
    assert "promote triage B" in night[1]["A/B"]["told"]


def test_who_passes_every_case_is_no_candidate_and_who_says_nothing_is(night: Night) -> None:
    found = report(night)
    steady = found["steady"]
    assert (steady["state"], steady["basis"], steady["pass_rate"]) == ("active", "pass_rate", 1.0)
    assert (steady["rolling_avg_reward"], steady["useful_runs"]) == (None, None)
    assert found["mute"]["state"] == "candidate"
    assert night[1]["retirement"]["told"] == "1 retirement candidate: mute"


def test_the_own_signal_is_what_pays(night: Night) -> None:
    triage = report(night)["triage"]
    assert triage["state"] == "active"
    assert triage["scoring_version"] == "1.0+urgency/5"
    days = [
        row for row in world.rows(night[0], "run") if row["agent"] == "triage" and row["reward"] is not None
    ]
    assert max(row["signal_strength"] for row in days) == 1.0
    assert "billing:urgency" in days[0]["signals"]


def test_summary_and_charts_follow(night: Night) -> None:
    agents = json.loads((night[0] / "telemetry/summary.json").read_text())["by_agent"]
    assert agents["steady"]["avg_reward"] is None
    assert agents["triage"]["avg_reward"] > 0.5
    assert "triage" in python(night[0], "telemetry.summarize")
    assert (night[0] / "telemetry/charts/reward_over_time.png").stat().st_size > 1000


def test_what_was_merged_is_justified(night: Night) -> None:
    world.git(night[0], "merge", "-q", "--no-edit", "meta/prompt-ab-champion")
    assert (night[0] / helpdesk.PROMPT).read_text() == helpdesk.BETTER
    python(night[0], "meta.audit")
