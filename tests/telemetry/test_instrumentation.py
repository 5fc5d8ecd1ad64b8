"""One instrumented call, one row, with the usage of exactly the model calls made inside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry.logger import LOG_PATH
from telemetry.record.run import current_run, instrument_agent_call_async, record_model_call

CALL = {"tokens_in": 100, "tokens_out": 10, "cost_usd": 0.01, "cost_source": "price_list"}
CALL |= {"price_list_version": "p1", "model": "m", "provider": "openai"}


def run(agent: str, work: Callable[[], Any], **fields: Any) -> Any:
    async def once() -> Any:
        return work()

    return asyncio.run(instrument_agent_call_async(agent, once, **fields))


def rows(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / LOG_PATH).read_text().splitlines()]


def test_a_call_is_one_row_with_signal_and_reward(root: Path) -> None:
    output = run("geo", lambda: [{"risk_score": 60}], all_calls_counted=True)
    (row,) = rows(root)
    assert output == [{"risk_score": 60}]
    assert row["signal_strength"] == 0.6 and 0.55 < row["reward"] <= 0.6
    assert (row["cost_usd"], row["cost_source"]) == (0.0, "provider")


def test_usage_of_the_model_calls_inside_is_summed(root: Path) -> None:
    def work() -> list[Any]:
        record_model_call(CALL)
        record_model_call(CALL)
        return []

    run("geo", work)
    (row,) = rows(root)
    assert (row["tokens_in"], row["tokens_out"]) == (200, 20)
    assert row["cost_usd"] == pytest.approx(0.02)
    assert (row["cost_source"], row["model"], row["price_list_version"]) == ("price_list", "m", "p1")


def test_one_unpriced_call_makes_the_total_unknown(root: Path) -> None:
    def work() -> None:
        record_model_call(CALL)
        record_model_call({"tokens_in": 5, "tokens_out": 5, "cost_usd": None, "cost_source": "unknown"})

    run("geo", work)
    (row,) = rows(root)
    assert (row["cost_usd"], row["cost_source"], row["tokens_in"]) == (None, "unknown", 105)


def test_no_model_call_is_unknown_unless_the_caller_vouches_for_it(root: Path) -> None:
    run("plain", list)
    run("counted", list, all_calls_counted=True)
    told = {row["agent"]: (row["cost_usd"], row["cost_source"]) for row in rows(root)}
    assert told == {"plain": (None, "unknown"), "counted": (0.0, "provider")}


def test_nested_calls_log_their_own_rows_and_count_nothing_twice(root: Path) -> None:
    async def inner() -> None:
        record_model_call(CALL)

    async def outer() -> None:
        record_model_call(CALL)
        await instrument_agent_call_async("inner", inner)

    asyncio.run(instrument_agent_call_async("outer", outer))
    by_agent = {row["agent"]: row["cost_usd"] for row in rows(root)}
    assert by_agent == {"inner": pytest.approx(0.01), "outer": pytest.approx(0.01)}


class _Slow(Exception):
    error_kind = "rate_limit"


@pytest.mark.parametrize(
    ("problem", "kind"),
    [(ValueError("bad"), "agent"), (TimeoutError("late"), "timeout"), (_Slow("429"), "rate_limit")],
)
def test_an_exception_is_logged_once_and_comes_out_unchanged(
    root: Path, problem: Exception, kind: str
) -> None:
    def work() -> None:
        raise problem

    with pytest.raises(type(problem)) as caught:
        run("geo", work)
    assert caught.value is problem
    (row,) = rows(root)
    assert row["error_kind"] == kind and str(problem) in row["error"] and row["reward"] is None


def test_concurrent_tasks_keep_their_usage_apart(root: Path) -> None:
    async def agent(cost: float) -> None:
        await asyncio.sleep(0)
        record_model_call({"tokens_in": 1, "tokens_out": 1, "cost_usd": cost, "cost_source": "provider"})
        await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(
            *(instrument_agent_call_async(f"a{i}", lambda i=i: agent(float(i))) for i in range(20))
        )

    asyncio.run(all_of_them())
    assert {row["agent"]: row["cost_usd"] for row in rows(root)} == {f"a{i}": float(i) for i in range(20)}


def test_a_field_noted_inside_stands_on_the_row(root: Path) -> None:
    def work() -> dict[str, int]:
        inside = current_run()
        assert inside is not None
        inside.fields["as_of"] = "2026-03-02"
        return {"risk_score": 40}

    assert run("geo", work) == {"risk_score": 40}
    assert rows(root)[0]["as_of"] == "2026-03-02"
    assert current_run() is None
