"""The detector of drift: silent where nothing changes, quick where something does, right about since when."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.ledger.levels import Change, Pass, _Evidence, changes

CASES = 60


def drawn(rates: list[float], count: int, first: int = 0, seed: int = 1) -> list[Pass]:
    """So many nights of cases that pass as often as that."""
    rng = random.Random(seed)
    return [
        Pass(f"night {first + n}", range(len(rates)), [float(rng.random() < rate) for rate in rates])
        for n in range(count)
    ]


def alike(scores: list[float], count: int, first: int = 0) -> list[Pass]:
    return [Pass(f"night {first + n}", range(len(scores)), scores) for n in range(count)]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 60))
def test_a_suite_that_always_scores_alike_never_changes(scores: list[float], count: int) -> None:
    for exact in (False, True):
        assert changes(alike(scores, count), len(scores), exact=exact) == []


@pytest.mark.parametrize("values", [(0.0, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0), (0.0, 0.4, 1.0)])
def test_a_night_expects_odds_of_one_whatever_a_case_scored_before(values: tuple[float, ...]) -> None:
    import numpy as np

    n, total = np.array([float(len(values))] * 2), np.array([sum(values)] * 2)
    odds = []
    for tonight in product(
        values, repeat=2
    ):  # each score so far may as well have been tonight's, in either case
        evidence = _Evidence()
        evidence.add(np.array(tonight), total, n, fresh=True)
        odds.append(np.exp(evidence._log_sum))
    assert np.mean(odds, axis=0) == pytest.approx(1.0)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_change_is_found_within_days_and_dated(sign: int) -> None:
    level, other = [0.8] * CASES, [0.8 + 0.19 * sign] * CASES
    [change] = changes(drawn(level, 40) + drawn(other, 10, 40, seed=2), CASES)
    assert change.fell == (sign < 0)
    assert 38 <= change.since <= 42 and 40 <= change.found <= 46


def test_what_is_proven_once_becomes_the_level_that_counts() -> None:
    low, high = [0.5] * CASES, [0.9] * CASES
    series = drawn(high, 30) + drawn(low, 30, 30, seed=2) + drawn(high, 30, 60, seed=3)
    assert [change.fell for change in changes(series, CASES)] == [True, False]


@pytest.mark.parametrize("lost", [1, 5])
def test_where_answers_are_deterministic_one_lost_case_is_a_fall_at_once(lost: int) -> None:
    good, bad = [1.0] * 20, [0.0] * lost + [1.0] * (20 - lost)
    series = alike(good, 3) + alike(bad, 4, 3)
    assert changes(series, 20, exact=True) == [Change(begin=0, since=3, found=3, fell=True)]


def test_a_sampled_suite_that_seldom_errs_is_not_taken_for_a_deterministic_one() -> None:
    assert changes(alike([1.0] * 20, 3) + alike([0.0] + [1.0] * 19, 1, 3), 20) == []


def test_several_passes_of_one_night_are_one_chance_to_begin() -> None:
    import numpy as np

    passes = [Pass("one night", [0], [1.0])] * 5
    assert changes(passes, 1) == []
    evidence = _Evidence()
    for n, fresh in enumerate([True, False, False], 1):
        evidence.add(np.array([1.0]), np.array([float(n)]), np.array([float(n)]), fresh=fresh)
    assert all(math.isclose(value, 0.0, abs_tol=1e-12) for value in evidence._log_sum)


def test_a_case_that_is_new_says_nothing_until_it_is_asked_again() -> None:
    rounds = alike([1.0] * 20, 20)
    wider = [Pass(f"later {n}", range(60), [1.0] * 20 + [0.0] * 40) for n in range(5)]
    assert changes(rounds + wider, 60) == []
