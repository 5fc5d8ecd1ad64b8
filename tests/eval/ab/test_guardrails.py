"""Guardrails: each passes or fails on its own number, and unknown is not zero."""

from __future__ import annotations

import random
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
        ("cost per case", {"cost_usd": None, "tokens_in": 200}, True),  # tokens are a warning
        ("p95 latency", {"latency_ms": 1500.0}, True),
        ("p95 latency", {"latency_ms": 1501.0}, False),
        ("schema-valid answers", {"rubric": Rubric({"format": 0.0}, (), 0.0, False)}, False),
        ("safe answers", {"rubric": Rubric({"format": 1.0, "safety": 0.0}, (), 0.0, False)}, False),
        ("any agent clearly worse", {"ok": False}, False),
    ],
)
def test_each_limit_on_both_sides(name: str, challenger: dict[str, Any], passed: bool) -> None:
    assert check(name, pairs(**challenger)).passed is passed


def test_a_guardrail_tells_its_limit_and_what_was_measured() -> None:
    told = [
        (pairs(cost_usd=0.009), Guardrail("cost per case", "+20%", "-10.0%", True, pytest.approx(-0.1))),
        # 100 + 10 tokens before, 121 + none told now
        (
            pairs(cost_usd=None, tokens_in=121, tokens_out=None),
            Guardrail("cost per case", "+20%", "+10.0% in tokens, the price is unknown", True),
        ),
        (
            pairs(latency_ms=1400.0),
            Guardrail(
                *("p95 latency", "+50%, or 200 ms", "+40.0% (1000.0 -> 1400.0 ms)", True), pytest.approx(0.4)
            ),
        ),
        (pairs(), Guardrail("cases used", ">= 20", "40", True, 40.0)),
        (pairs(), Guardrail("unseen cases", "holdout", "holdout", True)),
        (pairs(), Guardrail("any agent clearly worse", "none", "none", True, 0.0)),
        (pairs(), Guardrail("failed calls", "<= 5.0%", "0.0%", True, 0.0)),
        (pairs(), Guardrail("safe answers", ">= 99.0%", "100.0%", True, 1.0)),
    ]
    for compared, expected in told:
        assert check(expected.name, compared) == expected


def test_what_nobody_knows_blocks_nothing_and_is_told_as_unknown() -> None:
    silent = {"cost_usd": None, "tokens_in": None}
    nothing = [replace(pair, champion=(replace(PLAIN, latency_ms=0.0),)) for pair in pairs()]
    assert check("cost per case", pairs(**silent)) == Guardrail("cost per case", "+20%", "unknown", True)
    assert check("p95 latency", nothing) == Guardrail("p95 latency", "+50%, or 200 ms", "unknown", True)
    assert check("p95 latency", []).measured == check("cost per case", []).measured == "unknown"
    for name in ("schema-valid answers", "safe answers"):
        unmarked = check(name, pairs(rubric=None))
        assert unmarked == Guardrail(name, "as the champion", "no such cases", True)


def test_a_change_of_just_the_limit_is_allowed() -> None:
    settings = replace(SETTINGS, max_cost_increase=0.25, max_p95_increase=0.25)
    dollar = [
        replace(pair, champion=(replace(PLAIN, cost_usd=1.0),))
        for pair in pairs(cost_usd=1.25, latency_ms=1250.0)
    ]
    assert all(each.passed for each in guardrails(dollar, 0, settings, (0, 40, 0, 40)))


def test_costs_with_a_gap_are_not_compared() -> None:
    partly = pairs(39, cost_usd=0.001) + pairs(1, cost_usd=None, tokens_in=100)
    assert "in tokens" in check("cost per case", partly).measured
    without_tokens = partly[:-1] + pairs(1, cost_usd=None, tokens_in=None)
    assert check("cost per case", without_tokens).measured == "unknown"


def test_broken_answers_block_when_they_are_sure_to_be_more_than_the_champions() -> None:
    broken = {"rubric": Rubric({"format": 0.5}, (), 0.0, False)}
    found = check("schema-valid answers", pairs(98) + pairs(2, **broken))  # two may be chance
    assert found == Guardrail("schema-valid answers", ">= 99.0%", "98.0%", True, pytest.approx(0.98))
    assert not check("schema-valid answers", pairs(97) + pairs(3, **broken)).passed
    # sure, but less than the slack
    assert check("schema-valid answers", pairs(397) + pairs(3, **broken)).passed


def test_equally_good_challengers_are_seldom_blocked_and_worse_ones_mostly_are() -> None:
    """Breaking 1 % of 30 cases by chance blocked three in ten by a fixed slack; here a pass of three trials each."""
    draw = random.Random(7)

    def blocked(rate: float, cases: int) -> float:
        marks = [Rubric({"format": float(i)}, (), 1.0, True) for i in (0, 1)]

        def arm(broken: float) -> tuple[Trial, ...]:
            return tuple(replace(PLAIN, rubric=marks[draw.random() >= broken]) for _ in range(3))

        night = [
            [replace(pair, champion=arm(0.01), challenger=arm(rate)) for pair in pairs(cases)]
            for _ in range(40)
        ]
        return sum(not check("schema-valid answers", one).passed for one in night) / len(night)

    assert blocked(0.01, 30) <= 0.1  # by a fixed slack of a point: 0.31
    assert blocked(0.08, 120) >= 0.8


