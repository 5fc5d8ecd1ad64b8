"""What each turn of a trial was worth: the suite's graders run on what stood after it.

A turn is an answer of the model, or a call of a tool on the way to one. `task_progress` is the score that the case
would have had, had the agent stopped there; a tool's call leaves it as it was. `turn_reward` is what the turn added to
it, so the rewards of a trial add up to its score. A turn that nobody can grade has no progress and adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval.grading.graders import grade_unjudged
from eval.grading.own import GraderError
from eval.grading.suite import Case
from telemetry.edge.frozen import frozen


@frozen
class Turn:
    """One turn."""

    turn_number: int
    tool_called: str | None
    information_gain: float | None  # of a tool: 1 for a result not seen before in this trial, else 0
    format_correctness: float | None  # an answer that could be read, a tool that took its arguments
    task_progress: float | None
    turn_reward: float | None


def turn_data(
    calls: Sequence[Mapping[str, Any]], answers: Sequence[Any], case: Case, score: float | None
) -> tuple[Turn, ...]:
    """The turns of a trial from its `llm_call` rows; `answers` are what was read in each, `score` is the trial's."""
    turns: list[Turn] = []
    seen: set[str] = set()
    stood = 0.0
    for number, call in enumerate(calls):
        for tool in call.get("tool_calls") or ():
            new = bool(tool["ok"]) and tool.get("result_sha256") not in seen
            seen.add(str(tool.get("result_sha256")))
            turns.append(
                Turn(len(turns) + 1, tool["tool_name"], float(new), float(tool["ok"]), round(stood, 6), 0.0)
            )
        if call.get("finish_reason") == "tool_calls":  # it asked for tools; that is no answer
            continue
        last = number == len(calls) - 1
        answer = answers[number] if number < len(answers) else None
        now = score if last else progress(case, answer)
        good = (
            None if call.get("error_kind") not in ("parse", None) else float(call.get("error_kind") is None)
        )
        gained = None if now is None else round(now - stood, 6)
        turns.append(Turn(len(turns) + 1, None, None, good, now, gained))
        stood = stood if now is None else now
    return tuple(turns)


def progress(case: Case, answer: Any) -> float | None:
    """The score of a case had this been its output; None where that cannot be told. No judge is asked."""
    if answer is None:
        return None
    output = answer["items"] if isinstance(answer, Mapping) and "items" in answer else answer
    try:
        return grade_unjudged(case.expect, output, case.threshold).score
    except GraderError:
        return None
