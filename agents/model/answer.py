"""Finds the JSON that was asked for among prose and fences, and checks it against its schema."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agents.model.schema import checker, made_once, problems, schema_problem
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen

# What OpenAI's strict mode takes, by its guide to structured outputs; imitators take no more.
_TAKEN = {
    *(
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "$ref",
        "description",
    ),
    *(
        "title",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ),
    *("minItems", "maxItems"),
}
_COMBINED = {
    *("allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
    "patternProperties",
}
MAX_CANDIDATES = 50  # places where JSON may begin that are tried: a hostile text must not cost quadratic time

# How open models show their reasoning; templates of some write where it begins into the question.
_THOUGHT = re.compile(r"\A.*?(?:</think(?:ing)?>|\[/THINK\])", re.DOTALL)
_THINKS = re.compile(r"<think(?:ing)?>|\[THINK\]")
_BEGINS = re.compile(r"[{\[]")
_EVIDENT = re.compile(r'[\[\s]*\{\s*"(?:[^"\\]|\\.)*"\s*:')  # a JSON object, or a list of them: no prose


class Unusable(Exception):
    """The text holds no answer that fits; the message says what is wrong, in words a model can act on."""


@frozen
class Contract:
    """A schema, made ready once: its text, its check, and what endpoints want to know of it."""

    schema: Mapping[str, Any] | None
    text: str
    fits: Callable[[Any], bool] | None
    is_object: bool  # the answer is an object: what response formats of endpoints can express
    # As strict mode takes it: the rest is checked here; None if it takes none of it.
    strict: Mapping[str, Any] | None


ANY_JSON = Contract(None, "", None, is_object=False, strict=None)


def contract(schema: Mapping[str, Any] | None) -> Contract:
    """The contract of a schema; None asks for JSON of any shape."""
    return ANY_JSON if schema is None else _contract(schema)


@made_once
def _contract(schema: Mapping[str, Any]) -> Contract:
    import orjson

    return _compiled(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS))


@functools.lru_cache(maxsize=256)
def _compiled(encoded: bytes) -> Contract:
    schema = json.loads(encoded)
    problem = schema_problem(schema)
    if problem is not None:
        raise BadInput(f"output schema: {problem}")
    is_object = schema.get("type") == "object"
    strict = _taken(schema) if is_object and _strict(schema) else None
    return Contract(schema, encoded.decode(), checker(schema), is_object, strict)


def _taken(schema: Any) -> Any:
    """The schema without what strict mode refuses, such as `minLength`."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            found[key] = {name: _taken(one) for name, one in value.items()}
        elif key == "anyOf":
            found[key] = [_taken(one) for one in value]
        elif key in _TAKEN:
            found[key] = _taken(value) if key == "items" else value
    return found


def _strict(schema: Any) -> bool:
    """Whether every object in the schema closes its properties and requires them all, and nothing is combined."""
    if isinstance(schema, list):
        return all(map(_strict, schema))
    if not isinstance(schema, dict):
        return True
    if not _COMBINED.isdisjoint(schema):
        return False
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties")
        closed = schema.get("additionalProperties") is False
        if not (closed and properties and set(schema.get("required", ())) == set(properties)):
            return False
    return all(_strict(value) for key, value in schema.items() if key not in ("enum", "const", "default"))


def parse(text: str, wanted: Contract) -> Any:
    """The JSON in `text` that fits the contract; raises Unusable."""
    text = text.strip().lstrip("\ufeff")
    whole = _loads(text)
    if whole is _NOTHING and not _EVIDENT.match(text):
        text = _THOUGHT.sub("", text, count=1).strip()
        whole = _loads(text)
    if whole is not _NOTHING:
        return _checked(whole, wanted)
    if _THINKS.match(text):
        raise Unusable("the answer is reasoning without an end")
    found = list(_inside(text))
    if not found:
        raise Unusable("the answer holds no JSON" if text else "the answer is empty")
    fitting = [value for value in found if wanted.fits and wanted.fits(value)]
    if not fitting:
        return _checked(max(found, key=lambda value: len(json.dumps(value))), wanted)
    if any(value != fitting[0] for value in fitting):
        raise Unusable(f"the answer holds {len(fitting)} different JSON values that fit; give exactly one")
    return fitting[0]


def _checked(value: Any, wanted: Contract) -> Any:
    if wanted.fits is None:
        if not isinstance(value, dict | list):
            raise Unusable("the answer is a bare value; an object or array is due")
        return value
    if wanted.fits(value):
        return value
    assert wanted.schema is not None
    raise Unusable(f"the answer breaks the schema: {'; '.join(problems(wanted.schema, value))}")


def _inside(text: str) -> Iterator[Any]:
    """Every outermost JSON object or array in the text, from left to right; raises Unusable at a broken one.

    Behind a broken one nothing can be trusted: what follows may be a part of it that happens to be whole.
    """
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(MAX_CANDIDATES):
        begins = _BEGINS.search(text, at)
        if begins is None:
            return
        at = begins.start()
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as problem:
            if _EVIDENT.match(text, at):
                raise Unusable("the answer holds JSON that is broken or cut off") from problem
            at += 1  # a bracket of the prose
            continue
        value = _loads(text[at:end])
        if value is _NOTHING:  # what Python reads and JSON forbids
            raise Unusable("the answer holds JSON that is broken: NaN, Infinity or half a character")
        yield value
        at = end


_NOTHING = object()


def _loads(text: str) -> Any:
    """Strict JSON: no NaN, no lone surrogates, bounded depth; `_NOTHING` when it is none."""
    import orjson

    try:
        return orjson.loads(text)
    except (ValueError, RecursionError):  # orjson's own error is a ValueError; so is an unencodable text
        return _NOTHING
