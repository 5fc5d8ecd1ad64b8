"""What a run came to, as suites, routers and trainers ask for it: pure, over what was noted while it ran."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from telemetry.edge.frozen import frozen
from telemetry.logger import INFRASTRUCTURE

FIELDS = (
    *(
        "success",
        "partial_success",
        "failure_reason",
        "tokens_used",
        "tool_call_count",
        "tool_call_success_rate",
    ),
    *(
        "tools_used",
        "quality_score",
        "budget_compliant",
        "compliant",
        "token_efficiency",
        "time_to_first_action",
    ),
    *("iterations", "final_metrics"),
)


@frozen
class ToolCall:
    """One call of a tool."""

    tool_name: str
    latency_ms: float
    ok: bool
    arguments_sha256: str | None = None
    result_sha256: str | None = None


@frozen
class Iteration:
    """One attempt of a run that tries again until it is good enough."""

    iteration: int
    latency_ms: float
    tokens_used: int | None
    quality_score: float | None
    feedback: str | None  # what the next attempt is told
    outcome: str  # met | below | failed


@frozen
class Facts:
    """What is known of a run when it ends; None is unknown."""

    latency_ms: float
    tokens_in: int | None
    tokens_out: int | None
    error_kind: str | None  # None: it ended well
    first_action_ms: float | None = None  # from its start to its first call of a model or a tool
    tools: Sequence[ToolCall] = ()
    iterations: Sequence[Iteration] = ()
    budgeted: bool = False  # it had a limit of money, calls or time to keep
    gates_held: bool | None = None  # all mandatory ones; None where nobody looked


def came_to(facts: Facts) -> dict[str, Any]:
    """The fields of the `run` row that follow from these facts."""
    ended = facts.error_kind is None
    used = None if facts.tokens_in is None or facts.tokens_out is None else facts.tokens_in + facts.tokens_out
    tried = facts.iterations
    known = [one.quality_score for one in tried if one.quality_score is not None]
    quality = max(known) if known else None
    met = ended and (not tried or any(one.outcome == "met" for one in tried))
    within = False if facts.error_kind == "budget" else True if facts.budgeted else None
    calls = len(facts.tools)
    return {
        "success": met,
        "partial_success": ended and not met,
        "failure_reason": None if met else facts.error_kind or "below_threshold",
        "tokens_used": used,
        "tool_call_count": calls,
        "tool_call_success_rate": sum(call.ok for call in facts.tools) / calls if calls else None,
        "tools_used": _by_tool(facts.tools) if calls else [],
        "quality_score": quality,
        "budget_compliant": within,
        "compliant": _compliant(facts, within),
        "token_efficiency": round(quality / used * 1000, 6) if used and quality is not None else None,
        "time_to_first_action": facts.first_action_ms,
        "iterations": [_plain(one) for one in facts.iterations] or None,
        "final_metrics": {
            "total_latency": facts.latency_ms,
            "total_tokens": used,
            "final_quality": quality,
            "iterations_used": max(1, len(facts.iterations)),
        },
    }


def _compliant(facts: Facts, within: bool | None) -> bool | None:
    """Whether mandatory gates and the budget held; an output has to fit its schema before a run ends well.

    An outage says nothing about that.
    """
    if within is False or facts.gates_held is False:
        return False
    if facts.error_kind is not None:
        return None if facts.error_kind in INFRASTRUCTURE else False
    return True


def _by_tool(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    named: dict[str, list[ToolCall]] = {}
    for call in calls:
        named.setdefault(call.tool_name, []).append(call)
    return [
        {
            "tool_name": name,
            "call_count": len(own),
            "success_rate": sum(call.ok for call in own) / len(own),
            "average_latency": round(math.fsum(call.latency_ms for call in own) / len(own), 3),
        }
        for name, own in sorted(named.items())
    ]


def _plain(one: Iteration) -> Mapping[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}
