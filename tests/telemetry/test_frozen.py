"""Records are what frozen dataclasses are, to whoever reads, compares, hashes or copies one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.edge.frozen import frozen


@frozen
class Ours:
    name: str
    size: int = 0
    marks: tuple[int, ...] = ()
    seen: dict[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Theirs:
    name: str
    size: int = 0
    marks: tuple[int, ...] = ()
    seen: dict[str, int] = field(default_factory=dict, compare=False)


_values = st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.tuples(st.integers(0, 1)))


@given(_values, _values)
def test_two_records_are_equal_and_hash_alike_just_when_dataclasses_do(one: tuple, other: tuple) -> None:
    assert (Ours(*one) == Ours(*other)) == (Theirs(*one) == Theirs(*other))
    assert (hash(Ours(*one)) == hash(Ours(*other))) == (hash(Theirs(*one)) == hash(Theirs(*other)))


def test_a_record_is_no_other_class_with_equal_fields() -> None:
    assert Ours("a") != Theirs("a")


def test_what_is_not_compared_makes_no_difference() -> None:
    assert Ours("a", seen={"x": 1}) == Ours("a")


def test_a_record_can_be_copied_with_a_change_and_taken_apart() -> None:
    assert replace(Ours("a"), size=2) == Ours("a", 2)
    assert asdict(Ours("a")) == {"name": "a", "size": 0, "marks": (), "seen": {}}
    assert repr(Ours("a")) == "Ours(name='a', size=0, marks=())"


def test_it_takes_no_field_that_was_not_declared() -> None:
    try:
        Ours("a").other = 1  # type: ignore[attr-defined]
    except AttributeError:
        return
    raise AssertionError("a field was added")


def test_a_method_that_the_class_writes_itself_stays() -> None:
    @frozen
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

    assert repr(Named("x")) == "x"


class Fields:
    """Every kind of field that there is."""

    name: str
    count: int = 3
    parts: list[str] = field(default_factory=list)
    length: int = field(init=False)
    known: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


def made_by(decorator: Any) -> Any:
    names = ("__annotations__", "__post_init__", "count", "parts", "length", "known", "__doc__")
    return decorator(type("Record", (), {name: vars(Fields)[name] for name in names}))


OURS, PLAIN = made_by(frozen), made_by(dataclass(frozen=True, slots=True))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("a",), {}),
        (("a", 5), {}),
        (("a", 5, ["x"]), {}),
        ((), {"name": "abc", "parts": ["y"]}),
        (("a",), {"count": 0}),
    ],
)
def test_it_is_made_as_a_dataclass_is(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    mine, theirs = OURS(*given, **named), PLAIN(*given, **named)
    assert asdict(mine) == asdict(theirs)
    assert asdict(replace(mine, count=9)) == asdict(replace(theirs, count=9))
    assert mine == OURS(*given, **named)
    assert mine != replace(mine, count=9)


@pytest.mark.parametrize(("given", "named"), [((), {}), (("a", 1, [], 4), {}), (("a",), {"other": 1})])
def test_what_a_dataclass_refuses_it_refuses(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (OURS, PLAIN):
        with pytest.raises(TypeError, match="argument"):
            kind(*given, **named)


def test_what_is_made_anew_is_shared_by_no_two() -> None:
    first, second = OURS("a"), OURS("b")
    first.parts.append("mine")
    first.known["mine"] = 1
    assert (second.parts, second.known) == ([], {})


def test_a_record_built_on_another_has_the_fields_of_both() -> None:
    @frozen
    class Base:
        name: str

    @frozen
    class Further(Base):
        count: int = 1

    class Plain(Base):
        def shout(self) -> str:
            return self.name.upper()

    assert Plain("c").shout() == "C", "the first to be made is one of a class that is no record itself"
    assert (Further("a", 2).name, Further("a").count) == ("a", 1)
    assert Base("b") == Base("b")
    assert Base("b") != Further("b")
