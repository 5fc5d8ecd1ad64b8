"""The graders as a trainer's reward: the completion decides, tune cases only, nothing logged."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from eval import rl_env
from eval.grading.suite import Suites
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from tests.worlds import world

ITEM = {
    "gauge": "Elm",
    "signal": "rising",
    "value": 3.1,
    "daily_change": 0.4,
    "risk_score": 8.0,
    "rationale": "it rose",
}
RISING = json.dumps({"items": [ITEM]})


def case_of(root: Path, part: str, tag: str = "large") -> str:
    suite = Suites(Repo(root)).load("eval/suites/gauge_echo.jsonl")
    return next(case.id for case in suite.part(part) if tag in case.tags)


def test_the_right_answer_earns_more_than_a_wrong_one_or_none(toy: Path) -> None:
    case = case_of(toy, "tune")
    said: list[rl_env.Said] = [[{"role": "assistant", "content": RISING}], '{"items": []}', "no JSON at all"]
    assert rl_env.reward(said, ["gauge_echo"] * 3, [case] * 3, prompts=["?"] * 3) == [1.0, 0.0, 0.0]
    assert not world.rows(), "a trainer's rollouts are no telemetry"


def test_an_answer_goes_through_the_agents_own_code(toy: Path) -> None:
    suite = Suites(Repo(toy)).load("eval/suites/flood_watch.jsonl")
    case = next(one for one in suite.part("tune") if "small" in one.tags)
    assert rl_env.reward(['{"items": []}'], ["flood_watch"], [case.id]) == [1.0]


def test_a_holdout_case_grades_nothing(toy: Path) -> None:
    with pytest.raises(BadInput, match="no tune case"):
        rl_env.reward([RISING], ["gauge_echo"], [case_of(toy, "holdout")])


def test_a_file_of_answers_is_graded(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"agent": "gauge_echo", "case_id": case_of(toy, "tune"), "completion": RISING}
    file = str(world.put(toy, "answers.jsonl", json.dumps(row) + "\n"))
    assert rl_env.main([file]) == cli.OK
    assert "mean reward 1.000 of 1 answers" in capsys.readouterr().out
    odd = [json.dumps(row | wrong) for wrong in ({"agent": {}}, {"completion": 5}, {"completion": []})]
    for foreign in ("{}\n", "[" * 100_000, *odd):
        assert rl_env.main([str(world.put(toy, "answers.jsonl", foreign))]) == cli.BAD_INPUT
        assert "answers.jsonl:1: must be an object with agent" in capsys.readouterr().err


def test_verifiers_reads_the_tune_cases_as_tasks_and_their_grades_as_rewards(toy: Path) -> None:
    vf = pytest.importorskip("verifiers.v1", reason="the extra `verifiers` is not installed")
    tasks = {task.data.case_id: task for task in rl_env.taskset(str(toy), ["gauge_echo"])}
    suite = Suites(Repo(toy)).load("eval/suites/gauge_echo.jsonl")
    assert set(tasks) == {case.id for case in suite.part("tune")}
    task = tasks[case_of(toy, "tune")]
    assert '"gauge": "Elm"' in task.data.prompt and "Guidelines" in task.data.system_prompt
    for said, worth in ((RISING, 1.0), ("no JSON at all", 0.0)):
        about = {"task": task.data.model_dump(), "agent": {"id": "a", "model": "m"}}
        trace = vf.Trace.model_construct(root_reply=said, rewards={}, metrics={}, **about)
        asyncio.run(task.score(trace))
        assert {name: reward.value for name, reward in trace.rewards.items()} == {"graded": worth}
