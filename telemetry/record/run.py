"""One run of an agent: timed, priced from the model calls made inside, rewarded, logged once.

Model calls report themselves to the innermost run (a context variable, so threads started with a copied context and
asyncio tasks find it). A nested run keeps its own usage and logs its own row: the sum over rows is the total.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from telemetry import reward
from telemetry.logger import ERROR_KINDS, log_row, new_run_id
from telemetry.record.outcome import Facts, Iteration, ToolCall, came_to
from telemetry.reward import Signals, items

T = TypeVar("T")
GENERIC = Signals()


@dataclass(slots=True)
class Run:
    """A run in progress."""

    agent: str
    run_id: str
    calls: list[Mapping[str, Any]] = field(default_factory=list)  # what each model call put on its row
    tools: list[ToolCall] = field(default_factory=list)
    tools_told: int = 0  # of them, those that stand on the row of a model call
    iterations: list[Iteration] = field(default_factory=list)
    gates_held: bool | None = None  # all mandatory ones, where somebody looked
    started: float = field(default_factory=time.perf_counter)
    first_action_ms: float | None = None
    fields: dict[str, Any] = field(default_factory=dict)  # extra fields for the row, set from inside


_current: ContextVar[Run | None] = ContextVar("run", default=None)


def current_run() -> Run | None:
    """The innermost run around us, if any."""
    return _current.get()


def record_model_call(call: Mapping[str, Any], latency_ms: float = 0.0) -> None:
    """Count a model call, which took so long, towards the run it was made in."""
    run = _current.get()
    if run is not None:
        run.calls.append(call)
        _acted(run, latency_ms)


def record_tool_call(call: ToolCall) -> None:
    """Count a tool's call towards the run it was made in."""
    run = _current.get()
    if run is not None:
        run.tools.append(call)
        _acted(run, call.latency_ms)


def _acted(run: Run, latency_ms: float) -> None:
    if run.first_action_ms is None:
        run.first_action_ms = round(max(0.0, (time.perf_counter() - run.started) * 1000 - latency_ms), 3)


def error_kind(problem: BaseException) -> str:
    """What kind of failure an exception is: what it says of itself, else a time-out, else the agent's own."""
    said = getattr(problem, "error_kind", None)
    if said in ERROR_KINDS:
        return str(said)
    return "timeout" if isinstance(problem, TimeoutError) else "agent"


async def instrument_agent_call_async(
    agent_name: str,
    fn: Callable[[], Awaitable[T]],
    *,
    run_id: str | None = None,
    weights: reward.Weights = reward.DEFAULT,
    read: Signals = GENERIC,
    all_calls_counted: bool = False,
    budgeted: bool = False,
    **fields: Any,
) -> T:
    """Await `fn()` and log one `run` row with these fields; an exception is logged once and re-raised unchanged.

    `read` is how the domain reads signals in an output. With `all_calls_counted` the caller vouches that every
    model call inside reports itself, so a run without any is known to have cost nothing. `budgeted`: it has a limit of
    money, calls or time to keep.
    """
    run = Run(agent_name, run_id or new_run_id())
    token = _current.set(run)
    start = run.started = time.perf_counter()
    problem: BaseException | None = None
    try:
        output = await fn()
        # A function of the user's own, maybe: what it raises is told on the row.
        strength = read.strength(output)
    except BaseException as raised:
        problem = raised
        raise
    finally:
        latency_ms = round((time.perf_counter() - start) * 1000, 3)
        _current.reset(token)
        row = _usage(run.calls)
        if all_calls_counted and not run.calls:
            row |= {"tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "cost_source": "provider"}
        if problem is None:
            if strength is not None:
                event = {"latency_ms": latency_ms, "cost_usd": row["cost_usd"]}
                row["signal_strength"] = round(strength, 6)
                row["reward"] = round(strength - reward.penalty(event, weights), 6)
                row["scoring_version"] = read.version(weights)
            row["signals"] = read.keys(output)
            row |= read.figures(items(output))
        else:
            row |= {"error": f"{type(problem).__name__}: {problem}", "error_kind": error_kind(problem)}
        row |= came_to(
            Facts(
                latency_ms,
                row["tokens_in"],
                row["tokens_out"],
                row.get("error_kind"),
                run.first_action_ms,
                run.tools,
                run.iterations,
                budgeted,
                run.gates_held,
            )
        )
        row |= fields
        row |= run.fields
        log_row(agent_name, run.run_id, latency_ms, row)
    return output


_SUMMED = ("tokens_in", "tokens_out", "tokens_thinking", "cost_usd")
_NAMED = ("cost_source", "price_list_version", "model", "provider")


def _usage(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over the calls of one run: unknown plus anything is unknown, and so is what no call reported."""
    row: dict[str, Any] = {}
    if len(calls) == 1:  # most runs make one
        row = {name: calls[0].get(name) for name in _SUMMED}
        row |= {name: calls[0].get(name) or None for name in _NAMED}
    else:
        for name in _SUMMED:
            values = [call.get(name) for call in calls]
            row[name] = sum(values) if calls and None not in values else None
        for name in _NAMED:
            told = [str(value) for call in calls if (value := call.get(name)) is not None]
            row[name] = ",".join(dict.fromkeys(told)) or None
    if row["cost_usd"] is None:
        row["cost_source"] = "unknown"
    return row
