"""Turns of a trial: graded one by one, their rewards add up to the score."""

from __future__ import annotations

from typing import Any

import pytest

from eval.grading.suite import Case
from eval.trials.turns import progress, turn_data

EXPECT = [{"grader": "exact", "path": "0.a", "value": 1}, {"grader": "exact", "path": "0.b", "value": 2}]
CASE = Case("c1", {}, tuple(EXPECT))
STOP: dict[str, Any] = {"finish_reason": "stop", "error_kind": None}


def test_rewards_of_the_turns_add_up_to_the_score() -> None:
    answers = [{"items": [{"a": 1}]}, {"items": [{"a": 1, "b": 2}]}]
    turns = turn_data([STOP, STOP], answers, CASE, 1.0)
    assert [(turn.task_progress, turn.turn_reward) for turn in turns] == [(0.5, 0.5), (1.0, 0.5)]
    assert sum(turn.turn_reward or 0 for turn in turns) == 1.0


def test_a_tool_is_a_turn_that_may_bring_something_new() -> None:
    asked = {"finish_reason": "tool_calls", "error_kind": None}
    tool = {"tool_name": "lookup", "ok": True, "result_sha256": "x"}
    answered = STOP | {"tool_calls": [tool, tool, tool | {"ok": False, "result_sha256": "y"}]}
    turns = turn_data([asked, answered], [None, {"items": []}], CASE, 0.5)
    assert [turn.tool_called for turn in turns] == ["lookup", "lookup", "lookup", None]
    assert [turn.information_gain for turn in turns] == [1.0, 0.0, 0.0, None]
    assert [turn.turn_number for turn in turns] == [1, 2, 3, 4]
    assert [turn.turn_reward for turn in turns] == [0.0, 0.0, 0.0, 0.5]


def test_what_cannot_be_graded_is_unknown_and_adds_nothing() -> None:
    lost = {"finish_reason": None, "error_kind": "timeout"}
    turns = turn_data([STOP | {"error_kind": "parse"}, lost], [None, None], CASE, None)
    assert [(turn.format_correctness, turn.task_progress, turn.turn_reward) for turn in turns] == [
        (0.0, None, None),
        (None, None, None),
    ]


@pytest.mark.parametrize(
    ("answer", "score"), [({"items": [{"a": 1}]}, 0.5), ([{"a": 1, "b": 2}], 1.0), (None, None)]
)
def test_an_answer_is_graded_as_the_output_it_would_have_been(answer: Any, score: float | None) -> None:
    assert progress(CASE, answer) == score
