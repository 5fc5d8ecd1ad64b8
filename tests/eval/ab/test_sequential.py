"""The paired test: valid whenever it stops, in agreement with its interval, and as good as the figures say."""

from __future__ import annotations

import random
from math import exp, log, log1p, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.ab.sequential import PairedTest, interval, paired_test
from tests.bench import ab

DIFFERENCES = st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 0.0, 1 / 3, 2 / 3, 1.0]), max_size=80)


def test_wealth_matches_a_hand_worked_example() -> None:
    """Two wins in a row at null 0: every fixed share gains (1 + share)^2, the horizon plan what it may bet."""
    result = paired_test([1.0, 1.0], alpha=0.05)
    # Goal 25 / 0.4 = 62.5 (ln = 4.135); spread 0.09 per case over 2 cases: the wanted share exceeds the cap 0.9.
    expected = 0.2 * (1.5**2 + 1.7**2 + 1.9**2) + 0.4 * 1.9**2
    assert result.e_value == pytest.approx(expected)
    assert result.verdict == "inconclusive"


def test_the_horizon_plan_bets_what_reaches_the_goal_by_the_last_case() -> None:
    result = paired_test([0.5] + [0.0] * 999, alpha=0.05, min_cases=2000)
    share = sqrt(2 * log(25 / 0.4) / (0.09 * 1000))
    assert result.e_value == pytest.approx(0.2 * (1.25 + 1.35 + 1.45) + 0.4 * (1 + share / 2))


@pytest.mark.parametrize(
    ("differences", "verdict", "n_used"),
    [
        ([], "inconclusive", 0),
        ([1.0] * 5, "inconclusive", 5),
        ([1.0] * 40, "promote", 10),
        ([-1.0] * 40, "keep", 10),
        ([0.0] * 40, "keep", None),
        ([0.0] * 119 + [1.0], "keep", None),
    ],
)
def test_plain_cases(differences: list[float], verdict: str, n_used: int | None) -> None:
    result = paired_test(differences)
    assert result.verdict == verdict
    assert n_used is None or result.n_used == n_used
    assert -1 <= result.ci_low <= result.mean <= result.ci_high <= 1


def test_an_effect_below_the_smallest_worth_having_is_not_promoted() -> None:
    differences = [0.05] * 400
    assert paired_test(differences, min_effect=0.01).verdict == "promote"
    assert paired_test(differences, min_effect=0.06).verdict == "keep"


def log_wealth(cases: list[tuple[float, float]], null: float, sign: int, alpha: float, horizon: int) -> float:
    """Straight from the description: three fixed shares on 60 % of the wealth, a plan with a horizon on the rest."""
    goal, cap = -log(alpha), 1 / (1 + sign * null)
    gains = [sign * weight * (difference - null) for difference, weight in cases]
    late, seen, squares = 0.0, 10, 0.3**2 * sum(weight**2 for _, weight in cases) / len(cases) * 10
    for number, gain in enumerate(gains):
        wanted = sqrt(2 * max(0.0, goal - log(0.4) - late) / (squares / seen * (horizon - number)))
        late += log1p(min(0.9 * cap, wanted) * gain)
        squares, seen = squares + gain**2, seen + 1
    fixed = [sum(log1p(share * cap * gain) for gain in gains) for share in (0.5, 0.7, 0.9)]
    return log(0.2 * sum(map(exp, fixed)) + 0.4 * exp(late))


@pytest.mark.parametrize("small", [1.0, 0.25])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_evidence_and_bounds_are_those_of_the_description(small: float, alpha: float) -> None:
    rng = random.Random(7)
    cases = [(rng.choice((-1.0, 0.0, 0.0, 0.5, 1.0)), 1.0 if n % 3 else small) for n in range(150)]
    differences, weights = [d for d, _ in cases], [w for _, w in cases]
    result = paired_test(differences, alpha, weights=weights, min_cases=151)
    low, high = alpha * 0.8, alpha * (1 - 0.8)
    assert result.e_value == pytest.approx(exp(log_wealth(cases, 0.0, 1, low, 150)))
    assert result.mean == pytest.approx(sum(d * w for d, w in cases) / sum(weights))
    assert (result.verdict, result.reason) == ("inconclusive", "150 cases, at least 151 are needed")
    near = 1e-5  # the bounds are the outermost means that a bet against them has not beaten
    assert log_wealth(cases, result.ci_low, 1, low, 150) >= -log(low)
    assert log_wealth(cases, result.ci_low + near, 1, low, 150) < -log(low)
    assert log_wealth(cases, result.ci_high, -1, high, 150) >= -log(high)
    assert log_wealth(cases, result.ci_high - near, -1, high, 150) < -log(high)


def test_each_way_to_stop_has_its_reason_and_its_moment() -> None:
    ruled_out = paired_test([-0.7, 0.0] * 40, min_effect=0.05)
    assert (ruled_out.verdict, ruled_out.reason) == ("keep", "an improvement worth having is ruled out")
    seen = [(d, 1.0) for d in ([-0.7, 0.0] * 40)[: ruled_out.n_used]]
    assert log_wealth(seen, 0.05, -1, 0.05 * (1 - 0.8), 80) >= -log(0.05 * (1 - 0.8))
    assert log_wealth(seen[:-1], 0.05, -1, 0.05 * (1 - 0.8), 80) < -log(0.05 * (1 - 0.8))
    assert paired_test([0.0] * 19).reason == "all cases used, no improvement shown"
    hopeless = paired_test([0.0] * 60)
    assert "could hardly show" in hopeless.reason and 20 <= hopeless.n_used < 60
    assert paired_test([1.0] * 40).reason == "better, beyond reasonable doubt"


