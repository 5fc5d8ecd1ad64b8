"""Frozen records: to mypy a frozen dataclass with slots, to the machine a cheaper one.

A frozen dataclass takes five times as long to make one of (each field is set by a detour) and twice as long to define
(six methods are compiled, where one will do). A run makes hundreds of records; a script defines dozens before it says
a word. That nobody changes one is checked by mypy, in all our code, before any of it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen(kind: type[T]) -> type[T]:
    """Make a record of a class with annotated fields: made, compared, hashed and shown by them."""
    made: Any = dataclass(slots=True, repr=False, eq=False)(kind)
    for method in (__eq__, __hash__, __repr__):
        if method.__name__ not in vars(kind):
            setattr(made, method.__name__, method)
    return made  # type: ignore[no-any-return]


@cache
def _compared(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.compare)


def _fields(one: Any) -> tuple[Any, ...]:
    kind: Any = type(one)
    return tuple([getattr(one, name) for name in _compared(kind)])


def __eq__(self: Any, other: object) -> bool:
    return _fields(self) == _fields(other) if type(self) is type(other) else NotImplemented


def __hash__(self: Any) -> int:
    return hash(_fields(self))


def __repr__(self: Any) -> str:
    kind: Any = type(self)
    told = zip(_compared(kind), _fields(self), strict=True)
    return f"{kind.__qualname__}({', '.join(f'{name}={value!r}' for name, value in told)})"
