"""Finding the JSON that was asked for in whatever a model writes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.answer import ANY_JSON, Unusable, contract, parse
from agents.model.schema import record
from telemetry.edge.errors import BadInput

ITEMS: dict[str, Any] = {
    "type": "object",
    "required": ["items"],
    "additionalProperties": False,
    "properties": {"items": {"type": "array", "items": {"type": "integer"}}},
}
WANTED = contract(ITEMS)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(  # small ones: drawing large ones costs a hundred times what parsing them does
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.text("abc", min_size=1), values, min_size=1, max_size=3) | st.lists(
    values, min_size=1, max_size=3
)
objects = st.dictionaries(st.text("abc", max_size=3), values, min_size=1, max_size=3)
prose = st.text(st.characters(exclude_characters="{}[]", exclude_categories=["Cs"]), max_size=40)


@given(documents)
def test_json_alone_is_returned_as_it_is(value: Any) -> None:
    assert parse(json.dumps(value), ANY_JSON) == value


@given(prose, st.lists(st.integers(-999, 999)), prose)
def test_json_between_prose_is_found(before: str, items: list[int], after: str) -> None:
    text = f"{before}\n```json\n{json.dumps({'items': items})}\n```\n{after}"
    assert parse(text, WANTED) == {"items": items}


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        assert parse(text, WANTED).keys() == {"items"}
    except Unusable as problem:
        assert str(problem)


@given(objects | st.lists(objects, min_size=1, max_size=3), prose, st.data())
def test_a_part_of_a_truncated_answer_is_never_taken_for_the_answer(
    value: Any, before: str, data: st.DataObject
) -> None:
    whole = json.dumps(value)
    shortest = whole.index(":") + 1  # by then it is evident that JSON began
    cut = whole[: data.draw(st.integers(shortest, len(whole) - 1))]
    with pytest.raises(Unusable):
        parse(f"{before}{cut}", ANY_JSON)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("no idea", "no JSON"),
        ('{"items": [1, 2', "cut off"),
        ("[1, 2]", "breaks the schema"),
        ('{"items": ["a"]}', "items.0"),
        ('{"items": [1], "note": "extra"}', "note"),
        ('{"items": [NaN]}', "broken"),
        ('First {"items": [1]}, or rather {"items": [2]}', "2 different"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    with pytest.raises(Unusable, match=problem):
        parse(text, WANTED)


@pytest.mark.parametrize("text", ["42", '"text"', "null", "true"])
def test_a_bare_value_is_no_answer(text: str) -> None:
    with pytest.raises(Unusable):
        parse(text, ANY_JSON)


def test_an_answer_repeated_word_for_word_is_one_answer() -> None:
    assert parse('{"items": [1]} ... so: {"items": [1]}', WANTED) == {"items": [1]}


@pytest.mark.parametrize(
    "thought",
    [
        '<think>maybe {"items": [9]}</think>\n',
        'First {"items": [9]}, or else\n</think>\n\n',  # a template has written where it begins
        '<thinking>{"items": [9]}</thinking>',
        '[THINK]{"items": [9]}[/THINK]',
    ],
)
def test_reasoning_is_not_searched_for_the_answer(thought: str) -> None:
    assert parse(f'{thought}{{"items": [1]}}', WANTED) == {"items": [1]}
    assert parse(f'{thought}```json\n{{"items": [1]}}\n```', WANTED) == {"items": [1]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<think>maybe {"items": [9]}', "without an end"),
        ('{"items": [1], "why": "</think>{"items": [9]}', "cut off"),
    ],
)
def test_reasoning_without_an_end_holds_no_answer(text: str, problem: str) -> None:
    with pytest.raises(Unusable, match=problem):
        parse(text, WANTED)


def test_an_answer_may_speak_of_reasoning() -> None:
    assert parse('{"a": "<think> and </think>"}', ANY_JSON) == {"a": "<think> and </think>"}


@pytest.mark.parametrize(
    "hostile", ["[" * 200_000, '{"a":' * 200_000, "{" * 1_000_000, '{"items": [' + "1," * 300_000]
)
def test_hostile_text_costs_little(hostile: str) -> None:
    start = time.process_time()
    with pytest.raises(Unusable):
        parse(hostile, WANTED)
    assert time.process_time() - start < 5  # quadratic would be minutes


def test_a_schema_that_is_none_is_bad_input() -> None:
    with pytest.raises(BadInput, match="output schema"):
        contract({"type": "no such type"})


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (ITEMS, True),
        ({**ITEMS, "additionalProperties": True}, False),
        ({**ITEMS, "required": []}, False),
        ({"type": "object"}, False),
        ({"type": "array", "items": {"type": "integer"}}, False),
        ({**ITEMS, "properties": {"items": {"type": "array", "items": {"type": "object"}}}}, False),
    ],
)
def test_strict_mode_is_asked_for_only_where_it_can_be_had(schema: dict[str, Any], strict: bool) -> None:
    assert (contract(schema).strict is not None) is strict


def test_a_strict_schema_carries_only_what_strict_mode_takes_and_the_rest_is_checked_after() -> None:
    text = {"type": "string", "minLength": 2, "pattern": "^a", "examples": ["ab"]}
    schema = record(a=text, b={"anyOf": [text, {"type": "null"}]})
    wanted = contract(schema)
    kept = {"type": "string", "pattern": "^a"}
    assert wanted.strict == record(a=kept, b={"anyOf": [kept, {"type": "null"}]})
    with pytest.raises(Unusable, match=r"a: .*shorter than 2"):
        parse('{"a": "a", "b": null}', wanted)
    assert contract(record(a={"oneOf": [text]})).strict is None
