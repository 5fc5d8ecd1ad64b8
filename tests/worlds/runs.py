"""Runs in the field and graded cases, logged as the real ones are: rows with the names of their texts, texts kept."""

from __future__ import annotations

import json
from typing import Any

from telemetry import logger
from telemetry.texts import keep
from tests.worlds import world

AGENTS = tuple(f"agent_{number}" for number in range(12))


def checkout(root: Any, agents: tuple[str, ...] = AGENTS) -> None:
    """A manifest that knows these agents, as far as an export looks at it."""
    world.manifest(root, ({"name": name} for name in agents))


def run(
    agent: str = "agent_0",
    asked: str = "How high is the water?",
    answer: str = '{"items": []}',
    *,
    quality: float | None = 0.9,
    reward: float | None = 0.5,
    source: str = "runtime",
    case: tuple[str, str] | None = None,
    turns: int = 1,
    **fields: Any,
) -> str:
    """One run of as many turns, graded if it is a `case` of (id, split); its id."""
    run_id = logger.new_run_id()
    with logger.source(source):
        for turn in range(turns):
            logger.log_event(agent, run_id, 5.0, kind="llm_call", **_call(f"{asked}{'!' * turn}", answer))
        about = {"provider": "endpoint", "model": "m", "success": True, "tokens_used": 50}
        graded = {} if case else {"quality_score": quality}
        counted = {"latency_ms": 10.0, "cost_usd": 0.001, "tokens_in": 40, "tokens_out": 10, "reward": reward}
        logger.log_event(agent, run_id, **{**counted, **about, **graded, **fields})
        if case:
            grade = {
                "case_id": case[0],
                "split": case[1],
                "overall_score": quality,
                "ok": (quality or 0) > 0.5,
            }
            logger.log_event(agent, run_id, 10.0, kind="evaluation", **grade)
    return run_id


def _call(asked: str, answer: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You watch rivers."}, {"role": "user", "content": asked}]
    named = [{"role": one["role"], "sha256": keep(one["content"])} for one in messages]
    known = {"model_asked": "m", "provider": "endpoint", "attempts": 1, "raw_output": answer}
    return {**known, "messages": named, "output_sha256": keep(answer)}


def lines(file: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]
