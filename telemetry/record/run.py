"""Wraps an agent's call: timed, priced from the model calls made inside, rewarded, logged once.

Model calls report themselves to the innermost instrumented call (a context variable, so threads started with a
copied context and asyncio tasks find it). A nested instrumented call keeps its own usage and logs its own row:
the sum over rows is the total.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from telemetry import reward
from telemetry.logger import log_event, new_run_id
from telemetry.names import ERROR_KINDS
from telemetry.record.signals import Signals, items

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What one model call used; None is unknown, and unknown plus anything is unknown."""

    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    cost_source: str
    tokens_thinking: int | None = None
    price_list_version: str | None = None
    model: str | None = None
    provider: str | None = None


@dataclass(slots=True)
class Run:
    """One instrumented call in progress."""

    agent: str
    run_id: str
    calls: list[ModelCall] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)  # extra fields for the row, set from inside


_current: ContextVar[Run | None] = ContextVar("run", default=None)


def current_run() -> Run | None:
    """The innermost instrumented call around us, if any."""
    return _current.get()


def record_model_call(call: ModelCall) -> None:
    """Count a model call towards the run it was made in."""
    run = _current.get()
    if run is not None:
        run.calls.append(call)


def error_kind(problem: BaseException) -> str:
    """What kind of failure an exception is: what it says of itself, else a time-out, else the agent's own."""
    said = getattr(problem, "error_kind", None)
    if said in ERROR_KINDS:
        return str(said)
    return "timeout" if isinstance(problem, TimeoutError) else "agent"


def instrument_agent_call(
    agent_name: str,
    fn: Callable[[], T],
    cost_usd: float | None = None,
    tokens_in: int | None = None,
    tokens_out: int | None = None,
    **fields: Any,
) -> T:
    """Call `fn` and log one `run` row; an exception is logged once and re-raised unchanged."""
    with _observed(agent_name, cost_usd, tokens_in, tokens_out, fields) as done:
        output = fn()
        done(output)
    return output


async def instrument_agent_call_async(
    agent_name: str,
    fn: Callable[[], Awaitable[T]],
    cost_usd: float | None = None,
    tokens_in: int | None = None,
    tokens_out: int | None = None,
    **fields: Any,
) -> T:
    """The same for a coroutine function."""
    with _observed(agent_name, cost_usd, tokens_in, tokens_out, fields) as done:
        output = await fn()
        done(output)
    return output


def instrumented(agent_name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator form: every call of the function is one run of `agent_name`."""

    def decorate(fn: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return instrument_agent_call(agent_name, lambda: fn(*args, **kwargs))

        return call

    return decorate


@contextmanager
def _observed(
    agent: str,
    cost_usd: float | None,
    tokens_in: int | None,
    tokens_out: int | None,
    fields: dict[str, Any],
) -> Iterator[Callable[[object], None]]:
    """Times the block and logs its row on the way out.

    `fields` may hold `run_id`, `weights`, `read` (the domain's signals) and `all_calls_counted`: the caller vouches
    that every model call inside reports itself, so a run without any is known to have cost nothing.
    """
    run = Run(agent, fields.pop("run_id", None) or new_run_id())
    weights = fields.pop("weights", reward.DEFAULT)
    read: Signals = fields.pop("read", Signals())
    all_calls_counted = fields.pop("all_calls_counted", False)
    results: list[object] = []
    token = _current.set(run)
    start = time.perf_counter()
    problem: BaseException | None = None
    try:
        yield results.append
    except BaseException as raised:
        problem = raised
        raise
    finally:
        latency_ms = round((time.perf_counter() - start) * 1000, 3)
        _current.reset(token)
        row = _usage(run.calls)
        if all_calls_counted and not run.calls:
            row |= {"tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "cost_source": "provider"}
        if cost_usd is not None:
            row |= {"cost_usd": cost_usd, "cost_source": "override", "price_list_version": None}
        if tokens_in is not None:
            row["tokens_in"] = tokens_in
        if tokens_out is not None:
            row["tokens_out"] = tokens_out
        if problem is None:
            event = {"agent": agent, "latency_ms": latency_ms, "cost_usd": row["cost_usd"]}
            strength = reward.signal_strength(agent, results[0], signals=read.full)
            row["signal_strength"] = round(strength, 6)
            row["reward"] = round(reward.reward(event, results[0], weights, signals=read.full), 6)
            row["scoring_version"] = reward.scoring_version(weights, read.full)
            row["signals"] = read.keys(results[0])
            row |= read.figures(items(results[0]))
        else:
            row |= {"error": f"{type(problem).__name__}: {problem}", "error_kind": error_kind(problem)}
        log_event(agent, run.run_id, latency_ms, **(row | fields | run.fields))


def _usage(calls: list[ModelCall]) -> dict[str, Any]:
    """Sums over the calls of one run; with no call at all, nothing is known to have been spent."""

    def total(name: str) -> Any:
        values = [getattr(call, name) for call in calls]
        return sum(values) if values and None not in values else None

    def shared(name: str) -> str | None:
        values = dict.fromkeys(getattr(call, name) for call in calls)
        return ",".join(str(value) for value in values if value is not None) or None

    cost = total("cost_usd")
    return {
        "tokens_in": total("tokens_in"),
        "tokens_out": total("tokens_out"),
        "tokens_thinking": total("tokens_thinking"),
        "cost_usd": cost,
        "cost_source": "unknown" if cost is None else shared("cost_source"),
        "price_list_version": shared("price_list_version"),
        "model": shared("model"),
        "provider": shared("provider"),
    }
