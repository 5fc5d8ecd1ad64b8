"""Checks values against JSON Schema, for everyone: validators are built once per schema, and faults name the field."""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_PROBLEMS = 5  # shown of one value: enough to mend it, short enough to read
MAX_VALUE = 80  # characters of an offending value quoted in a message
MAX_DEPTH = 250  # lists and objects inside each other: the validator recurses, and words no more than 255
LATELY = 64  # schemas that need not even be named again
_HOLDERS = (dict, list, tuple)

T = TypeVar("T")


@frozen
class Fault:
    """One way in which a value breaks its schema."""

    path: tuple[str | int, ...]
    keyword: str
    rule: Mapping[str, Any]  # the part of the schema that holds the keyword
    value: Any
    said: str

    def at(self, top: str) -> str:
        """Where it is: `items.0.score`, or `top` for the value as a whole."""
        return ".".join(map(str, self.path)) or top


def record(**fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with these fields, all of them, and no others."""
    return {"type": "object", "additionalProperties": False, "required": [*fields], "properties": fields}


def array(item: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a list of such items."""
    return {"type": "array", "items": dict(item)}


def text(*choices: str, **more: Any) -> dict[str, Any]:
    """The schema of a text, or of one of these words."""
    return {"type": "string", **({"enum": list(choices)} if choices else {}), **more}


def listed(item: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an answer: an object (endpoints insist on one) whose `items` each match `item`."""
    return record(items=array(item))


def problems(schema: Mapping[str, Any], value: object) -> list[str]:
    """What is wrong with `value`, field by field; empty when it matches."""
    found = islice(faults(schema, value), MAX_PROBLEMS)
    return [f"{fault.at('answer')}: {cut(fault.said)}" for fault in found]


def checker(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Tells whether a value matches the schema; for values fresh from `orjson`, which bounds their depth (1,024)."""
    return validator(schema).is_valid


def faults(schema: Mapping[str, Any], value: object) -> Iterator[Fault]:
    """Every fault, for callers that word them differently."""
    check = validator(schema)
    if _too_deep(value):
        yield Fault((), "", schema, None, f"more than {MAX_DEPTH} lists and objects inside each other")
        return
    try:
        if check.is_valid(value):
            return
        found = list(check.iter_errors(value))
    except ValueError as refused:  # a set, a number as a key, half a character
        yield Fault((), "", schema, None, f"not JSON: {refused}")
        return
    for error in found:
        *above, keyword = error.schema_path or [""]
        rule, held = _inside(schema, above), _inside(value, error.instance_path)
        yield Fault(
            tuple(error.instance_path),
            str(keyword),
            rule if isinstance(rule, Mapping) else {},
            error.instance,
            _said(error, held),
        )


def made_once(make: Callable[[Mapping[str, Any]], T]) -> Callable[[Mapping[str, Any]], T]:
    """Keeps what was made of a schema for the next who brings the same object: to name it by its text costs more
    than to check an answer. Nobody changes a schema that was in use.
    """
    known: dict[int, tuple[Mapping[str, Any], T]] = {}  # the schema is held, so that its id stays its own

    @functools.wraps(make)
    def found(schema: Mapping[str, Any]) -> T:
        if (entry := known.get(id(schema))) is None:
            if len(known) >= LATELY:
                known.clear()
            entry = known[id(schema)] = (schema, make(schema))
        return entry[1]

    return found


@made_once
def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """The validator of a schema: equal schemas share one, whoever holds them. Bad input if it is no schema."""
    import orjson

    return _validator(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS))


def schema_problem(schema: object) -> str | None:
    """Why `schema` is not a JSON Schema, or None."""
    if not isinstance(schema, Mapping):
        return "must be a JSON object"
    try:
        validator(schema)
    except (BadInput, TypeError) as problem:  # TypeError: a number that no schema needs, beyond 64 bits
        return str(problem)
    return None


@functools.lru_cache(maxsize=64)
def read_schema(path: Path) -> dict[str, Any]:
    """The schema in a file that comes with the code."""
    schema: dict[str, Any] = json.loads(path.read_bytes())
    return schema


def cut(text: str) -> str:
    """A message short enough for one line."""
    return text if len(text) <= 2 * MAX_VALUE else f"{text[:MAX_VALUE]} ... {text[-MAX_VALUE:]}"


@functools.lru_cache(maxsize=512)
def _validator(key: bytes) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, ValidationError

    try:
        return Draft202012Validator(json.loads(key), validate_formats=False, retriever=_nothing_from_outside)
    except (ValidationError, ValueError) as problem:
        raise BadInput(cut(getattr(problem, "message", str(problem)))) from None


def _nothing_from_outside(uri: str) -> Any:
    """A schema may come from a proposal: nothing is fetched for it, no file read."""
    raise ValueError(f"{uri}: a schema may only refer to itself")


def _too_deep(value: Any, left: int = MAX_DEPTH - 1) -> bool:
    if left < 0:
        return True
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, _HOLDERS) else ()
    for part in parts:  # noqa: SIM110 - half the time of a generator
        if isinstance(part, _HOLDERS) and _too_deep(part, left - 1):
            return True
    return False


def _said(error: ValidationError, held: object) -> str:
    if isinstance(held, float) and not math.isfinite(held):
        return f"{held} is no JSON number"
    if error.kind.name == "enum":  # the validator's own words leave out all but the first options
        return f"{json.dumps(error.instance)} is not one of {json.dumps(error.kind.value)}"
    if error.kind.name == "falseSchema":
        return "must not be given" if error.instance_path else "no property is allowed here"
    return error.message


def _inside(value: Any, path: Iterable[str | int]) -> Any:
    return functools.reduce(operator.getitem, path, value)
