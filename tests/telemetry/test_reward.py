"""Reward: the formula by hand, and no output that can break it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.reward import (
    SCORING_VERSION,
    Signals,
    Weights,
    reward,
    scoring_version,
    settled_reward,
    signal_strength,
)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, 0.0),
        ([], 0.0),
        ({}, 0.0),
        ("", 0.0),
        ({"profit_pct": 1.0}, 0.5),
        ({"profit_pct": 9.0}, 1.0),
        ({"profit_pct": -3.0}, 0.0),
        ({"risk_score": 80}, 0.8),
        ({"daily_change": -0.05}, 0.5),
        ([{"risk_score": 10}, {"daily_change": 0.07}], 0.7),
        ({"risk_score": 10, "profit_pct": 0.6}, 0.3),
        ({"note": "hello"}, 0.1),
        ("hello", 0.1),
        ([[], [None]], 0.0),
        ([[None, ["x"]]], 0.1),
        ([False, ""], 0.0),
        ({"risk_score": "high"}, 0.1),
        ({"risk_score": "high", "profit_pct": 1.0}, 0.5),
        ({"risk_score": None}, 0.1),
        ({"risk_score": float("nan")}, 0.1),
        ({"risk_score": True}, 0.1),
        ({"risk_score": 10**400}, 0.1),
        ({"risk_score": [50]}, 0.1),
    ],
)
def test_signal_is_the_strongest_known_one(output: object, expected: float) -> None:
    assert signal_strength("any", output) == pytest.approx(expected)


def test_the_formula_by_hand() -> None:
    got = reward({"cost_usd": 0.005, "latency_ms": 500}, {"risk_score": 80})
    assert got == pytest.approx(0.8 - 0.25 * math.log(2) - 0.10 * math.log(2))


def test_an_unknown_cost_takes_no_penalty() -> None:
    assert reward({"cost_usd": None, "latency_ms": 0}, {"risk_score": 80}) == pytest.approx(0.8)


def test_other_weights_are_another_version() -> None:
    assert scoring_version() == SCORING_VERSION == "1.0"
    assert scoring_version(Weights(cost=0.5)) != SCORING_VERSION
    assert scoring_version(Weights(cost=0.5)) != scoring_version(Weights(latency=0.5))


def test_other_signals_are_another_version() -> None:
    assert scoring_version(signals={"score": 10.0}) == "1.0+score/10"
    assert scoring_version(Weights(cost=0.5), {"score": 10.0}) == "1.0+0.5,200,0.1,500+score/10"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["risk_score", "profit_pct", "daily_change", "x"]), inner)
    ),
)


@given(ANY)
def test_any_output_has_a_signal_between_zero_and_one(output: object) -> None:
    assert 0.0 <= signal_strength("a", output) <= 1.0


@given(
    st.floats(0, 10),
    st.floats(0, 10),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.sampled_from([None, {"x": 1}]),
)
def test_dearer_or_slower_is_never_better(c1: float, c2: float, l1: float, l2: float, output: object) -> None:
    cheap = reward({"cost_usd": min(c1, c2), "latency_ms": min(l1, l2)}, output)
    dear = reward({"cost_usd": max(c1, c2), "latency_ms": max(l1, l2)}, output)
    assert dear <= cheap and math.isfinite(dear)


@pytest.mark.parametrize("base", [0.05, 0.2, 0.5, 0.9])
def test_claims_at_random_earn_nothing_once_settled(base: float) -> None:
    run = {"reward": 0.83, "signal_strength": 1.0}
    hit, miss = (settled_reward(run, [(came, base)]) for came in (True, False))
    assert hit is not None and miss is not None and hit > miss
    assert base * hit + (1 - base) * miss == pytest.approx(0.83 - 1.0), "all that is left is what it cost"


def test_a_signal_that_came_true_counts_and_one_that_did_not_counts_against() -> None:
    run = {"reward": 0.7, "signal_strength": 0.8}
    assert settled_reward(run, [(True, 0.2)]) == pytest.approx(0.7)
    assert settled_reward(run, [(False, 0.2)]) == pytest.approx(0.7 - 0.8 - 0.2)
    assert settled_reward(run, []) is None and settled_reward({"reward": None}, [(True, 0.2)]) is None


@pytest.mark.parametrize(("said", "strength"), [(3.0, 1.0), (0.4, 0.4), (-2, 0.0)])
def test_what_an_own_function_says_counts_from_nothing_to_full(said: float, strength: float) -> None:
    assert Signals(weigh=lambda items: said, weighed_by="own").strength([{}]) == strength
