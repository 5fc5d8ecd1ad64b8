"""Records cross a file and come back as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry.edge.records import INLINE, made, plain


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    marks: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    rows: tuple[Inner, ...]
    by_name: Mapping[str, Inner]
    best: Inner | None
    span: tuple[int, str]
    words: list[str] = field(default_factory=list)
    about: Mapping[str, Any] = field(default_factory=dict)


_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_INNER = st.builds(Inner, st.text(), st.lists(_FLOATS).map(tuple))
_OUTER = st.builds(
    Outer,
    st.lists(_INNER, max_size=4).map(tuple),
    st.dictionaries(st.text(), _INNER, max_size=4),
    st.none() | _INNER,
    st.tuples(st.integers(), st.text()),
    st.lists(st.text(), max_size=3),
    st.dictionaries(st.text(), st.lists(st.integers() | st.none()), max_size=3),
)


@given(_OUTER)
def test_a_record_survives_its_file(record: Outer) -> None:
    assert made(Outer, json.loads(json.dumps(plain(record)))) == record


def test_a_field_that_the_class_does_not_know_is_left_out() -> None:
    assert made(Inner, {"name": "a", "marks": [1.0], "later": True}) == Inner("a", (1.0,))


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    measured: Figures | None = field(default=None, metadata=INLINE)
    more: Mapping[str, Any] | None = field(default=None, metadata=INLINE)


@dataclass(frozen=True, slots=True)
class Figures:
    runs: int
    mean: float | None


def test_an_inline_record_stands_among_the_fields_of_its_parent_or_not_at_all() -> None:
    for row, wanted in (
        (Row("a", Figures(3, None), {"fills": [1]}), {"name": "a", "runs": 3, "mean": None, "fills": [1]}),
        (Row("a"), {"name": "a"}),
    ):
        assert plain(row) == wanted and made(Row, wanted) == row