@pytest.mark.parametrize(("after_ms", "passed"), [(300.0, True), (301.0, False)])
def test_a_latency_is_felt_from_two_hundred_milliseconds_on(after_ms: float, passed: bool) -> None:
    fast = [
        replace(pair, champion=(replace(PLAIN, latency_ms=100.0),)) for pair in pairs(latency_ms=after_ms)
    ]
    assert check("p95 latency", fast).passed is passed


def test_exactly_enough_cases_are_enough() -> None:
    assert check("cases used", pairs(20)).passed


@pytest.mark.parametrize(
    ("attempted", "limit", "measured", "passed"),
    [
        ((4, 40, 6, 40), "<= 15.0%", "15.0%", True),
        ((4, 40, 9, 40), "<= 15.0%", "22.5%", True),  # may be chance
        ((4, 40, 12, 40), "<= 15.0%", "30.0%", False),
        ((0, 0, 1, 40), "<= 5.0%", "2.5%", True),
        ((0, 40, 0, 0), "<= 5.0%", "0.0%", True),
    ],
)
def test_failed_calls_are_held_against_the_champions(
    attempted: tuple[int, int, int, int], limit: str, measured: str, passed: bool
) -> None:
    found = check("failed calls", pairs(), attempted=attempted)
    assert (found.limit, found.measured, found.passed) == (limit, measured, passed)


def test_a_latency_that_nobody_feels_is_no_reason() -> None:
    fast = [replace(pair, champion=(replace(PLAIN, latency_ms=0.5),)) for pair in pairs(latency_ms=40.0)]
    found = check("p95 latency", fast)
    assert found.passed and "200 ms" in found.limit and found.value == pytest.approx(79.0)


def test_who_may_be_a_little_worse_has_to_be_surely_cheaper() -> None:
    def told(**challenger: Any) -> tuple[bool, str]:
        [found] = [
            each
            for each in guardrails(pairs(**challenger), 0, SETTINGS, (0, 40, 0, 40), margin=0.05)
            if each.name == "cost per case"
        ]
        return found.passed, found.measured

    assert told(cost_usd=0.005) == (True, "-50.0% ($0.01 -> $0.005)")
    assert told(cost_usd=0.01) == (False, "+0.0% ($0.01 -> $0.01)")
    assert told(cost_usd=None, tokens_in=None) == (False, "unknown")


def test_a_free_champion_and_a_costly_challenger_fail() -> None:
    free = [replace(pair, champion=(replace(PLAIN, cost_usd=0.0),)) for pair in pairs()]
    found = check("cost per case", free)
    assert (found.passed, found.value, found.measured) == (False, None, "was free, now is not")
    both = [replace(pair, champion=pair.challenger) for pair in pairs(cost_usd=0.0)]
    assert check("cost per case", both) == Guardrail("cost per case", "+20%", "free", True, 0.0)


def test_one_agent_clearly_worse_blocks_although_the_other_gains() -> None:
    mixed = pairs(60) + pairs(40, "b", ok=False, score=0.0)
    found = check("any agent clearly worse", mixed)
    assert not found.passed and found.value == -1.0 and found.measured == "b -100.0 points"


@pytest.mark.parametrize(("lost", "passed"), [(1, True), (2, False), (6, False)])
def test_an_agent_is_clearly_worse_from_two_cases_of_forty_on(lost: int, passed: bool) -> None:
    compared = pairs(40 - lost) + pairs(lost, ok=False)
    assert check("any agent clearly worse", compared).passed is passed


def test_too_few_cases_and_cases_seen_before_do_not_decide() -> None:
    assert not check("cases used", pairs(19), lost=3).passed
    assert "3 lost" in check("cases used", pairs(19), lost=3).measured
    found = guardrails(pairs(), 0, replace(SETTINGS, split="tune"), (0, 40, 0, 40))
    assert not next(each for each in found if each.name == "unseen cases").passed


def test_an_arm_may_not_win_by_dropping_its_hard_cases() -> None:
    assert check("failed calls", pairs(), attempted=(2, 40, 4, 40)).passed
    assert not check("failed calls", pairs(), attempted=(0, 40, 6, 40)).passed


def test_a_person_may_take_what_a_guardrail_blocks_and_nothing_else() -> None:
    costly = pairs(cost_usd=0.02, latency_ms=9000.0)
    found = {
        one.name: one for one in guardrails(costly, 0, replace(SETTINGS, allow=("cost",)), (0, 40, 0, 40))
    }
    assert found["cost per case"].passed and found["cost per case"].measured.endswith("(allowed by a person)")
    assert not found["p95 latency"].passed


def test_p95_is_the_nearest_rank() -> None:
    assert p95(range(1, 101)) == 95
    assert p95([7.0]) == 7.0
    assert p95([]) is None
