"""A back-test over the last N days, which gives telemetry its history on day one.

Every run is as of its day, on inputs built from that day's line and earlier ones; its row has `source: "replay"` and
`as_of`. A day that an agent has already been replayed on with the same prompt is skipped, unless its run failed for
a reason that was not the agent's. The replay stops early when the budget is used up or the endpoint is down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agents.manifest import AgentSpec
from agents.run.runner import Result, Runner
from agents.run.source import Inputs
from telemetry import logger
from telemetry.edge.repo import Repo
from telemetry.names import INFRASTRUCTURE

OUTAGE: Final = 12  # runs in a row that failed for no fault of the agents: the endpoint is down

Key = tuple[str, str, str | None]  # agent, day, prompt hash


@dataclass(slots=True)
class Replay:
    """What a replay did."""

    days: Sequence[str]
    results: list[Result] = field(default_factory=list)
    skipped: int = 0
    stopped: str | None = None  # why it ended early


async def replay(
    specs: Sequence[AgentSpec], days: Sequence[str], runner: Runner, inputs: Inputs, concurrency: int
) -> Replay:
    """Run every agent on every day, oldest first, `concurrency` at a time."""
    known = already_replayed(runner.prompts.repo)
    # As its hash stands on the rows of the agent's runs.
    prompt = {spec.name: runner.prompts.hash(spec) if spec.prompt else None for spec in specs}
    todo = [(day, spec) for day in days for spec in specs if (spec.name, day, prompt[spec.name]) not in known]
    outcome = Replay(days, skipped=len(days) * len(specs) - len(todo))
    work, failing = iter(todo), 0

    async def worker() -> None:
        nonlocal failing
        for day, spec in work:
            if outcome.stopped:
                return
            result = await runner.run(spec, await inputs.tried(spec.inputs, day), day)
            outcome.results.append(result)
            failing = failing + 1 if result.error_kind in INFRASTRUCTURE else 0
            if result.error_kind == "budget":
                outcome.stopped = str(result.row.get("error"))
            elif failing >= OUTAGE:
                outcome.stopped = f"{failing} runs in a row failed, the last one: {result.row.get('error')}"

    with logger.source("replay"):
        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return outcome


def already_replayed(repo: Repo) -> set[Key]:
    """What live log and sealed data hold of earlier replays, failures of others left out."""
    from telemetry.read import store
    from telemetry.read.rows import Window

    rows = store.connect(repo, Window(source="replay", kind="run")).execute(
        "select agent, as_of, prompt_hash, error_kind from events where as_of is not null"
    )
    return {
        (agent, day, prompt) for agent, day, prompt, kind in rows.fetchall() if kind not in INFRASTRUCTURE
    }
