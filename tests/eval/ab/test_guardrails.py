"""Guardrails: each passes or fails on its own number, and unknown is not zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.manifest import AgentSpec
from eval.ab.guardrails import guardrails, p95
from eval.ab.plan import Unit
from eval.ab.record import Guardrail, Settings
from eval.ab.run import Pair
from eval.grading.rubric import Rubric
from eval.grading.suite import Case
from eval.trials.trial import Trial

SETTINGS = Settings(min_cases=20)
PLAIN = Trial(
    arm="champion",
    agent="a",
    case_id="c",
    trial_no=0,
    ok=True,
    score=1.0,
    error=None,
    error_kind=None,
    latency_ms=1000.0,
    cost_usd=0.01,
    cost_source="price_list",
    tokens_in=100,
    tokens_out=10,
    tokens_thinking=None,
    output=[],
    reasons=(),
    parts=(),
    rubric=Rubric({"format": 1.0, "safety": 1.0}, (), 1.0, True),
    run_id="r",
    prompt_hash=None,
    model="m",
    model_answered="m",
    provider="p",
    price_list_version=None,
)


def pairs(count: int = 40, agent: str = "a", **challenger: Any) -> list[Pair]:
    """Cases on which the challenger differs from a plain champion by the given fields."""
    spec = AgentSpec(agent, "m", "f", inputs="macro")
    after = replace(PLAIN, **challenger)
    return [Pair(Unit(spec, Case(f"c{n}", {}, ())), 1.0, (PLAIN,), (after,)) for n in range(count)]


def check(name: str, compared: list[Pair], **more: Any) -> Guardrail:
    found = guardrails(compared, more.get("lost", 0), SETTINGS, more.get("attempted", (0, 40, 0, 40)))
    return next(each for each in found if each.name == name)


def test_the_same_behaviour_passes_everything() -> None:
    assert all(each.passed for each in guardrails(pairs(), 0, SETTINGS, (0, 40, 0, 40)))


@pytest.mark.parametrize(
    ("name", "challenger", "passed"),
    [
        ("cost per case", {"cost_usd": 0.012}, True),
        ("cost per case", {"cost_usd": 0.0121}, False),
        ("cost per case", {"cost_usd": None}, True),  # in tokens
        ("cost per case", {"cost_usd": None, "tokens_in": 200}, False),
        ("p95 latency", {"latency_ms": 1500.0}, True),
        ("p95 latency", {"latency_ms": 1501.0}, False),
        ("schema-valid answers", {"rubric": Rubric({"format": 0.0}, (), 0.0, False)}, False),
        ("safe answers", {"rubric": Rubric({"format": 1.0, "safety": 0.0}, (), 0.0, False)}, False),
        ("any agent clearly worse", {"ok": False}, False),
    ],
)
def test_each_limit_on_both_sides(name: str, challenger: dict[str, Any], passed: bool) -> None:
    assert check(name, pairs(**challenger)).passed is passed


def test_a_latency_that_nobody_feels_is_no_reason() -> None:
    fast = [replace(pair, champion=(replace(PLAIN, latency_ms=0.5),)) for pair in pairs(latency_ms=40.0)]
    found = check("p95 latency", fast)
    assert found.passed and "200 ms" in found.limit and found.value == pytest.approx(79.0)


def test_a_free_champion_and_a_costly_challenger_fail() -> None:
    free = [replace(pair, champion=(replace(PLAIN, cost_usd=0.0),)) for pair in pairs()]
    assert not check("cost per case", free).passed


def test_one_agent_clearly_worse_blocks_although_the_other_gains() -> None:
    mixed = pairs(60) + pairs(40, "b", ok=False, score=0.0)
    found = check("any agent clearly worse", mixed)
    assert not found.passed and found.measured.startswith("b -100.0 points")


def test_one_lost_case_of_many_is_not_clearly_worse() -> None:
    assert check("any agent clearly worse", pairs(40) + pairs(1, ok=False)).passed


def test_too_few_cases_and_cases_seen_before_do_not_decide() -> None:
    assert not check("cases used", pairs(19), lost=3).passed
    assert "3 lost" in check("cases used", pairs(19), lost=3).measured
    found = guardrails(pairs(), 0, replace(SETTINGS, split="tune"), (0, 40, 0, 40))
    assert not next(each for each in found if each.name == "unseen cases").passed


def test_an_arm_may_not_win_by_dropping_its_hard_cases() -> None:
    assert check("failed calls", pairs(), attempted=(2, 40, 4, 40)).passed
    assert not check("failed calls", pairs(), attempted=(0, 40, 4, 40)).passed


def test_p95_is_the_nearest_rank() -> None:
    assert p95(range(1, 101)) == 95
    assert p95([7.0]) == 7.0
    assert p95([]) is None
