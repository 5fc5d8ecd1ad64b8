"""The one schema check agrees with the reference implementation, says what is allowed, and survives hostile values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agents.model.answer import contract, parse
from agents.model.schema import LATELY, MAX_DEPTH, array, checker, faults, listed, problems, schema_problem

NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["", "x", "yes", "no", "ü" * 3])
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -2.5, 2.5, 1e300, 10**30])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
SMALL = st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -2.5, 2.5, 1e300])  # in a schema: within 64 bits


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(WORDS | st.none() | SMALL, min_size=1, max_size=3),
            "const": WORDS | st.none() | SMALL,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "propertyNames": inner,
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "items": inner,
            "uniqueItems": st.booleans(),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "minimum": SMALL,
            "maximum": SMALL,
            "exclusiveMinimum": SMALL,
            "exclusiveMaximum": SMALL,
            "pattern": st.sampled_from(["^x", "e", "^$"]),
            "format": st.just("date"),
            "title": WORDS,
        },
    )


SCHEMAS = st.recursive(st.just({}), _schemas, max_leaves=6)


@settings(max_examples=300)
@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=8))
def test_it_agrees_with_the_reference(schema: Any, values: list[Any]) -> None:
    check, reference = checker(schema), Draft202012Validator(schema)
    for value in values:
        fits = reference.is_valid(value)
        assert check(value) is fits, value
        assert (problems(schema, value) == []) is fits, value


@settings(max_examples=200, deadline=None)
@given(item=SCHEMAS, items=st.lists(VALUES, max_size=3))
def test_an_answer_fits_just_when_its_items_do(item: Any, items: list[Any]) -> None:
    assert (not problems(listed(item), {"items": items})) == (not problems(array(item), items))


def test_a_schema_that_was_made_ready_is_not_mistaken_for_another() -> None:
    for number in range(3 * LATELY):  # made and gone: its address may be that of the next
        assert problems({"const": number}, number) == []
        assert contract({"const": number}).schema == {"const": number}
    held = {"const": 1}
    assert contract(held) is contract(held) and problems(held, 2)


def test_named_parts_may_hold_themselves() -> None:
    tree = {
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "$ref": "#/$defs/tree",
    }
    assert checker(tree)([[], [[]]])
    assert problems(tree, [[], [3]]) == ['1.0: 3 is not of type "array"']


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"enum": list("abcdefgh")}, "x", '"x" is not one of ["a", "b", "c", "d", "e", "f", "g", "h"]'),
        ({"type": "number"}, math.nan, "nan is no JSON number"),
        ({"type": "integer"}, math.inf, "inf is no JSON number"),
        ({"required": ["a"]}, {}, '"a" is a required property'),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"z": 1}, "'z' was unexpected"),
        ({"additionalProperties": False}, {"z": 1}, "no property is allowed"),
        ({"type": "object"}, {1: 2}, "not JSON"),
        ({"type": "string"}, "\ud800", "not JSON"),
    ],
)
def test_a_fault_says_what_is_allowed(schema: Any, value: Any, said: str) -> None:
    (problem,) = problems(schema, value)
    assert problem.startswith("answer: ")
    assert said in problem


def test_the_fault_names_its_place_and_the_rule_it_breaks() -> None:
    word = {"type": "string", "minLength": 2, "description": "a word"}
    schema = {"$defs": {"word": word}, "properties": {"a": {"items": {"$ref": "#/$defs/word"}}}}
    (fault,) = faults(schema, {"a": ["good", "x"]})
    assert (fault.path, fault.keyword, fault.rule, fault.value) == (("a", 1), "minLength", word, "x")
    assert fault.at("top") == "a.1"


def test_few_faults_are_told_and_each_is_short() -> None:
    told = problems({"items": {"maxLength": 3}}, ["x" * 10_000] * 20)
    assert len(told) == 5
    assert max(map(len, told)) < 200


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (inner,)])
def test_depth_never_breaks_the_process(wrap: Any) -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = wrap(value)
        return value

    tree = {
        "$defs": {
            "tree": {"items": {"$ref": "#/$defs/tree"}, "additionalProperties": {"$ref": "#/$defs/tree"}}
        }
    }
    schema = tree | {"$ref": "#/$defs/tree"}
    assert problems(schema, nested(MAX_DEPTH)) == []
    for depth in (MAX_DEPTH + 1, 10_000, 200_000):
        assert problems(schema, nested(depth)) == [
            f"answer: more than {MAX_DEPTH} lists and objects inside each other"
        ]


def test_the_deepest_answer_that_the_parser_takes_is_checked() -> None:
    tree = {"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}
    text = "[" * 1024 + "]" * 1024
    assert checker(tree)(parse(text, contract(tree)))


def test_big_numbers_in_deep_values_are_still_measured() -> None:
    value: Any = 10**30
    assert problems({"type": "array"}, [value]) == []
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    assert "inside each other" in problems({"type": "array"}, value)[0]
    loop: list[Any] = []
    loop += [loop, loop]
    assert "inside each other" in problems({"type": "array"}, loop)[0]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (3, "must be a JSON object"),
        (True, "must be a JSON object"),
        ({"type": "word"}, '"word" is not valid'),
        ({"pattern": "("}, "regex"),
        ({"$ref": "#/nowhere"}, "/nowhere"),
        ({"$ref": "http://127.0.0.1:9/x"}, "may only refer to itself"),
        ({"$ref": "file:///etc/passwd"}, "may only refer to itself"),
        ({"minimum": 10**30}, "64-bit"),
    ],
)
def test_what_is_no_schema_is_told(schema: Any, why: str) -> None:
    assert why in (schema_problem(schema) or "")


def test_the_schemas_that_come_with_the_code_are_schemas(repository: Path) -> None:
    packages = ("agents", "eval", "meta", "telemetry")
    schemas = [path for name in packages for path in (repository / name).rglob("*.schema.json")]
    assert len(schemas) > 6
    for path in schemas:
        assert schema_problem(json.loads(path.read_text())) is None, path
