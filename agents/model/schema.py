"""Does a value match a JSON Schema? Validators are built once per schema; answers name the field."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agents.model.fast_schema import compiled

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

MAX_PROBLEMS = 5  # shown of one value: enough to mend it, short enough to read
MAX_VALUE = 80  # characters of an offending value quoted in a message


def listed(item: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an answer: an object (endpoints insist on one) whose `items` each match `item`."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["items"],
        "properties": {"items": {"type": "array", "items": dict(item)}},
    }


def problems(schema: Mapping[str, Any], value: object) -> list[str]:
    """What is wrong with `value`, field by field; empty when it matches."""
    found: list[str] = []
    for error in errors(schema, value):
        where = ".".join(map(str, error.absolute_path)) or "answer"
        found.append(f"{where}: {cut(error.message)}")
        if len(found) == MAX_PROBLEMS:
            break
    return found


def errors(schema: Mapping[str, Any], value: object) -> Iterator[ValidationError]:
    """The validation errors themselves, for callers that word them differently."""
    key = _key(schema)
    fast = _fast(key)
    if fast is None or not fast(value):
        yield from _validator(key).iter_errors(value)


def schema_problem(schema: object) -> str | None:
    """Why `schema` is not a JSON Schema, or None. One that compiles is one."""
    if isinstance(schema, Mapping) and _fast(_key(schema)) is not None:
        return None
    return _schema_problem(json.dumps(schema, sort_keys=True))


def cut(text: str) -> str:
    """A message short enough for one line."""
    return text if len(text) <= 2 * MAX_VALUE else f"{text[:MAX_VALUE]} ... {text[-MAX_VALUE:]}"


def _key(schema: Mapping[str, Any]) -> bytes:
    """The schema's text names its validator: equal schemas share one, whoever holds them."""
    import orjson

    return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)


@functools.lru_cache(maxsize=512)
def _fast(key: bytes) -> Callable[[Any], bool] | None:
    return compiled(json.loads(key))


@functools.lru_cache(maxsize=512)
def _validator(key: bytes) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(key))


@functools.lru_cache(maxsize=512)
def _schema_problem(text: str) -> str | None:
    from jsonschema import Draft202012Validator, SchemaError

    schema = json.loads(text)
    if not isinstance(schema, dict):
        return "must be a JSON object"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as problem:
        return cut(problem.message)
    return None
