"""Promises of meta/offline/rule_{text,moves}.py: one rule changes, everything else stays."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.offline import rules
from agents.offline.rules import Analyst, Key
from meta.offline import rule_text
from meta.offline.rule_moves import moves
from meta.offline.term_mining import mine
from meta.proposals.edits import Edit, EditError, applied, changed_lines

# Places are told by the terms of each; what is negated is a false alarm.
PLACES = Analyst(
    lambda rules, payload: {},
    {
        "near_coast": Key("terms", (), "most hits decide", in_text=True, mends=('expected "coast"',)),
        "near_hills": Key("terms", (), "most hits decide", in_text=True, mends=('expected "hills"',)),
        "negation_cues": Key(
            "terms", (), "what follows did not happen", in_text=True, mends=("false alarm",)
        ),
    },
)
TEXT = """# Agent

Text with `above: 1` in it.

```rules
analyst: threshold   # who
above: 0.18          # a fraction
only: [VIX, "no"]
weights: {war: 60, coup: 70}
terms:
  - one term
  - other*
map:
  war: 60
  peace*: 5
```

## End
"""


@pytest.mark.parametrize(
    ("key", "value", "lines"),
    [
        ("above", 0.2, ["-above: 0.18          # a fraction", "+above: 0.2          # a fraction"]),
        ("only", ["VIX", "no", "DXY"], ['-only: [VIX, "no"]', "+only: [VIX, no, DXY]"]),
        ("weights", {"war": 60}, ["-weights: {war: 60, coup: 70}", "+weights: {war: 60}"]),
        ("terms", ["one term", "other*", "third"], ["+  - third"]),
        ("terms", ["other*"], ["-  - one term"]),
        ("map", {"war": 50, "peace*": 5}, ["-  war: 60", "+  war: 50"]),
        ("map", {"war": 60, "peace*": 5, "new: one": 7}, ['+  "new: one": 7']),
        ("below", 3, ["+below: 3"]),
        ("flag", True, ["+flag: yes"]),
    ],
)
def test_only_the_lines_of_a_change_change(key: str, value: Any, lines: list[str]) -> None:
    after = applied(TEXT, [rule_text.set_value(TEXT, key, value)])
    assert changed_lines(TEXT, after) == lines
    assert rules.read(after).values == {**rules.read(TEXT).values, key: "yes" if value is True else value}


def test_a_dropped_key_takes_its_lines_along() -> None:
    after = applied(TEXT, [rule_text.set_value(TEXT, "map", None)])
    assert changed_lines(TEXT, after) == ["-map:", "-  war: 60", "-  peace*: 5"]


@pytest.mark.parametrize(("search", "count"), [("nowhere", 0), ("war: 60", 2), ("", None)])
def test_an_edit_that_is_not_unique_is_refused(search: str, count: int | None) -> None:
    with pytest.raises(EditError, match="nothing" if count is None else f"{count} times"):
        applied(TEXT, [Edit(search, "x")])


values = st.one_of(
    st.integers(-1000, 1000),
    st.floats(-100, 100, allow_nan=False).map(lambda number: float(f"{number:g}")),
    st.lists(st.text(st.characters(codec="ascii", categories=("L", "N", "P", "Zs")), min_size=1), max_size=4),
    st.dictionaries(
        st.text(st.characters(categories=("L",)), min_size=1), st.integers(0, 99), min_size=1, max_size=4
    ),
)


@given(st.sampled_from(["above", "only", "weights", "terms", "map", "fresh"]), values)
def test_whatever_is_set_is_read_back_and_nothing_else_changes(key: str, value: Any) -> None:
    try:
        after = applied(TEXT, [rule_text.set_value(TEXT, key, value)])
    except EditError:
        return
    read, before = rules.read(after), rules.read(TEXT)
    if read.problems or "\\" in str(value) or '"' in str(value) or "'" in str(value):
        return  # such a text is refused by the checks before it is kept
    assert {name: one for name, one in read.values.items() if name != key} == {
        name: one for name, one in before.values.items() if name != key
    }


def test_terms_are_mined_where_they_tell_failures_from_the_rest() -> None:
    wrong = [
        {"input": {"text": f"Strike on {place} called off"}, "reasons": ["false alarm"]}
        for place in ("Goma", "Riga")
    ]
    right = [{"input": {"text": "Strike on Goma kills nine"}}]
    found = [one.term for one in mine(wrong, right, words=2, least=2)]
    assert found[0] in ("called", "called off", "off")
    assert "strike" in found and "nine" not in found


def test_moves_follow_the_reasons_of_the_failures() -> None:
    prompt = "```rules\nanalyst: places\nnegation_cues: [no]\nnear_coast: [Riga]\n```\n"
    case = {
        "input": {"text": "Clashes near Goma again"},
        "reasons": ['exact place: "hills", expected "coast"'],
    }
    mined = mine([case, case], [], words=1, least=2)[:9]
    found = moves(rules.read(prompt).values, {"places": PLACES}, [case, case], mined, random.Random(1))
    told = [move.told for move in found]
    assert "near_coast with 'Goma'" in told
    assert not any(name.startswith(("near_hills with", "negation_cues with")) for name in told)
