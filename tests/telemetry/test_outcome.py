"""What a run came to: every field follows from what was seen, and what was not seen is null."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.model.call import Completion, log_call
from telemetry import logger
from telemetry.record.outcome import FIELDS, Facts, Iteration, ToolCall, came_to
from telemetry.record.run import instrument_agent_call_async, record_tool_call
from tests.worlds import world

PLAIN = Facts(latency_ms=12.0, tokens_in=900, tokens_out=100, error_kind=None)


def test_a_plain_run_that_ended_well() -> None:
    found = came_to(PLAIN)
    assert tuple(found) == FIELDS
    assert (found["success"], found["partial_success"], found["failure_reason"]) == (True, False, None)
    assert (found["tokens_used"], found["tool_call_count"], found["tool_call_success_rate"]) == (
        1000,
        0,
        None,
    )
    assert (found["quality_score"], found["token_efficiency"], found["iterations"]) == (None, None, None)
    assert found["final_metrics"] == {
        "total_latency": 12.0,
        "total_tokens": 1000,
        "final_quality": None,
        "iterations_used": 1,
    }


def test_unknown_tokens_are_no_tokens_used() -> None:
    assert came_to(replace(PLAIN, tokens_out=None))["tokens_used"] is None


@pytest.mark.parametrize(
    ("kind", "budgeted", "gates", "within", "compliant"),
    [
        (None, False, None, None, True),
        (None, True, None, True, True),
        (None, True, False, True, False),
        ("budget", True, None, False, False),
        ("parse", True, None, True, False),
        ("provider", True, None, True, None),
    ],
)
def test_who_kept_budget_and_gates(
    kind: str | None, budgeted: bool, gates: bool | None, within: bool | None, compliant: bool | None
) -> None:
    found = came_to(replace(PLAIN, error_kind=kind, budgeted=budgeted, gates_held=gates))
    assert (found["budget_compliant"], found["compliant"]) == (within, compliant)
    assert found["failure_reason"] == kind


def test_tools_are_counted_by_name() -> None:
    calls = [ToolCall("lookup", 10.0, True), ToolCall("lookup", 20.0, False), ToolCall("add", 1.0, True)]
    found = came_to(replace(PLAIN, tools=calls))
    assert (found["tool_call_count"], found["tool_call_success_rate"]) == (3, pytest.approx(2 / 3))
    assert found["tools_used"] == [
        {"tool_name": "add", "call_count": 1, "success_rate": 1.0, "average_latency": 1.0},
        {"tool_name": "lookup", "call_count": 2, "success_rate": 0.5, "average_latency": 15.0},
    ]


def test_a_run_that_never_got_good_enough_is_a_partial_success() -> None:
    tries = [Iteration(n, 5.0, 500, 0.25 * n, "better", "below") for n in (1, 2)]
    found = came_to(replace(PLAIN, iterations=tries))
    assert (found["success"], found["partial_success"], found["failure_reason"]) == (
        False,
        True,
        "below_threshold",
    )
    assert (found["quality_score"], found["token_efficiency"]) == (0.5, 0.5)
    assert found["final_metrics"]["iterations_used"] == 2


def test_rows_of_a_task_say_so_and_the_outer_word_stands(root: Path) -> None:
    async def work() -> list[Any]:
        record_tool_call(ToolCall("lookup", 0.0, True))
        log_call(Completion([], "[]", "m", "m", "p", 1, 1))
        return []

    with logger.task(task_id="t1", tenant_id="acme"), logger.task(task_id="t2", task_type="triage"):
        asyncio.run(instrument_agent_call_async("a", work))
    logger.log_event("a", "r", 1.0)
    call, run, other = world.rows(root, None)
    for row in (call, run):
        about = [row[name] for name in ("task_id", "task_type", "complexity", "tenant_id")]
        assert about == ["t1", "triage", None, "acme"]
    assert run["time_to_first_action"] >= 0
    assert other["task_id"] is None
    assert set(FIELDS) <= run.keys()


def test_a_secret_in_the_name_of_a_task_is_not_written(root: Path) -> None:
    with logger.task(task_id="sk-abcdefghijklmnopqrstuvwx"):
        logger.log_event("a", "r", 1.0)
    assert b"abcdefghijkl" not in (root / logger.LOG_PATH).read_bytes()


def test_a_complexity_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed are trivial"), logger.task(complexity="hard"):
        raise AssertionError
