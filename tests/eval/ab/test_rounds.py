"""The rule of a comparison, from the first pair to the verdict."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.ab.rounds import Archive, Case, Draw, Match, Rules, order, play

CASES: list[Case] = [("gauge", f"case-{i}") for i in range(60)]


def arms(champion: float, challenger: float, seed: int = 0) -> Draw:
    """Two arms that pass a case at these rates; the same question gets the same answer."""
    rate = {"champion": champion, "challenger": challenger}
    return lambda arm, case, number: float(
        random.Random(f"{seed} {arm} {case} {number}").random() < rate[arm]
    )


def test_a_clear_gain_is_promoted_after_a_pass_over_all_cases() -> None:
    asked: Counter[Case] = Counter()
    rates = arms(0.3, 0.9)

    def draw(arm: str, case: Case, number: int) -> float | None:
        asked[case] += 1
        return rates(arm, case, number)

    found = play(draw, CASES)
    assert found.verdict == "promote" and found.finished
    assert set(asked) == set(CASES) and found.calls == sum(asked.values())
    assert min(asked.values()) == 2 * Rules().passes  # cases that the rounds had not come to
    assert 0 < found.ci_low < found.mean < found.ci_high


@pytest.mark.parametrize("challenger", [0.7, 0.5])
def test_what_is_not_better_is_kept_out_long_before_the_last_round(challenger: float) -> None:
    found = play(arms(0.7, challenger), CASES)
    assert found.verdict == "keep" and found.calls < 2 * Rules().rounds * len(CASES)


def test_the_archive_drops_and_says_after_how_many_rounds() -> None:
    found = play(arms(0.7, 0.7, seed=2), CASES, archive=lambda case: 0.95)
    assert found.verdict == "keep" and found.reason.startswith("hopeless after round 1")


@settings(max_examples=60, deadline=None)
@given(st.floats(0.2, 0.8), st.floats(-0.2, 0.2), st.floats(0, 1), st.integers(0, 10**6))
def test_the_archive_never_helps_a_challenger_win(
    rate: float, gain: float, archived: float, seed: int
) -> None:
    draw = arms(rate, rate + gain, seed)
    archive: Archive = lambda case: archived  # noqa: E731 - one line says it
    alone, with_archive = play(draw, CASES[:30]), play(draw, CASES[:30], archive=archive)
    assert with_archive.verdict == "keep" or (with_archive.verdict, with_archive.calls) == (
        alone.verdict,
        alone.calls,
    )


def test_a_promotion_that_a_fresh_pass_does_not_confirm_is_kept_out() -> None:
    match = Match(CASES)
    for case in CASES:
        match.add(case, 0.0, 1.0)
    assert match.proven and match.result().verdict == "continue"
    for case in CASES * match.rules.passes:
        match.finish(case, 1.0, 0.0)
    found = match.result()
    assert (found.verdict, found.mean) == ("keep", -1.0) and "did not confirm" in found.reason


def test_early_luck_is_undone_by_a_fresh_pass_that_is_hardly_better() -> None:
    match = Match(CASES)
    for at, case in enumerate(CASES):
        match.add(case, 0.0, float(at % 3 > 0))
        if match.proven:
            break
    assert match.proven and len(match.scores) < len(CASES) / 2
    for at, case in list(enumerate(CASES)) * match.passes:
        gain = (0.1, -1.0, 1.0)[at % 3]
        match.finish(case, max(0.0, -gain), max(0.0, gain))
    found = match.result()
    assert found.mean > 0 and found.verdict == "keep" and "did not confirm" in found.reason


def test_who_asks_either_way_is_told_that_it_is_worse() -> None:
    draw = arms(0.8, 0.6, seed=1)
    assert play(draw, CASES[:60], Rules(alpha=0.1)).ci_high > 0  # dropped for want of hope, and nothing known
    worse = play(draw, CASES[:60], Rules(alpha=0.1, either=True))
    assert worse.ci_high < 0 and worse.reason == "worse, beyond reasonable doubt"
    assert play(arms(0.6, 0.8), CASES[:60], Rules(alpha=0.1, either=True)).verdict == "promote"


def test_a_gain_that_harms_one_agent_is_blocked_and_names_it() -> None:
    cases = [(agent, str(i)) for agent in ("gauge", "tide") for i in range(40)]
    good, bad = arms(0.2, 0.9), arms(0.8, 0.5)
    found = play(lambda arm, case, n: (good if case[0] == "gauge" else bad)(arm, case, n), cases)
    assert found.verdict == "blocked" and "not for tide -" in found.reason


def test_what_a_few_families_gained_by_luck_is_not_proven() -> None:
    family = {case: str(i % 12) for i, case in enumerate(CASES)}
    lucky = lambda arm, case, number: float(arm == "challenger" and family[case] in "01")  # noqa: E731
    assert play(lucky, CASES).verdict == "promote"
    by_family = play(lucky, CASES, Rules(family=family.__getitem__))
    assert by_family.verdict == "keep" and "by so few kinds" in by_family.reason


def test_answers_that_did_not_come_count_for_nobody() -> None:
    draw = arms(0.3, 0.9)
    lost = set(CASES[:20])
    found = play(lambda arm, case, n: None if case in lost else draw(arm, case, n), CASES)
    assert found.verdict == "promote"
    assert play(lambda arm, case, n: None, CASES, Rules(rounds=2)).verdict == "inconclusive"


def test_not_worse_by_more_than_the_margin_is_enough_where_that_was_asked() -> None:
    draw = arms(0.8, 0.8, seed=3)
    cases = [("gauge", str(i)) for i in range(120)]
    assert play(draw, cases).verdict == "keep"
    found = play(draw, cases, Rules(margin=0.1))
    assert found.verdict == "promote" and found.ci_low > -0.1 - found.ci_high
    assert play(arms(0.8, 0.6), cases, Rules(margin=0.1)).verdict == "keep"


def test_a_match_goes_on_where_it_was_another_night() -> None:
    whole, draw = Match(CASES), arms(0.7, 0.78, seed=5)
    parts: list[tuple[Case, float | None, float | None]] = []
    for number in (1, 2):
        for case in order(CASES, 0, number):
            parts.append((case, draw("champion", case, number), draw("challenger", case, number)))
            whole.add(*parts[-1])
        whole.end_round()
    again = Match(CASES)
    for at, part in enumerate(parts, 1):
        again.add(*part)
        if at % len(CASES) == 0:
            again.end_round()
    first, second = whole.result(), again.result()
    assert replace(first, interval=second.interval) == second
    assert (first.ci_low, first.ci_high) == (second.ci_low, second.ci_high)
    assert first.verdict == "continue" and first.rounds == 2


def test_every_round_has_an_order_of_its_own_and_the_same_each_time() -> None:
    assert order(CASES, 1, 1) == order(CASES, 1, 1) != order(CASES, 1, 2) != order(CASES, 2, 2)
    assert sorted(order(CASES, 1, 3)) == sorted(CASES)


def test_a_small_suite_does_not_cap_the_bets_of_the_others() -> None:
    weights = Match([*CASES, ("tide", "only")]).weights
    assert weights["tide", "only"] == 1 / 30 and weights[CASES[0]] == 1 / 60


def test_the_interval_across_families_is_wider_where_kinds_of_cases_differ() -> None:
    rules = Rules(family=lambda case: str(int(case[1].split("-")[1]) % 12))

    def uneven(arm: str, case: Case, number: int) -> float | None:
        better = arm == "challenger" and int(case[1].split("-")[1]) % 12 < 9  # three families gain nothing
        return arms(0.1, 0.1)(arm, case, number) if not better else arms(0.9, 0.9)(arm, case, number)

    even, split = play(arms(0.1, 0.7), CASES, rules), play(uneven, CASES, rules)
    assert even.finished and even.families == 12 and even.robust and split.robust
    assert even.robust[0] < even.mean < even.robust[1]
    assert split.robust[1] - split.robust[0] > 2 * (even.robust[1] - even.robust[0])
    few = play(arms(0.1, 0.7), CASES, Rules(family=lambda case: "one"))
    assert (few.families, few.robust) == (1, None)