def test_a_decided_test_takes_no_more_cases() -> None:
    test = PairedTest(40)
    while test.add(1.0) is None:
        pass
    before = test.result()
    assert test.add(-1.0) == "promote" and test.result() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"differences": [1.5]}, "differences"),
        ({"differences": [float("nan")]}, "differences"),
        ({"differences": [0.0], "alpha": 0.0}, "alpha"),
        ({"differences": [0.0], "alpha": 1.0}, "alpha"),
        ({"differences": [0.0], "min_effect": 1.0}, "min_effect"),
        ({"differences": [0.0], "weights": [1.0, 1.0]}, "weights"),
        ({"differences": [0.0], "weights": [-1.0]}, "weights"),
        ({"differences": [0.0], "weights": [0.0]}, "weights"),
    ],
)
def test_nonsense_is_refused_by_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_test(**arguments)  # type: ignore[arg-type]


def test_a_weight_that_was_not_announced_is_refused() -> None:
    test = PairedTest(10, weights=[1.0] * 10)
    with pytest.raises(ValueError, match="not announced"):
        test.add(0.5, 2.0)


@settings(max_examples=60, deadline=None)
@given(DIFFERENCES, st.sampled_from([0.01, 0.05, 0.2]))
def test_verdict_evidence_and_interval_agree(differences: list[float], alpha: float) -> None:
    result = paired_test(differences, alpha=alpha)
    assert -1 <= result.ci_low <= result.mean <= result.ci_high <= 1
    if result.verdict == "promote":
        assert result.ci_low >= 0 and result.e_value >= 1 / alpha and result.mean >= 0.01
    assert result.e_value > 0


@settings(max_examples=40, deadline=None)
@given(DIFFERENCES, st.floats(0.01, 100))
def test_only_the_ratio_of_weights_matters(differences: list[float], scale: float) -> None:
    plain = paired_test(differences)
    scaled = paired_test(differences, weights=[scale] * len(differences))
    assert (plain.verdict, plain.n_used) == (scaled.verdict, scaled.n_used)
    assert plain.e_value == pytest.approx(scaled.e_value)


@settings(max_examples=40, deadline=None)
@given(DIFFERENCES)
def test_the_past_is_never_revised(differences: list[float]) -> None:
    """What comes after the stopping point changes nothing: the test looked at the prefix only."""
    result = paired_test(differences)
    changed = differences[: result.n_used] + [-d for d in differences[result.n_used :]]
    assert paired_test(changed) == result


def test_weights_let_every_agent_count_equally() -> None:
    """A small agent that loses outweighs part of a large one that wins, in mean and in evidence."""
    rng = random.Random(3)
    cases = [(1 / 100, 0.3)] * 100 + [(1 / 20, -0.3)] * 20
    rng.shuffle(cases)
    differences, weights = [d for _, d in cases], [w for w, _ in cases]
    assert paired_test(differences).verdict == "promote"
    weighted = paired_test(differences, weights=weights, min_cases=121)
    assert weighted.mean == pytest.approx(0.0)
    assert weighted.ci_low < 0 < weighted.ci_high


def test_the_bench_simulates_this_very_test() -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    for delta in (-0.05, 0.0, 0.1, 0.2):
        d = ab.night(rng, delta, nights=25)
        promoted, used = ab.decide(d)
        results = [paired_test(row.tolist()) for row in d]
        assert [r.verdict == "promote" for r in results] == promoted.tolist()
        assert [r.n_used for r in results] == used.tolist()
    d, w = ab._agents(rng, (50, 10), (0.2, 0.1), 25)
    promoted, used = ab.decide(d, w)
    results = [paired_test(x.tolist(), weights=y.tolist()) for x, y in zip(d, w, strict=True)]
    assert [r.verdict == "promote" for r in results] == promoted.tolist()
    assert [r.n_used for r in results] == used.tolist()


@pytest.mark.slow
def test_the_interval_covers_the_truth_where_the_test_stopped() -> None:
    import numpy as np

    rng = np.random.default_rng(5)
    for delta in (0.0, 0.1, 0.2):
        results = [paired_test(row.tolist()) for row in ab.night(rng, delta, nights=120)]
        missed = sum(not r.ci_low <= delta <= r.ci_high for r in results)
        assert missed <= 0.05 * 120, f"{missed} of 120 intervals miss {delta}"


def test_hope_is_given_up_when_the_rest_would_have_to_be_unlike_what_was_seen() -> None:
    """At 2.8 standard errors: later than the impatient, earlier than whoever wants to be surer."""

    def used(**patience: float) -> int:
        test = PairedTest(200, **patience)  # type: ignore[arg-type]
        while test.add(0.3 if test.result().n_used % 2 else -0.3) is None:
            pass
        return test.result().n_used

    assert used(futility_z=1.8) < used() < used(futility_z=3.8) < 200


def test_an_interval_alone_is_two_sided() -> None:
    low, high = interval([0.2, -0.2] * 60)
    assert -0.2 < low < 0 < high < 0.2


@pytest.mark.slow
def test_the_promised_figures_hold() -> None:
    same, worse, small, large = ab.figures().values()
    assert same[0] <= 0.035 and same[1] >= 0.3
    assert worse[0] <= 0.005
    assert small[0] >= 0.85 and small[2] <= 0.62
    assert large[0] >= 0.99 and large[2] <= 0.26


@pytest.mark.slow
def test_without_a_difference_no_shape_of_night_promotes_more_than_alpha() -> None:
    for cell, rate in ab.null_cells(nights=500).items():
        assert rate <= ab.ALPHA, cell


@pytest.mark.slow
def test_a_year_of_nights_promotes_few_useless_challengers_and_most_good_ones() -> None:
    year = ab.years()
    assert year["false"] <= 5
    assert year["found"] >= 0.8
    assert year["false, naive"] > 50
