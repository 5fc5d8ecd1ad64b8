"""Mined terms: telling ones first, phrases before single words, and no word that a person would refuse."""

from __future__ import annotations

from typing import Any

from meta.offline.term_mining import mine


def case(text: str) -> dict[str, Any]:
    return {"input": {"headlines": [{"text": text}]}, "reasons": ["missed"], "tags": []}


FAILING = [case("Power vacuum after the president goes home"), case("A power vacuum grows at home")]


def test_a_phrase_comes_before_the_words_it_is_made_of() -> None:
    terms = [one.term for one in mine(FAILING, [case("Rates hold")], words=2, least=2)]
    assert terms == ["power vacuum"]


def test_a_word_of_many_meanings_never_stands_alone() -> None:
    terms = [one.term for one in mine(FAILING, [], words=1, least=2)]
    assert "home" not in terms and "vacuum" in terms


def test_what_also_stands_in_passing_cases_tells_less() -> None:
    passing = [case("The vacuum cleaner market"), case("Vacuum tubes are back")]
    (power, vacuum) = mine(FAILING, passing, words=1, least=2)
    assert (power.term, power.passing) == ("power", 0)
    assert (vacuum.term, vacuum.passing) == ("vacuum", 2) and vacuum.worth < power.worth
