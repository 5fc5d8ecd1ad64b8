"""Tries again until an answer is good enough: `iterate: {until: 0.9, most: 3, by: my_pkg.quality:score}`.

`by` is called with the items and the inputs and gives a quality in 0..1, or that and what should be better: the next
attempt reads it as `feedback` in its question. Without `by`, an answer that fits its schema is as good as can be told,
and one that does not is asked for again with what was wrong. The best attempt counts; each is on the run's row. An
attempt that says the same as one before is the last: asking again would only cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from agents.manifest import Iterate
from agents.manifest.code import load_code
from telemetry.edge.records import is_number
from telemetry.edge.text import MAX_ERROR, cut
from telemetry.logger import INFRASTRUCTURE
from telemetry.record.outcome import Iteration
from telemetry.record.run import Run, current_run, error_kind

Items = list[dict[str, Any]]
Attempt = Callable[[], Awaitable[Items]]
Judged = tuple[float, str | None]

feedback: ContextVar[tuple[str, ...]] = ContextVar("feedback", default=())  # on earlier attempts of this run


class QualityError(Exception):
    """The function that should say how good an answer is said something else."""

    error_kind = "agent"


async def until_good(attempt: Attempt, plan: Iterate, inputs: Mapping[str, Any]) -> Items:
    """The best of several attempts; raises what the last one raised if none came to an end."""
    judge, run = _judge(plan), current_run()
    best: tuple[float, Items] | None = None
    seen: list[str] = []
    told = feedback.set(())
    try:
        for number in range(1, plan.most + 1):
            began, calls = time.perf_counter(), len(run.calls) if run else 0
            output, quality, said = None, None, None
            try:
                output = await attempt()
                quality, said = judge(output, inputs)
            except Exception as problem:
                if isinstance(problem, QualityError) or error_kind(problem) in INFRASTRUCTURE:
                    raise
                quality, said = 0.0, cut(str(problem), MAX_ERROR)[0]
                if number == plan.most and best is None:
                    _note(run, number, began, calls, quality, said, "failed")
                    raise
            outcome = "failed" if output is None else "met" if quality >= plan.until else "below"
            _note(run, number, began, calls, quality, said, outcome)
            if output is not None and (best is None or quality > best[0]):
                best = quality, output
            shown = json.dumps(output, sort_keys=True, default=str)
            if outcome == "met" or (output is not None and shown in seen):
                break
            seen.append(shown)
            feedback.set((*feedback.get(), said or f"quality {quality:g}, {plan.until:g} is due"))
    finally:
        feedback.reset(told)
    assert best is not None
    return best[1]


def _note(
    run: Run | None, number: int, began: float, calls: int, quality: float, said: str | None, outcome: str
) -> None:
    if run is None:
        return
    tokens: list[Any] = [call.get(name) for call in run.calls[calls:] for name in ("tokens_in", "tokens_out")]
    used = None if None in tokens else sum(tokens)
    took = round((time.perf_counter() - began) * 1000, 3)
    run.iterations.append(Iteration(number, took, used, round(quality, 6), said, outcome))


def _judge(plan: Iterate) -> Callable[[Items, Mapping[str, Any]], Judged]:
    if plan.by is None:
        return lambda items, inputs: (1.0, None)
    name, function = plan.by, load_code(plan.by, "iterate.by")

    def judge(items: Items, inputs: Mapping[str, Any]) -> Judged:
        try:
            found = function(items, inputs)
        except Exception as problem:
            raise QualityError(f"iterate.by {name}: {type(problem).__name__}: {problem}") from problem
        quality, said = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if not is_number(quality) or not 0 <= quality <= 1:
            raise QualityError(f"iterate.by {name}: must give a quality in 0..1, not {str(found)[:80]}")
        return float(quality), None if said is None else cut(str(said), MAX_ERROR)[0]

    return judge
