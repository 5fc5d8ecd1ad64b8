"""What answering nothing passes: by the real graders, by split, without asking anybody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.grading.suite import Case, split
from eval.grading.trivial import empty_baseline

QUIET: dict[str, Any] = {"grader": "set_f1", "path": "*.id", "values": []}
LOUD: dict[str, Any] = {"grader": "set_f1", "path": "*.id", "values": ["a"]}
JUDGED: dict[str, Any] = {"grader": "llm_judge", "rubric": "as good", "reference": "x"}


def passed(*expect: dict[str, Any], threshold: float = 1.0) -> int:
    found = empty_baseline([Case("one", {}, expect, threshold=threshold)])
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
    found = empty_baseline(cases)
    for half, one in found.items():
        right = [expects for at, expects in enumerate(quiet) if split(f"case-{at:03}") == half]
        assert (one.passed, one.total) == (sum(right), len(right))
        assert one.pass_rate == (pytest.approx(sum(right) / len(right), abs=1e-6) if right else None)
    assert sum(half.total for half in found.values()) == len(quiet)
