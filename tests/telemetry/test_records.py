"""Records cross a file and come back as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.edge.errors import BadInput
from telemetry.edge.records import INLINE, load_json, load_yaml, made, plain


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


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 50_000,
        "- " * 50_000,
        "? " * 50_000,
        "\n".join(f"{' ' * n}a:" for n in range(2000)),
    ],
    ids=["lists", "mappings", "items", "keys", "blocks"],
)
def test_yaml_that_would_end_the_process_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"nested deeper than 200 levels$"):
        load_yaml(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '"\\ud800"', "[NaN]", "1e999", ""])
def test_json_that_cannot_be_written_again_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="line 1 column"):
        load_json(text)


BOMB = "a: &a [x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 4)}]\n" for a, b in pairwise("abcdefghijkl")
)


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]\n", "a: &a {b: *a}\n"])
def test_aliases_that_would_never_end_when_written_out_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="values when its aliases are written out"):
        load_yaml(text)
    assert load_yaml("a: &x [1]\nb: *x\n") == {"a": [1], "b": [1]}
