"""Reads what a batch can be made of: one point per run, with its turns and what is known of its quality."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import field_value, is_number, listed
from telemetry.logger import FIELD
from telemetry.read.rows import Window

OFFLINE: Final = "offline"  # the provider of answers that teach nobody anything but the rules


@frozen
class Turn:
    """One question to a model and its answer, by the names of their texts."""

    ts: str
    messages: tuple[tuple[str, str], ...]  # role, SHA-256
    output: str | None
    tools: Any = None


@frozen
class Point:
    """One run; None where nothing is known."""

    point_id: str
    run_id: str
    ts: str
    agent: str
    task_type: str  # the agent's name, where its task named no type
    complexity: str | None
    tenant_id: str | None
    source: str
    provider: str | None
    model: str | None
    success: bool | None
    quality: float | None
    reward: float | None
    scoring_version: str | None
    latency_ms: float | None
    tokens_used: int | None
    input_hash: str | None
    case_id: str | None
    split: str | None
    turn_rewards: tuple[float | None, ...]
    turns: tuple[Turn, ...]

    @property
    def in_field(self) -> bool:
        return self.source in FIELD

    @property
    def worth(self) -> float | None:
        """What the run is compared by: its grade where it was graded, else its reward."""
        return self.quality if self.case_id else self.reward


_FIELDS: Final = (
    *("task_type", "complexity", "tenant_id", "success", "quality_score", "tokens_used"),
    *("messages", "output_sha256", "tools", "split", "case_id", "overall_score", "ok", "turn_data"),
)
_RUNS: Final = """
select event_id, run_id, strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z', agent, source, provider, model, error_kind,
    reward, scoring_version, latency_ms, coalesce(try_cast(tokens_used as bigint), tokens_in + tokens_out), input_hash,
    task_type, complexity, tenant_id, success, try_cast(quality_score as double)
from events where kind = 'run' order by ts, event_id
"""
_CALLS: Final = """
select run_id, strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z', messages, output_sha256, tools
from events where kind = 'llm_call' and error is null order by ts, event_id
"""
_GRADES: Final = """
select run_id, split, case_id, try_cast(overall_score as double), ok, turn_data from events where kind = 'evaluation'
"""


def load_points(repo: Repo, since: datetime | None = None) -> list[Point]:
    """Every run since then, oldest first."""
    from telemetry.read.store import connect

    with connect(repo, Window(since=since), fields=_FIELDS) as con:
        turns: dict[str, list[Turn]] = defaultdict(list)
        for run_id, ts, messages, output, tools in con.execute(_CALLS).fetchall():
            turns[run_id].append(Turn(ts, _messages(messages), output, field_value(tools)))
        grades = {run_id: rest for run_id, *rest in con.execute(_GRADES).fetchall()}
        rows = con.execute(_RUNS).fetchall()
    return [_point(row, turns.get(row[1], ()), grades.get(row[1])) for row in rows]


def _point(row: Sequence[Any], turns: Iterable[Turn], grade: Sequence[Any] | None) -> Point:
    (
        point_id,
        run_id,
        ts,
        agent,
        source,
        provider,
        model,
        error_kind,
        reward,
        version,
        latency,
        tokens,
        given,
    ) = row[:13]
    task_type, complexity, tenant, success, quality = row[13:]
    split, case_id, overall, ok, turn_data = grade or (None,) * 5
    succeeded = _truth(success) if success is not None else _truth(ok) if ok is not None else None
    if succeeded is None:
        succeeded = error_kind is None
    return Point(
        point_id=point_id,
        run_id=run_id,
        ts=ts,
        agent=agent,
        task_type=task_type or agent,
        complexity=complexity,
        tenant_id=tenant,
        source=source,
        provider=provider,
        model=model,
        success=succeeded,
        quality=overall if overall is not None else quality,
        reward=reward,
        scoring_version=version,
        latency_ms=latency,
        tokens_used=tokens,
        input_hash=given,
        case_id=case_id,
        split=split,
        turn_rewards=tuple(_number(one.get("turn_reward")) for one in listed(field_value(turn_data))),
        turns=tuple(turns),
    )


def _messages(text: str | None) -> tuple[tuple[str, str], ...]:
    """What was asked, whole: of a message that cannot be read the others are not told either."""
    value = field_value(text)
    found: list[Any] = [(one.get("role"), one.get("sha256")) for one in listed(value)]
    whole = found and len(found) == len(value) and all(isinstance(part, str) for one in found for part in one)
    return tuple(found) if whole else ()


def _number(value: Any) -> float | None:
    return value if is_number(value) else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)
