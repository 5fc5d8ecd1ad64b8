"""Plain data: YAML and JSON read strictly, dataclasses as JSON and back, and what counts as a number there."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, read_again

R = TypeVar("R")


# As `metadata` of a field: in JSON its own fields stand among its parent's; a mapping takes the rest, None none.
INLINE: Final = MappingProxyType({"inline": True})
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_NUMBERS: Final = (int, float)  # `int | float` would be made anew for each of a dozen questions a trial


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value can be reckoned with: a finite number, no truth value, no text."""
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def input_hash(payload: Any) -> str:
    """The name of an input on the rows of its runs: equal content has an equal one, whatever the order of keys."""
    import hashlib

    import orjson

    return hashlib.sha256(orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def plain(value: Any) -> Any:
    """A record as what JSON knows: objects, lists, scalars."""
    kind: Any = type(value)
    if kind in _SCALARS:  # nine of ten: asking first halves the time of a report
        return value
    if (parts := _parts(kind)) is not None:
        found: dict[str, Any] = {}
        for name, inline in parts:
            part = getattr(value, name)
            if type(part) not in _SCALARS:
                part = plain(part)
            if inline:
                found |= part or {}
            else:
                found[name] = part
        return found
    if isinstance(value, Mapping):
        return {str(name): one if type(one) in _SCALARS else plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [one if type(one) in _SCALARS else plain(one) for one in value]
    return value


@cache
def _parts(kind: type) -> tuple[tuple[str, bool], ...] | None:
    """The fields of a record and whether they stand among its parent's; None of what is no record."""
    return tuple((one.name, one.metadata == INLINE) for one in fields(kind)) if is_dataclass(kind) else None


def made(kind: type[R], value: Mapping[str, Any]) -> R:
    """The record of that class; a schema has said before that the value has its shape. Unknown fields are left out."""
    hinted: Any = kind
    hints, rest = _hints(hinted), dict(value)
    among = [one.name for one in fields(hinted) if one.metadata == INLINE]
    found = {name: _as(hints[name], rest.pop(name)) for name in hints if name not in among and name in rest}
    for name in among:
        inner = next((one for one in get_args(hints[name]) if is_dataclass(one)), None)
        own = (
            rest
            if inner is None
            else {one.name: rest.pop(one.name) for one in fields(inner) if one.name in rest}
        )
        if own:
            found[name] = _as(hints[name], own)
    return kind(**found)


_hints = cache(get_type_hints)


def _as(hint: Any, value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):  # most are
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return made(hint, value)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _as(next((one for one in inner if one is not types.NoneType), Any), value)
    if origin is tuple and isinstance(value, list):
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_as(inner[0], one) for one in value)
        return tuple(_as(part, one) for part, one in zip(inner, value, strict=True))
    if origin is list and isinstance(value, list):
        return [_as(inner[0], one) for one in value]
    if isinstance(value, Mapping) and isinstance(origin, type) and issubclass(origin, Mapping) and inner:
        return {name: _as(inner[1], one) for name, one in value.items()}
    return value


_TAG = "tag:yaml.org,2002:"


def load_yaml(text: str | bytes) -> Any:
    """The value of a text; bad input, in one line, when it is no such YAML."""
    try:
        return _loaded(text, _plain())
    except ValueError as error:
        raise BadInput(f"not YAML: {error}") from None


def load_json(text: str | bytes) -> Any:
    """The value of a text; a ValueError when it is no JSON, holds half a character, or is nested too deep."""
    import orjson

    return orjson.loads(text)


def read_json(repo: Repo, path: str | Path) -> dict[str, Any] | None:
    """A JSON object below the root; None if there is none to be read."""
    try:
        value = load_json(read_again(repo / path))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def field_value(text: Any) -> Any:
    """What a field says that is no column and so comes as text: its value, or the text where that is no JSON."""
    try:
        return load_json(text) if isinstance(text, str | bytes) else text
    except ValueError:
        return text


def listed(value: Any) -> list[dict[str, Any]]:
    """The objects of a list that somebody else may have written: what is none of that is not there."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def load_terms(text: str) -> Any:
    """The same where only numbers, true and false are special, and of a key given twice the last counts.

    YAML 1.1 would read the term `no` as false. What is no YAML is a ValueError, in one line.
    """
    return _loaded(text, _terms())


# Of nested YAML: its fast loader recurses in C, and a few ten thousand levels end the process.
MAX_DEPTH = 200
MAX_VALUES = 1_000_000  # of a document: a few lines of aliases of aliases are more than anybody lives to read
_BRACKET = re.compile(r"[\[\]{}]")
_BLOCKS = re.compile(rf"(?m)^ {{{MAX_DEPTH}}}|(?:[-?:][ \t]+){{{MAX_DEPTH}}}")


def _too_deep(text: str) -> bool:
    """Whether brackets or blocks are nested deeper than anybody writes; those in a quoted text count, too."""
    depth = 0
    for found in _BRACKET.finditer(text) if text.count("[") + text.count("{") > MAX_DEPTH else ():
        depth = depth + 1 if found[0] in "[{" else max(0, depth - 1)
        if depth > MAX_DEPTH:
            return True
    return _BLOCKS.search(text) is not None


def _written_out(value: Any, known: dict[int, float]) -> float:
    """How many values a document holds if every alias is what it stands for; one within itself never ends."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_written_out(one, known) for one in inner)
    return known[id(value)]


def _loaded(text: str | bytes, by: Any) -> Any:
    import yaml

    written = text if isinstance(text, str) else text.decode(errors="replace")
    if _too_deep(written):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = yaml.load(text, Loader=by)
        if "*" in written and _written_out(value, {}) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} values when its aliases are written out")
        return value
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None


@cache
def _plain() -> Any:
    """The fast safe loader, which also refuses a key given twice: YAML itself would silently keep the last."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Safe YAML without repeated keys."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
                    name = self.construct_object(key)
                    if name in seen:
                        said = f"{key.value!r} is given twice"
                        raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                    seen.add(name)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return mapping

    return _resolving(Loader, lambda tag: tag != f"{_TAG}timestamp")


@cache
def _terms() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Safe YAML in which `no`, `off` and `null` are terms like any other."""

    _resolving(Loader, lambda tag: tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}merge"))
    Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"^(?:true|false)$"), list("tf"))
    return Loader


def _resolving(by: Any, wanted: Any) -> Any:
    """The loader, which takes only plain scalars of the wanted tags for more than text."""
    by.yaml_implicit_resolvers = {
        first: [(tag, test) for tag, test in tests if wanted(tag)]
        for first, tests in by.yaml_implicit_resolvers.items()
    }
    return by
