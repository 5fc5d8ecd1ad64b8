"""Intervals against published values and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.read.intervals import mean_lower_bound, mean_upper_bound, wilson


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    # Newcombe, Statistics in Medicine 1998, table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_agrees_with_the_published_table(hits: int, n: int, low: float, high: float) -> None:
    assert wilson(hits, n) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_no_observation_has_no_interval() -> None:
    assert wilson(0, 0) is None


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 200])
@pytest.mark.parametrize("shape", ["rare", "even", "smooth"])
def test_an_agent_exactly_at_the_floor_is_below_it_in_at_most_5_percent_of_windows(
    n: int, shape: str
) -> None:
    floor, rng = 0.05, np.random.default_rng(7)
    draw = {
        "rare": lambda: (rng.random(n) < floor).astype(float),
        "even": lambda: rng.choice([-0.05, 0.15], n),
        "smooth": lambda: rng.beta(0.2, 3.8, n),
    }[shape]
    flagged = sum(mean_upper_bound(draw()) < floor for _ in range(400))
    assert flagged / 400 <= 0.05


@given(st.lists(st.floats(-2, 1), min_size=1, max_size=60))
def test_the_bounds_hold_the_mean_between_them(values: list[float]) -> None:
    mean = float(np.mean(values))
    assert mean_upper_bound(values) >= mean - 1e-9
    assert mean_lower_bound(values, floor=-2.0) <= mean + 1e-9


def test_a_hundred_silent_runs_are_clearly_below_the_floor() -> None:
    assert mean_upper_bound([0.0] * 100) < 0.05
    assert mean_upper_bound([0.0] * 20) > 0.05


def test_none_and_all_of_many_end_at_zero_and_one_exactly() -> None:
    assert all(wilson(0, n)[0] == 0.0 and wilson(n, n)[1] == 1.0 for n in range(1, 400))  # type: ignore[index]
