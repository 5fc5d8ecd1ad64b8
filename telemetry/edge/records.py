"""Plain data: dataclasses as JSON and back, and what counts as a number there."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

R = TypeVar("R")


# As `metadata` of a field: in JSON its own fields stand among its parent's; a mapping takes the rest, None none.
INLINE: Final = MappingProxyType({"inline": True})


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value can be reckoned with: a finite number, no truth value, no text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def plain(value: Any) -> Any:
    """A record as what JSON knows: objects, lists, scalars."""
    if is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for one in fields(value):
            part = plain(getattr(value, one.name))
            found |= (part or {}) if one.metadata == INLINE else {one.name: part}
        return found
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


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
    if value is None:
        return None
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
