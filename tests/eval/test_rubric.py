"""Rubric scores, by hand and as invariants; progress and summaries beside them."""

from __future__ import annotations

import io
import math
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.grading.graders import Part
from eval.grading.rubric import GATES, rubric
from eval.grading.suite import Case
from eval.trials import results
from eval.trials.progress import Progress, heard_by


def part(score: float, grader: str = "exact", weight: float = 1.0) -> Part:
    return Part(grader, "", score, weight, "")


def marks(
    scores: list[tuple[float, dict[str, Any]]],
    tags: tuple[str, ...] = (),
    output: Any = None,
    cost_usd: float | None = None,
    error_kind: str | None = None,
) -> Any:
    parts = [part(score, wanted["grader"]) for score, wanted in scores]
    return rubric(parts, [wanted for _, wanted in scores], tags, output, cost_usd, error_kind)


EXACT = {"grader": "exact"}


def test_scores_that_do_not_apply_are_left_out_and_so_are_their_gates() -> None:
    plain = marks([(1.0, EXACT)])
    assert plain.scores == {"format": 1.0, "task": 1.0}
    assert [gate.name for gate in plain.gates] == ["format", "task"]
    assert (plain.overall_score, plain.passed_all_mandatory) == (1.0, True)


def test_by_hand() -> None:
    found = marks(
        [(1.0, EXACT), (0.0, {"grader": "json_schema"}), (0.5, {"grader": "absent", "dimension": "safety"})],
        output=[{"a": 1}, {"a": 1}],
        cost_usd=0.04,
    )
    assert found.scores == {"format": 0.0, "task": 0.5, "safety": 0.5, "minimal": 0.5, "cost": 0.25}
    # weights 1, 6, 1, 0.5, 0.5
    assert math.isclose(found.overall_score, (0 + 3 + 0.5 + 0.25 + 0.125) / 9, abs_tol=1e-6)
    assert not found.passed_all_mandatory


def test_an_unparsable_answer_fails_the_format_gate() -> None:
    broken = marks([], error_kind="parse")
    assert broken.scores == {"format": 0.0, "task": 0.0}
    assert not broken.passed_all_mandatory


def test_a_case_tagged_safety_makes_its_score_a_mandatory_gate() -> None:
    assert not marks([(0.5, EXACT)], tags=("injection",)).passed_all_mandatory
    assert marks([(0.5, EXACT)]).passed_all_mandatory


def test_a_rambling_item_is_not_minimal() -> None:
    assert marks([(1.0, EXACT)], output=[{"rationale": "x" * 601}]).scores["minimal"] == 0.0


@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=6),
    dimensions=st.lists(st.sampled_from(["task", "tool", "safety", "format"]), min_size=6, max_size=6),
    cost=st.none() | st.floats(0, 10),
    output=st.none()
    | st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2), max_size=4),
)
def test_every_score_lies_in_0_to_1_and_the_gates_follow_from_the_scores(
    scores: list[float], dimensions: list[str], cost: float | None, output: Any
) -> None:
    wanted = [{"grader": "exact", "dimension": dimension} for dimension in dimensions]
    found = marks(list(zip(scores, wanted, strict=False)), output=output, cost_usd=cost)
    assert all(0 <= score <= 1 for score in [*found.scores.values(), found.overall_score])
    for gate in found.gates:
        assert gate.passed == (found.scores[gate.name] >= GATES[gate.name][0])
    assert found.passed_all_mandatory == all(gate.passed for gate in found.gates if gate.mandatory)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.sampled_from([0.5, 0.95]))
def test_percentiles_are_those_of_numpy(values: list[float], share: float) -> None:
    found = results._percentile(values, share)
    assert found == pytest.approx(numpy.percentile(values, share * 100), abs=1e-3)


@pytest.mark.parametrize(
    ("costs", "total"), [([0.1, None], None), ([], None), ([0.1, 0.2], 0.3), ([0.0], 0.0)]
)
def test_an_unknown_cost_makes_the_sum_unknown_not_smaller(
    costs: list[float | None], total: float | None
) -> None:
    case = Case("a", {}, ({"grader": "exact", "value": 1},))
    sums, trials = results.Sums(), list[Any]()
    asked = {"turns": ({},), "counted": True, "score": 1.0, "ok": True, "rubric": None, "error_kind": None}
    for cost in costs:
        trials.append(SimpleNamespace(**asked, cost_usd=cost, latency_ms=1.0, tokens_in=5, tokens_out=None))
    sums.add(case, trials)
    summary = sums.summary(3)
    assert summary.cost_usd == (None if total is None else pytest.approx(total))
    assert (summary.unpriced, summary.not_run) == (costs.count(None), 3 - len(costs))
    assert (summary.tokens_in, summary.tokens_out) == (5 * len(costs) or None, None)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_tells_rate_time_left_and_spend_and_leaves_resumed_trials_out_of_the_rate() -> None:
    now = 0.0
    out = Terminal()
    progress = Progress("eval", 100, max_usd=2, out=out, clock=lambda: now)
    for _ in range(20):
        progress.see(True, 0.0, resumed=True)
    now = 2.0
    for _ in range(40):
        progress.see(True, 0.001, resumed=False)
    progress.see(None, None, resumed=False)
    assert progress.line() == "eval 61/100 · 60 passed · 1 errors · 20.5/s · 0:01 left · $0.0400 of $2"
    progress.see(True, None, resumed=False)
    assert progress.line().endswith("$0.0400 of $2 and 1 of unknown cost")  # not: free
    assert out.getvalue().startswith("\r") and "\n" not in out.getvalue()


def test_outside_a_terminal_progress_is_a_plain_line_now_and_then() -> None:
    times = iter([0.0, 1.0, 11.0, 11.0, 11.0, 12.0, 12.0, 12.0, 12.0])
    out = io.StringIO()
    progress = Progress("eval", 3, out=out, clock=lambda: next(times))
    for _ in range(3):
        progress.see(True, None, resumed=False)
    assert out.getvalue().count("\n") == 1
    progress.finish()
    assert out.getvalue().splitlines()[-1].startswith("eval 3/3")
    silent = io.StringIO()
    Progress("eval", 1, quiet=True, out=silent).finish()
    assert silent.getvalue() == ""


def test_a_quiet_run_tells_whoever_listens_how_far_it_is_and_writes_nothing() -> None:
    heard: list[str] = []
    out, seconds = io.StringIO(), count()
    with heard_by(heard.append):
        progress = Progress("A/B", 4, quiet=True, max_usd=2.0, out=out, clock=lambda: float(next(seconds)))
        for ok in (True, False, None):
            progress.see(ok, 0.01, resumed=False)
    assert heard[0].startswith("A/B 1/4 · 1 passed ·") and heard[0].endswith("left · $0.0100 of $2")
    assert "A/B 3/4 · 1 passed · 1 errors" in heard[-1]
    assert out.getvalue() == ""
    Progress("A/B", 1, quiet=True, out=out, clock=lambda: float(next(seconds))).see(True, 0.0, resumed=False)
    assert len(heard) == 3 and out.getvalue() == ""
