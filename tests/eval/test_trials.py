"""Trials: run at once, graded, journalled; an outage counts for nobody."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.base import BaseAgent
from agents.manifest import AgentSpec
from agents.model.call import trial_label
from agents.texts.prompt_set import PromptSet
from eval.grading.suite import Case
from eval.trials.journal import Journal
from eval.trials.pool import Breaker, Job, Trial, collect, run_trials
from telemetry import logger
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import here, working_in

SPEC = AgentSpec("doubler", "tests.eval.test_trials", "Doubler", inputs="numbers")
NO_MODEL: Any = None  # these agents ask nobody


class Outage(Exception):
    error_kind = "provider"


class Doubler(BaseAgent):
    """Doubles a number; does on the way what the case asks for."""

    running = 0
    most = 0
    calls: list[str] = []  # noqa: RUF012 - reset by the fixture

    async def analyze(self, inputs: Any) -> list[dict[str, Any]]:
        Doubler.calls.append(trial_label.get())
        Doubler.running += 1
        Doubler.most = max(Doubler.most, Doubler.running)
        try:
            await asyncio.sleep(inputs.get("sleep", 0))
        finally:
            Doubler.running -= 1
        match inputs.get("do"):
            case "crash":
                raise RuntimeError("it broke")
            case "outage":
                raise Outage("the endpoint is away")
            case "hang":
                await asyncio.sleep(60)
        return [{"twice": inputs["n"] * 2}]


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path) -> Iterator[None]:
    Doubler.running = Doubler.most = 0
    Doubler.calls = []
    with working_in(tmp_path):
        yield


def case(number: int, right: bool = True, **inputs: Any) -> Case:
    wanted = {"grader": "exact", "path": "0.twice", "value": number * 2 if right else -1}
    return Case(f"case-{number:03}", {"n": number, **inputs}, (wanted,))


def jobs(cases: list[Case], arm: str = "champion", trials: int = 1, spec: AgentSpec = SPEC) -> list[Job]:
    prompts = PromptSet(here())
    return [Job(arm, prompts, spec, each, number) for number in range(trials) for each in cases]


def build(spec: AgentSpec, prompts: PromptSet, model: Any) -> BaseAgent:
    return Doubler(spec, prompts, model)


def run(work: list[Job], **options: Any) -> list[Trial]:
    return asyncio.run(collect(work, NO_MODEL, build=build, **options))


def rows(kind: str) -> list[dict[str, Any]]:
    lines = (here() / logger.LOG_PATH).read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def test_every_job_becomes_one_graded_trial_with_one_run_row_and_one_evaluation_row() -> None:
    trials = run(jobs([case(1), case(2, right=False)], trials=3), source="ab_test")
    assert sorted((t.case_id, t.trial_no, t.ok, t.score) for t in trials) == [
        ("case-001", 0, True, 1.0),
        ("case-001", 1, True, 1.0),
        ("case-001", 2, True, 1.0),
        ("case-002", 0, False, 0.0),
        ("case-002", 1, False, 0.0),
        ("case-002", 2, False, 0.0),
    ]
    assert [row["source"] for row in rows("run")] == ["ab_test"] * 6
    assert [row["source"] for row in rows("evaluation")] == ["ab_test"] * 6
    assert {row["run_id"] for row in rows("run")} == {row["run_id"] for row in rows("evaluation")}
    assert all(row["cost_usd"] is None for row in rows("evaluation")), "money stands on run rows alone"


def test_never_more_at_once_than_asked_for() -> None:
    run(jobs([case(n, sleep=0.002) for n in range(40)]), concurrency=7)
    assert Doubler.most == 7


def test_an_outage_counts_for_nobody_and_a_crash_counts_against_the_agent() -> None:
    fine, crash, outage = sorted(
        run(jobs([case(1), case(2, do="crash"), case(3, do="outage")])), key=lambda t: t.case_id
    )
    assert (fine.ok, fine.score, fine.counted) == (True, 1.0, True)
    assert (crash.ok, crash.score, crash.error_kind, crash.counted) == (False, 0.0, "agent", True)
    assert (outage.ok, outage.score, outage.error_kind, outage.counted) == (None, None, "provider", False)
    assert outage.rubric is None
    assert crash.rubric is not None and not crash.rubric.passed_all_mandatory


def test_a_hanging_agent_is_cut_off_by_its_own_time_limit() -> None:
    [trial] = run(jobs([case(1, do="hang")], spec=replace(SPEC, timeout_s=0.05)))
    assert (trial.error_kind, trial.counted) == ("timeout", False)


def test_each_trial_of_each_arm_has_its_own_label_and_a_rerun_repeats_it() -> None:
    work = [*jobs([case(1)], "A", 2), *jobs([case(1)], "B", 2)]
    run(work)
    first, Doubler.calls = Doubler.calls, []
    assert len(set(first)) == 4
    run(work)
    assert sorted(Doubler.calls) == sorted(first)


def test_a_feed_that_ends_early_lets_what_is_in_flight_finish() -> None:
    seen: list[Trial] = []

    def feed() -> Iterator[Job]:
        for job in jobs([case(n, sleep=0.001) for n in range(100)]):
            if len(seen) >= 10:
                return
            yield job

    async def consume() -> None:
        async with aclosing(run_trials(feed(), NO_MODEL, concurrency=4, build=build)) as trials:
            async for trial in trials:
                seen.append(trial)

    asyncio.run(consume())
    assert 10 <= len(seen) <= 18  # four being asked, four being graded
    assert len(seen) == len(Doubler.calls), "nothing started was thrown away"


def test_leaving_the_loop_cancels_what_is_in_flight() -> None:
    async def consume() -> None:
        work = jobs([case(0), *(case(n, do="hang") for n in range(1, 6))])
        async with aclosing(run_trials(work, NO_MODEL, concurrency=6, build=build)) as trials:
            async for _ in trials:
                break

    asyncio.run(asyncio.wait_for(consume(), 5))
    assert Doubler.running == 0


def test_a_journalled_trial_is_not_run_again_unless_an_outage_spoilt_it(tmp_path: Path) -> None:
    work = jobs([case(1), case(2, right=False), case(3, do="outage"), case(4, do="crash")])
    with Journal(tmp_path / "j.jsonl", {"seed": 1}) as journal:
        first = run(work, journal=journal)
    Doubler.calls = []
    with Journal(tmp_path / "j.jsonl", {"seed": 1}) as journal:
        second = run(work, journal=journal)
    assert [label.split("/")[2] for label in Doubler.calls] == ["case-003"]

    def plain(trials: list[Trial]) -> list[Trial]:
        kept = [replace(trial, resumed=False) for trial in trials if trial.counted]
        return sorted(kept, key=lambda trial: trial.case_id)

    assert plain(first) == plain(second)
    assert sum(trial.resumed for trial in second) == 3


@pytest.mark.parametrize("about", [{"seed": 2}, {"seed": 1, "model": "other"}])
def test_a_journal_of_another_configuration_is_started_afresh(tmp_path: Path, about: dict[str, Any]) -> None:
    with Journal(tmp_path / "j.jsonl", {"seed": 1}) as journal:
        run(jobs([case(1)]), journal=journal)
    with Journal(tmp_path / "j.jsonl", about) as journal:
        assert journal.rows == {}


def test_without_resume_a_journal_starts_afresh(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl", {}) as journal:
        run(jobs([case(1)]), journal=journal)
    with Journal(tmp_path / "j.jsonl", {}, resume=False) as journal:
        assert journal.rows == {}


def test_a_journal_left_over_from_yesterday_starts_afresh(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl", {}) as journal:
        journal.add(("a",), {})
    long_ago = time.time() - 21 * 3600
    os.utime(tmp_path / "j.jsonl", (long_ago, long_ago))
    with Journal(tmp_path / "j.jsonl", {}) as journal:
        assert journal.rows == {}


@given(cut=st.integers(min_value=0, max_value=400))
def test_a_journal_torn_anywhere_keeps_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "j.jsonl"
    with Journal(path, {}) as journal:
        for number in range(5):
            journal.add(("a", number), {"n": number, "text": "x" * 20})
    whole = path.read_bytes()
    path.write_bytes(whole[: max(0, len(whole) - cut)])
    survived = path.read_bytes().count(b"\n")
    with Journal(path, {}) as journal:
        assert len(journal.rows) == max(0, survived - 1)
        journal.add(("b", 0), {"n": 9})
    with Journal(path, {}) as journal:
        assert journal.rows[("b", 0)] == {"n": 9}
        assert len(journal.rows) == max(0, survived - 1) + 1


def test_a_second_writer_of_the_same_journal_is_told_to_wait(tmp_path: Path) -> None:
    with (
        Journal(tmp_path / "j.jsonl", {}),
        pytest.raises(Stopped, match="another run"),
        Journal(tmp_path / "j.jsonl", {}),
    ):
        pass


def test_the_breaker_trips_on_a_spent_budget_and_on_a_row_of_outages_only() -> None:
    fine, crash, outage = sorted(
        run(jobs([case(1), case(2, do="crash"), case(3, do="outage")])), key=lambda t: t.case_id
    )
    breaker = Breaker(limit=3)
    for trial in (outage, outage, fine, outage, outage, crash, outage, outage):
        breaker.see(trial)
    assert not breaker.given_up
    breaker.see(outage)
    assert breaker.given_up == {(outage.agent, outage.model)}
    breaker.end()
    assert breaker.reason.startswith("outage: 3 calls in a row")
    spent = Breaker(limit=3)
    spent.see(replace(outage, error_kind="budget"))
    assert spent.reason.startswith("budget reached")


def test_one_agents_trouble_is_its_own_and_two_without_an_answer_between_them_are_an_outage() -> None:
    fine, outage = sorted(run(jobs([case(1), case(3, do="outage")])), key=lambda t: t.case_id)
    other = replace(outage, agent="other")
    breaker = Breaker(limit=2)
    for trial in (outage, outage, replace(fine, agent="another"), other):
        breaker.see(trial)
    breaker.end()
    assert breaker.given_up == {(outage.agent, outage.model)} and breaker.reason == ""
    for trial in (other, replace(outage, agent="another"), replace(outage, agent="another")):
        breaker.see(trial)
    assert breaker.reason.startswith("outage: ")


async def wrapped(case: dict[str, Any], call: Any) -> Any:
    output = await call({"n": case["input"]["n"] + 1})
    return [{"twice": output[0]["twice"] - 2}]


def wrapped_plainly(case: dict[str, Any], call: Any) -> Any:
    return [{"twice": call({"n": case["input"]["n"] + 1})[0]["twice"] - 2}]


@pytest.mark.parametrize("name", ["wrapped", "wrapped_plainly"])
def test_an_adapter_maps_the_case_to_the_call_and_the_output_to_what_is_graded(name: str) -> None:
    spec = replace(SPEC, eval_adapter=f"{__name__}:{name}")
    [trial] = run(jobs([case(5)], spec=spec))
    assert (trial.ok, trial.output) == (True, [{"twice": 10}])
    assert len(rows("run")) == 1


def test_an_adapter_that_cannot_be_loaded_is_bad_input() -> None:
    with pytest.raises(BadInput, match="eval_adapter 'nowhere:f'"):
        run(jobs([case(5)], spec=replace(SPEC, eval_adapter="nowhere:f")))
