"""The compiled check agrees with `jsonschema` on every value, and leaves alone what it does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agents.model.fast_schema import compiled

NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["", "x", "yes", "no", "ü" * 3])
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -2.5, 2.5, 1e300])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(WORDS | st.none(), min_size=1, max_size=3),
            "const": WORDS | st.none() | NUMBERS,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "propertyNames": inner,
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "items": inner,
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "minimum": NUMBERS,
            "maximum": NUMBERS,
            "exclusiveMinimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "pattern": st.sampled_from(["^x", "e", "^$"]),
            "title": WORDS,
        },
    )


SCHEMAS = st.recursive(st.booleans() | st.just({}), _schemas, max_leaves=6)


NAMED = {
    "$defs": {
        "word": {"type": "string", "minLength": 1},
        "words": {"type": "array", "items": {"$ref": "#/$defs/word"}},
    },
    "properties": {
        "a": {"$ref": "#/$defs/words"},
        "b": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
}


@given(value=VALUES | st.dictionaries(NAMES, st.lists(WORDS)))
def test_named_parts_and_unique_words_agree_too(value: Any) -> None:
    check = compiled(NAMED)
    assert check is not None
    assert check(value) == Draft202012Validator(NAMED).is_valid(value)


ANYTHING = (
    st.none() | st.booleans() | NUMBERS | WORDS | st.lists(WORDS, max_size=2) | st.dictionaries(NAMES, WORDS)
)
KEYWORDS = [
    *(
        "type",
        "enum",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxLength",
        "minimum",
    ),
    *("pattern", "title", "anyOf", "propertyNames", "uniqueItems", "examples", "$defs", "$ref"),
]


@settings(max_examples=300)
@given(schema=st.dictionaries(st.sampled_from(KEYWORDS), ANYTHING, max_size=3))
def test_what_compiles_is_a_schema(schema: dict[str, Any]) -> None:
    if compiled(schema) is not None:
        Draft202012Validator.check_schema(schema)


def test_a_part_that_holds_itself_is_left_to_jsonschema() -> None:
    assert compiled({"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}) is None
    assert compiled({"$ref": "#/elsewhere"}) is None


@settings(max_examples=400)
@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=8))
def test_it_agrees_with_jsonschema(schema: Any, values: list[Any]) -> None:
    check = compiled(schema)
    assert check is not None
    for value in values:
        assert check(value) == Draft202012Validator(schema).is_valid(value), value


@pytest.mark.parametrize(
    "schema",
    [{"oneOf": []}, {"enum": [1]}, {"items": {"$ref": "#"}}, {"format": "date"}, {"type": "word"}, 3],
)
def test_what_it_does_not_know_is_not_compiled(schema: Any) -> None:
    assert compiled(schema) is None


def test_the_output_schemas_of_the_shipped_agents_compile(repository: Path) -> None:
    for path in (repository / "agents/schemas").glob("*.json"):
        assert compiled(json.loads(path.read_text())) is not None, path.name
