"""Rules: what a prompt's fenced blocks say, and nothing more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.offline import analysts
from agents.offline.rules import found, read
from tests.worlds.agent_kit import live_prompt


def block(text: str) -> str:
    return f"Some words.\n```rules\n{text}\n```\nMore words.\n"


def test_a_later_block_overrides_key_by_key() -> None:
    rules = read(block("a: 1\nb: 2") + block("b: 3"))
    assert (rules.number("a", 0), rules.number("b", 0)) == (1, 3)


def test_only_fenced_rules_count() -> None:
    assert read("a: 1\n```yaml\na: 2\n```\n").values == {}


def test_no_and_null_are_words_in_a_list_and_no_is_false_for_a_flag() -> None:
    rules = read(block("cues: [no, off, null]\nfx: no\nnet: yes\nold: true"))
    assert rules.terms("cues") == ("no", "off", "null")
    assert (rules.flag("fx", True), rules.flag("net", False), rules.flag("old", False)) == (False, True, True)


@pytest.mark.parametrize(
    "text", ["a: [", "- a", "just words", "a: !!python/object:os.system x", "? [", "x" * 60_000]
)
def test_a_broken_block_is_left_out_and_told(text: str) -> None:
    rules = read(block("kept: 1") + block(text))
    assert dict(rules.values) == {"kept": 1} and len(rules.problems) == 1


def test_a_value_of_the_wrong_kind_counts_as_not_given() -> None:
    rules = read(block("n: lots\nlist: 3\nmap: [1]\nword: 7\nflag: maybe\nbig: .inf"))
    assert rules.number("n", 5) == 5 and rules.number("big", 5) == 5
    assert rules.terms("list", ["x"]) == ("x",) and rules.weights("map", {"y": 1}) == {"y": 1}
    assert rules.word("word", "w") == "w" and rules.flag("flag", True) is True


def test_a_number_for_a_series_wins_over_the_plain_one() -> None:
    rules = read(block("z_alert: 2\nz_alert_by_series: {VIX: 3}"))
    assert (rules.number_for("z_alert", "VIX", 9), rules.number_for("z_alert", "WTI", 9)) == (3, 2)


@pytest.mark.parametrize(
    ("terms", "text", "matches"),
    [
        (("attack*",), "Attacks and attackers, counterattack", ["Attacks", "attackers"]),
        (("war",), "Warsaw wares: war-torn", ["war"]),
        (("US", "EU"), "Give us the US, eu", ["US"]),
        (("air strike*",), "Air  strikes, air-strike", ["Air  strikes", "air-strike"]),
        (("car bomb", "bomb"), "car bomb", ["car bomb"]),
        (("a.b",), "axb a.b", ["a.b"]),
        ((), "anything", []),
    ],
)
def test_terms_are_found_as_whole_words(terms: tuple[str, ...], text: str, matches: list[str]) -> None:
    assert found(terms, text) == matches


@given(st.lists(st.text(max_size=8), max_size=4), st.text(max_size=40))
def test_no_term_or_text_breaks_the_search(terms: list[str], text: str) -> None:
    assert all(match in text for match in found(tuple(terms), text))


@given(st.text(max_size=200))
def test_no_text_breaks_reading(text: str) -> None:
    assert isinstance(read(block(text)).values, dict)


def test_the_vocabulary_names_every_key_that_an_analyst_reads(repository: Path) -> None:
    read_key = re.compile(r"rules\.(?:number|flag|word|terms|weights|words|number_for)\(\s*\"([a-z_]+)\"")
    keys: set[str] = set()
    for path in repository.glob("agents/*/analysts/*.py"):
        keys |= set(read_key.findall(path.read_text("utf-8")))
    assert len(keys) > 50
    documented = set(re.findall(r"`([a-z_]+)`", analysts.__doc__ or ""))
    assert keys <= documented, keys - documented


@pytest.mark.parametrize(
    "name", ["macro_watcher", "geopolitical_risk", "arbitrage_finder", "reviewer", "meta_agent", "vix_echo"]
)
def test_every_rule_of_a_shipped_prompt_is_in_the_vocabulary(name: str) -> None:
    rules = read(live_prompt(name))
    documented = set(re.findall(r"`([a-z_]+)`", analysts.__doc__ or "")) | {"analyst"}
    families = ("required_", "allowed_", "region_", "category_")
    unknown = {
        key
        for key in rules.values
        if key.removesuffix("_by_series") not in documented and not key.startswith(families)
    }
    assert not rules.problems and not unknown
