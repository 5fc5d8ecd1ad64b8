"""Rules: what a prompt's fenced blocks say, and nothing more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.offline.analysts import GENERIC
from agents.offline.rules import Analyst, Key, Rules, found, read
from telemetry.edge.records import load_terms
from tests.worlds import tables
from tests.worlds.toy import ANALYSTS
from tests.worlds.world import TREE


def block(text: str) -> str:
    return f"Some words.\n```rules\n{text}\n```\nMore words.\n"


def under(text: str, **keys: Key) -> Rules:
    """The rules of a text as an analyst with this table reads them."""
    return replace(read(text), keys=keys)


def test_a_later_block_overrides_key_by_key() -> None:
    rules = under(block("a: 1\nb: 2") + block("b: 3"), a=Key("number", 0, ""), b=Key("number", 0, ""))
    assert (rules.number("a"), rules.number("b")) == (1, 3)


def test_only_fenced_rules_count() -> None:
    assert read("a: 1\n```yaml\na: 2\n```\n").values == {}


def test_no_and_null_are_words_in_a_list_and_no_is_false_for_a_flag() -> None:
    table = {"fx": Key("flag", True, ""), "net": Key("flag", False, ""), "old": Key("flag", False, "")}
    rules = under(block("cues: [no, off, null]\nfx: no\nnet: yes\nold: true"), **table)
    assert rules.terms("cues") == ("no", "off", "null")
    assert (rules.flag("fx"), rules.flag("net"), rules.flag("old")) == (False, True, True)


@pytest.mark.parametrize(
    "text", ["a: [", "- a", "just words", "a: !!python/object:os.system x", "? [", "x" * 60_000]
)
def test_a_broken_block_is_left_out_and_told(text: str) -> None:
    rules = read(block("kept: 1") + block(text))
    assert dict(rules.values) == {"kept": 1} and len(rules.problems) == 1


ENTRIES = (
    "a: 1", "b: [x, no]", "b: {x*: 1}", "m:\n  one: 1\n  two words: 2  # why", "m:\n- one\n- two", "# a comment",
    "a: yes", "t: |\n  a: 5", 'q: "two\n  lines"', "f: [1,\nb: 2]", "f: {x: 1", "- item", "word", "x:y: 3", "c:", "",
    "{a: 9}", "---", "...", "%TAG ! x:", "<<: {a: 4}", "n: &one {x: 1}", "o: *one", "p: {<<: *one}", "? k", ": v",
    "http://x y", "!!set", "&y", "a: b\u2028c: d", "\tz: 1", "  a: 3", "e: !!int x", "'k': 2", "7: 8", "k: ]", "h: '",
)  # fmt: skip


@given(st.lists(st.sampled_from(ENTRIES), max_size=6))
def test_entry_by_entry_a_block_says_what_it_says_as_a_whole(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        whole = load_terms(f"{text}\n")
    except ValueError as problem:
        told = [f"rules block 1: {str(problem)[:200]}"]
        assert (read(block(text)).values, list(read(block(text)).problems)) == ({}, told)
        return
    if isinstance(whole, dict):
        assert read(block(text)) == Rules({str(key): value for key, value in whole.items()})
    else:
        assert not read(block(text)).values and bool(read(block(text)).problems) == (whole is not None)


def test_a_value_of_the_wrong_kind_counts_as_not_given() -> None:
    table = {"n": Key("number", 5, ""), "big": Key("number", 5, ""), "list": Key("terms", ("x",), "")}
    table |= {
        "map": Key("weights", {"y": 1}, ""),
        "word": Key("word", "w", ""),
        "flag": Key("flag", True, ""),
    }
    rules = under(block("n: lots\nlist: 3\nmap: [1]\nword: 7\nflag: maybe\nbig: .inf"), **table)
    assert rules.number("n") == 5 and rules.number("big") == 5
    assert rules.terms("list") == ("x",) and rules.weights("map") == {"y": 1}
    assert rules.word("word") == "w" and rules.flag("flag") is True


def test_a_family_of_keys_has_the_default_of_whoever_asks() -> None:
    assert read(block("allowed_regime: [calm]")).terms("allowed_regime", ("x",)) == ("calm",)
    assert read(block("allowed_regime: 3")).terms("allowed_regime", ("x",)) == ("x",)


def test_a_number_for_a_series_wins_over_the_plain_one() -> None:
    rules = under(block("z_alert: 2\nz_alert_by_series: {VIX: 3}"), z_alert=Key("number", 9, ""))
    assert (rules.number_for("z_alert", "VIX"), rules.number_for("z_alert", "WTI")) == (3, 2)
    unset = under(block("z_alert_by_series: {VIX: 3}"), z_alert=Key("number", 9, ""))
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
    assert list(found(terms, text)) == matches


@given(st.lists(st.text(max_size=8), max_size=4), st.text(max_size=40))
def test_no_term_or_text_breaks_the_search(terms: list[str], text: str) -> None:
    assert all(match in text for match in found(tuple(terms), text))


@given(st.text(max_size=200))
def test_no_text_breaks_reading(text: str) -> None:
    assert isinstance(read(block(text)).values, dict)


@pytest.mark.parametrize(("name", "analyst"), {**GENERIC, **ANALYSTS}.items(), ids={**GENERIC, **ANALYSTS})
def test_a_table_names_every_key_that_its_analyst_reads_and_what_it_means(
    name: str, analyst: Analyst
) -> None:
    assert tables.check_analyst(name, analyst) or not analyst.keys


@pytest.mark.parametrize(
    ("prompt", "agent"),
    [("flood_watch", "flood_watch"), ("gauge_echo", "gauge_echo"), ("reviewer", "reviewer"),
     ("meta_system", "meta_agent"), ("agent_guidelines", ""), ("critique", ""), ("propose", "")],
)  # fmt: skip
def test_every_rule_of_a_prompt_is_in_the_table_of_its_analyst(prompt: str, agent: str) -> None:
    text = (TREE / f"agents/prompts/{prompt}.md").read_text()
    tables.check_prompt(text, {**GENERIC, **ANALYSTS}, agent)


@pytest.mark.parametrize("strange", ["abov: 1", "allowed: 1", "above: ["])
def test_a_rule_that_nobody_reads_would_be_noticed(strange: str) -> None:
    text = (
        (TREE / "agents/prompts/flood_watch.md").read_text().replace("```rules\n", f"```rules\n{strange}\n")
    )
    with pytest.raises(AssertionError):
        tables.check_prompt(text, ANALYSTS, "flood_watch")
