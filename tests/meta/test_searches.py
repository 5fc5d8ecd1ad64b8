"""When a prompt is searched again: seldom where nothing comes of it, and never not at all."""

from __future__ import annotations

import asyncio
import random
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.call import Completion, LLMError, Model
from meta.proposals.searches import FREE_FAILURES, MOST_NIGHTS, Meter, due, nights_between

START = date(2026, 1, 1)
YEAR = 365


def year(seed: int, chance: float, test_nights: int = 1) -> list[date]:
    """The days on which a prompt is searched, if each search brings a better text with this chance."""
    draw, failed, searched = random.Random(seed), list[date](), list[date]()
    for night in range(0, YEAR, test_nights):
        today = START + timedelta(days=night)
        if (again := due(failed)) and today < again:
            continue
        searched.append(today)
        failed = [] if draw.random() < chance else [*failed, today]
    return searched


def test_a_prompt_that_brings_nothing_is_searched_some_thirty_times_a_year_not_four_and_not_every_night() -> (
    None
):
    searched = year(0, chance=0.0)
    assert 26 <= len(searched) <= 40
    assert (START + timedelta(days=YEAR)) - searched[-1] <= timedelta(days=MOST_NIGHTS)


def test_a_prompt_with_one_good_idea_in_five_is_searched_twice_as_often() -> None:
    mean = sum(len(year(seed, chance=0.2)) for seed in range(50)) / 50
    assert mean > 2 * len(year(0, chance=0.0))


def test_a_prompt_with_good_ideas_is_searched_every_night() -> None:
    assert sum(len(year(seed, chance=0.7)) for seed in range(50)) / 50 > 0.95 * YEAR


@given(st.lists(st.dates(START, START + timedelta(days=5000)), min_size=1, max_size=400))
def test_the_next_search_is_never_further_away_than_the_cap(failed: list[date]) -> None:
    again = due(failed)
    assert again is not None
    assert max(failed) <= again <= max(failed) + timedelta(days=MOST_NIGHTS)


@given(st.integers(0, 10**6))
def test_more_failures_never_mean_a_shorter_wait(failures: int) -> None:
    assert nights_between(failures) <= nights_between(failures + 1)


def test_a_few_failures_are_no_reason_to_wait() -> None:
    assert [nights_between(number) for number in range(FREE_FAILURES + 1)] == [0] * (FREE_FAILURES + 1)
    assert due([]) is None


@pytest.mark.parametrize(
    ("kind", "calls"), [("budget", 1), ("provider", 2)], ids=["never sent", "sent and lost"]
)
def test_a_call_that_failed_is_counted_if_it_was_sent(kind: str, calls: int) -> None:
    class Failing(Model):
        answers = iter([Completion({}, "", "m", "m", "test", cost_usd=0.5)])

        async def complete(self, *_: object, **__: object) -> Completion:
            if answer := next(self.answers, None):
                return answer
            raise LLMError("no", kind)

    meter = Meter(Failing())
    asyncio.run(meter.complete([]))
    with pytest.raises(LLMError):
        asyncio.run(meter.complete([]))
    took = meter.search("p", "a", None)
    assert took.calls == calls
    assert took.cost_usd == (0.5 if kind == "budget" else None)
