"""The judge sees no names, is asked in both orders, and stops at its budget."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from agents.model.call import LLMError, Model
from agents.offline.model import OfflineModel, UnknownTask
from eval.grading.graders import grade
from eval.grading.judge import Judge, JudgeStopped, JudgeUnread, grade_judged
from telemetry.logger import INFRASTRUCTURE

EXPECT = [
    {"grader": "exact", "path": "0.region", "value": "europe"},
    {"grader": "llm_judge", "path": "0.rationale", "rubric": "Names the cause", "reference": "GOOD cause"},
]


class FakeModel(Model):
    """Answers by a rule on the two answers, and remembers what it was asked."""

    def __init__(self, rule: Callable[[str, str], str]) -> None:
        self.rule, self.asked = rule, list[dict[str, Any]]()

    async def complete(self, messages: Any, **_: Any) -> Any:
        question: dict[str, Any] = json.loads(messages[1]["content"])
        self.asked.append(question)
        verdict = self.rule(question.get("answer_1", ""), question.get("answer_2", ""))
        return SimpleNamespace(data={"verdict": verdict, "reason": "because"})


def judged(model: FakeModel, rationale: str, **options: Any) -> Any:
    output = [{"region": "europe", "rationale": rationale}]
    return asyncio.run(grade_judged(EXPECT, output, {"as_of": "x"}, Judge(model, **options)))


def test_better_or_as_good_in_both_orders_is_right() -> None:
    by_length = FakeModel(lambda a, b: "tie" if len(a) == len(b) else "1" if len(a) > len(b) else "2")
    assert judged(by_length, "a longer and better cause").ok
    assert judged(by_length, "same size!").ok
    assert not judged(by_length, "short").ok


def test_a_judge_that_prefers_a_place_counts_half() -> None:
    first = FakeModel(lambda a, b: "1")
    made = judged(first, "whatever")
    assert made.parts[1].score == 0.5
    assert not made.ok


@pytest.mark.parametrize(
    ("turned", "verdict", "score"), [(False, "yes", 1), (False, "no", 0), (True, "yes", 0)]
)
def test_without_a_reference_it_is_asked_once_whether_the_rubric_is_met(
    turned: bool, verdict: str, score: float
) -> None:
    model = FakeModel(lambda a, b: verdict)
    wanted = {"grader": "llm_judge", "path": "0", "rubric": "is polite", "not": turned}
    made = asyncio.run(grade_judged([wanted], ["Hello!"], {"as_of": "x"}, Judge(model)))
    [question] = model.asked
    assert (question["rubric"], question["answer"], made.score) == ("is polite", "Hello!", score)
    assert "answer_1" not in question


def test_a_comparison_can_be_turned_round() -> None:
    wanted = [{**EXPECT[1], "not": True}]
    output = [{"rationale": "short"}]
    by_length = FakeModel(lambda a, b: "1" if len(a) > len(b) else "2")
    assert asyncio.run(grade_judged(wanted, output, {}, Judge(by_length))).ok


def test_what_a_rubric_means_the_offline_model_does_not_know() -> None:
    with pytest.raises(UnknownTask):
        asyncio.run(Judge(OfflineModel()).check("task", "is polite", "Hello!"))


def test_both_orders_are_asked_and_neither_is_named() -> None:
    model = FakeModel(lambda a, b: "tie")
    judged(model, "ours")
    assert sorted(question["answer_1"] for question in model.asked) == ["GOOD cause", "ours"]
    assert all(set(q) == {"task", "case", "rubric", "answer_1", "answer_2"} for q in model.asked)


def test_which_order_comes_first_is_drawn_from_the_seed() -> None:
    def first(seed: int) -> str:
        model = FakeModel(lambda a, b: "tie")
        judged(model, "ours", seed=seed)
        return str(model.asked[0]["answer_1"])

    assert {first(seed) for seed in range(20)} == {"ours", "GOOD cause"}
    assert first(3) == first(3)


def test_a_spent_budget_is_no_loss_but_an_error_of_its_own_kind() -> None:
    model = FakeModel(lambda a, b: "tie")
    with pytest.raises(JudgeStopped) as stopped:
        judged(model, "ours", max_calls=1)
    assert stopped.value.error_kind == "budget"
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("kind", "told"), [("parse", "provider"), ("agent", "provider"), ("timeout", "timeout")]
)
def test_a_judge_without_a_verdict_is_nobodys_loss(kind: str, told: str) -> None:
    class Broken(Model):
        async def complete(self, messages: Any, **_: Any) -> Any:
            raise LLMError("no verdict", kind)

    wanted = {"grader": "llm_judge", "path": "", "rubric": "is polite"}
    with pytest.raises((JudgeUnread, LLMError), match="no verdict") as caught:
        asyncio.run(grade_judged([wanted], ["Hello!"], {}, Judge(Broken())))
    assert caught.value.error_kind == told and told in INFRASTRUCTURE


def test_stored_judgements_grade_again_without_a_model() -> None:
    made = judged(FakeModel(lambda a, b: "tie"), "ours")
    output: list[Mapping[str, Any]] = [{"region": "europe", "rationale": "ours"}]
    assert grade(EXPECT, output, judged={1: made.parts[1]}) == made


def test_a_missing_answer_is_not_worth_a_call() -> None:
    model = FakeModel(lambda a, b: "tie")
    made = asyncio.run(grade_judged(EXPECT, [], {}, Judge(model)))
    assert (made.score, model.asked) == (0.0, [])


@pytest.mark.parametrize(
    ("ours", "score"),
    [("names both venues and fees", 1.0), ("a good deal", 0.0), ("fees of the named venues", 1.0)],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_offline_judge_looks_at_the_rubric_and_not_at_the_order(
    ours: str, score: float, seed: int
) -> None:
    judge = Judge(OfflineModel(), seed=seed)
    reference = "the venues and their fees"
    rubric = "names the venues and the fees"
    assert asyncio.run(judge.compare("task", rubric, ours, reference))[0] == score
    assert asyncio.run(judge.compare("task", rubric, ours, ours))[0] == 1.0
