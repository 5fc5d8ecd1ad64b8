"""Records are what frozen dataclasses are, to whoever reads, compares, hashes or copies one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

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
