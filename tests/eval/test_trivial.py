"""What the same answer to everything passes: by the real graders, by split, without asking anybody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.grading.suite import Case, split
from eval.grading.trivial import NOTHING, trivial_baselines

QUIET: dict[str, Any] = {"grader": "set_f1", "path": "*.id", "values": []}
LOUD: dict[str, Any] = {"grader": "set_f1", "path": "*.id", "values": ["a"]}
JUDGED: dict[str, Any] = {"grader": "llm_judge", "rubric": "as good", "reference": "x"}


def passed(*expect: dict[str, Any], threshold: float = 1.0) -> int:
    found = trivial_baselines([Case("one", {}, expect, threshold=threshold)])[NOTHING]
    return sum(half.passed for half in found.values())


@pytest.mark.parametrize(
    ("expect", "passes"),
    [
        ([QUIET], 1),
        ([LOUD], 0),
        ([{"grader": "absent", "path": ""}], 1),
        ([{"grader": "json_schema", "schema": {"type": "array"}}, LOUD], 0),
        ([JUDGED], 0),
        ([QUIET, JUDGED], 0),
    ],
)
def test_an_empty_answer_passes_what_expects_nothing_and_convinces_no_judge(
    expect: list[dict[str, Any]], passes: int
) -> None:
    assert passed(*expect) == passes


def test_it_passes_at_the_threshold_of_the_case() -> None:
    assert passed(QUIET, LOUD) == 0
    assert passed(QUIET, LOUD, threshold=0.5) == 1


@given(quiet=st.lists(st.booleans(), max_size=30))
def test_every_case_is_counted_once_on_its_own_side(quiet: list[bool]) -> None:
    cases = [Case(f"case-{at:03}", {}, (QUIET if one else LOUD,)) for at, one in enumerate(quiet)]
    found = trivial_baselines(cases)[NOTHING]
    for half, one in found.items():
        right = [expects for at, expects in enumerate(quiet) if split(f"case-{at:03}") == half]
        assert (one.passed, one.total) == (sum(right), len(right))
        assert one.pass_rate == (pytest.approx(sum(right) / len(right), abs=1e-6) if right else None)
    assert sum(half.total for half in found.values()) == len(quiet)


def rates(expects: list[dict[str, Any]]) -> dict[str, float]:
    """The share of these cases that each trivial answer passes."""
    cases = [Case(f"case-{at}", {}, (one,)) for at, one in enumerate(expects)]
    found = trivial_baselines(cases)
    return {name: sum(half.passed for half in halves.values()) / len(cases) for name, halves in found.items()}


def part(grader: str, path: str, **fields: Any) -> dict[str, Any]:
    return {"grader": grader, "path": path, **fields}


@pytest.mark.parametrize(
    ("expects", "everything", "common"),
    [
        ([part("exact", "0.action", value=one) for one in "aaab"], 0.75, 0.75),
        ([part("exact", "answer", value=one) for one in "aaab"], 0.75, 0.75),
        ([part("exact", "", value=one) for one in "aaab"], 0.75, 0.75),
        ([part("contains", "0.text", all=[one]) for one in "aabc"], 1.0, 0.5),
        ([part("set_f1", "*.signal", values=one) for one in (["a"], ["a"], ["b"], ["a", "b"], [])], 0.2, 0.4),
        ([part("set_f1", "*.series:signal", values=[["VIX", "up"]])], 1.0, 1.0),
        ([part("set_f1", "labels", values=["a", "b"])], 1.0, 1.0),
        ([part("exact", "[series=VIX].signal", value="up"), part("exact", "[series=VIX].signal", any_of=["up", "x"])],
         1.0, 1.0),
        ([part("numeric", "0.value", value=3.0, abs=1), part("band", "0.value", low=2.5)], 1.0, 1.0),
        ([part("exact", "0.a", value="x", **{"not": True}), part("exact", "0.b", value=1)], 1.0, 1.0),
    ],
)  # fmt: skip
def test_everything_and_the_most_common_answer_are_made_from_what_the_cases_expect(
    expects: list[dict[str, Any]], everything: float, common: float
) -> None:
    found = rates(expects)
    assert (found["everything"], found["the most common answer"]) == (everything, common)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["exact", "set_f1", "contains", "numeric", "ordering"]),
            st.text("*.[]=:a0,", max_size=8),
        ),
        max_size=6,
    )
)
def test_no_path_however_strange_stops_it(parts: list[tuple[str, str]]) -> None:
    fields = {"value": 1, "values": ["a", ["b", 2], {"c": 1}], "all": ["x"], "abs": 1}
    assert set(rates([part("exact", "0.a", value=1), *(part(name, path, **fields) for name, path in parts)])) == {
        "nothing", "everything", "the most common answer",
    }  # fmt: skip
