"""Frozen records: to mypy a frozen dataclass with slots, to the machine a cheaper one.

A frozen dataclass takes five times as long to make one of (each field is set by a detour) and thirty times as long to
define: six methods are compiled, where one will do, and that one only when the first record is made. A run makes
hundreds of records; a script defines dozens before it says a word, and needs few of them. That nobody changes one is
checked by mypy, in all our code, before any of it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def frozen(kind: type[T]) -> type[T]:
    """Make a record of a class with annotated fields: made, compared, hashed and shown by them."""
    made: Any = dataclass(slots=True, init=False, repr=False, eq=False)(kind)
    made.__init__ = _compiled_when_called(made)
    for method in (__eq__, __hash__, __repr__):
        if method.__name__ not in vars(kind):
            setattr(made, method.__name__, method)
    return made  # type: ignore[no-any-return]


def _compiled_when_called(kind: Any) -> Callable[..., None]:
    def __init__(self: Any, *given: Any, **named: Any) -> None:
        kind.__init__ = _initialiser(kind)
        kind.__init__(self, *given, **named)

    return __init__


def _initialiser(kind: Any) -> Callable[..., None]:
    """`def __init__(self, a, b=_b): self.a = a; self.b = b`, as a dataclass would have it."""
    known: dict[str, Any] = {"_made_anew": MISSING}
    taken, body = ["self"], ["pass"]
    for one in fields(kind):
        name, value = one.name, one.name
        if one.default_factory is not MISSING:
            known[f"_{name}"] = one.default_factory
            value = f"_{name}() if {name} is _made_anew else {name}" if one.init else f"_{name}()"
            taken += [f"{name}=_made_anew"] * one.init
        elif one.default is not MISSING:
            known[f"_{name}"] = one.default
            taken.append(f"{name}=_{name}")
        elif one.init:
            taken.append(name)
        else:
            continue  # `__post_init__` sets it
        body.append(f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(taken)}): {'; '.join(body)}", known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


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
