"""Rules: what a prompt's fenced blocks say, and nothing more."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.market import DOMAIN
from agents.offline.analysts import GENERIC
from agents.offline.rules import Key, Rules, found, read
from agents.offline.vocabulary import Analyst, chosen, flag, names, number, told, weights, word
from tests.worlds.agent_kit import live_prompt


def block(text: str) -> str:
    return f"Some words.\n```rules\n{text}\n```\nMore words.\n"


def under(text: str, **keys: Key) -> Rules:
    """The rules of a text as an analyst with this table reads them."""
    return replace(read(text), keys=keys)


def test_a_later_block_overrides_key_by_key() -> None:
    rules = under(block("a: 1\nb: 2") + block("b: 3"), a=number(0, ""), b=number(0, ""))
    assert (rules.number("a"), rules.number("b")) == (1, 3)


def test_only_fenced_rules_count() -> None:
    assert read("a: 1\n```yaml\na: 2\n```\n").values == {}


def test_no_and_null_are_words_in_a_list_and_no_is_false_for_a_flag() -> None:
    table = {"fx": flag("", default=True), "net": flag(""), "old": flag("")}
    rules = under(block("cues: [no, off, null]\nfx: no\nnet: yes\nold: true"), **table)
    assert rules.terms("cues") == ("no", "off", "null")
    assert (rules.flag("fx"), rules.flag("net"), rules.flag("old")) == (False, True, True)


@pytest.mark.parametrize(
    "text", ["a: [", "- a", "just words", "a: !!python/object:os.system x", "? [", "x" * 60_000]
)
def test_a_broken_block_is_left_out_and_told(text: str) -> None:
    rules = read(block("kept: 1") + block(text))
    assert dict(rules.values) == {"kept": 1} and len(rules.problems) == 1


def test_a_value_of_the_wrong_kind_counts_as_not_given() -> None:
    table = {"n": number(5, ""), "big": number(5, ""), "list": names("", ("x",))}
    table |= {"map": weights("", default={"y": 1}), "word": word("w", ""), "flag": flag("", default=True)}
    rules = under(block("n: lots\nlist: 3\nmap: [1]\nword: 7\nflag: maybe\nbig: .inf"), **table)
    assert rules.number("n") == 5 and rules.number("big") == 5
    assert rules.terms("list") == ("x",) and rules.weights("map") == {"y": 1}
    assert rules.word("word") == "w" and rules.flag("flag") is True


def test_a_family_of_keys_has_the_default_of_whoever_asks() -> None:
    assert read(block("allowed_regime: [calm]")).terms("allowed_regime", ("x",)) == ("calm",)
    assert read(block("allowed_regime: 3")).terms("allowed_regime", ("x",)) == ("x",)


def test_a_number_for_a_series_wins_over_the_plain_one() -> None:
    rules = under(block("z_alert: 2\nz_alert_by_series: {VIX: 3}"), z_alert=number(9, ""))
    assert (rules.number_for("z_alert", "VIX"), rules.number_for("z_alert", "WTI")) == (3, 2)
    unset = under(block("z_alert_by_series: {VIX: 3}"), z_alert=number(9, ""))
    assert (unset.number_for("z_alert", "VIX"), unset.number_for("z_alert", "WTI")) == (3, 9)


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


ANALYSTS = {**{f"generic {name}": one for name, one in GENERIC.items()}, **DOMAIN.analysts}


def test_the_tables_name_every_key_that_an_analyst_reads() -> None:
    read_key = re.compile(r"rules\.(?:number|flag|word|terms|weights|words|number_for)\(\s*\"([a-z_]+)\"")
    keys: set[str] = set()
    for name, analyst in ANALYSTS.items():
        own = set(read_key.findall(inspect.getsource(inspect.getmodule(analyst.judge) or analyst.judge)))
        assert own <= set(analyst.keys), (name, own - set(analyst.keys))
        keys |= own
    assert len(keys) > 50


@pytest.mark.parametrize(("name", "analyst"), ANALYSTS.items(), ids=ANALYSTS)
def test_every_key_is_told_with_its_meaning(name: str, analyst: Analyst) -> None:
    lines = told(name, analyst).splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert [line.split()[0] for line in lines[1:]] == list(analyst.keys)
    assert all(line.endswith(key.means) for line, key in zip(lines[1:], analyst.keys.values(), strict=True))
    assert all(key.means for key in analyst.keys.values())


@pytest.mark.parametrize(
    "name", ["macro_watcher", "geopolitical_risk", "arbitrage_finder", "reviewer", "meta_agent", "vix_echo"]
)
def test_every_rule_of_a_shipped_prompt_is_in_the_table_of_its_analyst(name: str) -> None:
    rules = read(live_prompt(name))
    analyst = chosen({**GENERIC, **DOMAIN.analysts}, rules, {"task": name})
    assert analyst is not None
    known = {"analyst", *analyst.keys}
    known |= {f"{key}_by_series" for key, about in analyst.keys.items() if about.by_series}
    families = tuple(key.partition("<")[0] for key in analyst.keys if "<" in key)
    unknown = {
        key for key in rules.values if key not in known and not (families and key.startswith(families))
    }
    assert not rules.problems and not unknown
