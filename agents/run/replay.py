"""Runs agents over earlier days, each as of its day; what was replayed before, on the same terms, is left alone.

A night does so for newcomers, so that there are days to judge them by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from agents.domain import domain_of
from agents.manifest import AgentSpec, Manifest
from agents.run.inputs import Inputs, Loaded
from agents.run.order import watchers
from agents.run.runner import Result, Runner
from agents.sources.source import SourceError
from telemetry import logger
from telemetry.edge.errors import Stopped
from telemetry.edge.files import Repo
from telemetry.logger import INFRASTRUCTURE

DAYS: Final = 130  # that a night replays: retirement judges by days, 100 at least
NEW: Final = timedelta(days=7)  # in the field, so long is an agent a newcomer
OUTAGE: Final = 12  # runs in a row that failed for no fault of the agents: the endpoint is down


@dataclass(slots=True)
class Replay:
    """What a replay did."""

    days: Sequence[str]
    results: list[Result] = field(default_factory=list)
    skipped: int = 0
    stopped: str | None = None  # why it ended early


def newcomers(repo: Repo, manifest: Manifest) -> list[str]:
    """The agents with earlier days to read that nobody has replayed for them, and that are too new to have their own.

    One whose source is in trouble is left for another night: tonight's run tells what is wrong.
    """
    from telemetry.read.store import established

    watching = watchers(manifest.enabled())
    known = established(repo, NEW, datetime.now(UTC)) if watching else ()
    new, found = [spec for spec in watching if spec.name not in known], list[str]()
    if new:
        inputs = Inputs(repo, domain_of(repo, manifest.agents), "snapshot")
        for spec in new:
            with suppress(SourceError):
                found += [spec.name] if inputs.days(spec) else []
    return found


def command(names: Sequence[str]) -> tuple[str, ...]:
    """The flags with which the orchestrator replays earlier days for them."""
    return ("--replay", str(DAYS), *(part for name in names for part in ("--agent", name)))


def planned(specs: Sequence[AgentSpec], most: int, inputs: Inputs) -> list[tuple[str, AgentSpec]]:
    """Every agent on the last days that its source has, `most` of them, oldest first.

    An agent whose source is in trouble is planned for no day: its row will say why. If all are, that is told here.
    """
    plan: list[tuple[str, AgentSpec]] = []
    troubles: list[SourceError] = []
    for spec in specs:
        try:
            plan += [(day, spec) for day in inputs.days(spec)[-most:]]
        except SourceError as problem:
            troubles.append(problem)
            plan.append(("", spec))
    if troubles and len(troubles) == len(specs):
        raise Stopped(str(troubles[0]))
    return sorted(plan, key=lambda one: one[0])


async def replay(plan: Sequence[tuple[str, AgentSpec]], runner: Runner, concurrency: int) -> Replay:
    """Run what is planned, `concurrency` at a time."""
    known = already_replayed(runner.prompts.repo)
    outcome, work, failing = Replay(sorted({day for day, _ in plan if day})), iter(plan), 0

    async def worker() -> None:
        nonlocal failing
        for day, spec in work:
            if outcome.stopped:
                return
            given = await runner.inputs.get(spec, day or None)
            if isinstance(given, Loaded) and (spec.name, day, given.hash, *runner.terms(spec)) in known:
                outcome.skipped += 1
                continue
            result = await runner.run(spec, given, day or None)
            outcome.results.append(result)
            failing = failing + 1 if result.error_kind in INFRASTRUCTURE else 0
            if result.error_kind == "budget":
                outcome.stopped = str(result.row.get("error"))
            elif failing >= OUTAGE:
                outcome.stopped = f"{failing} runs in a row failed, the last one: {result.row.get('error')}"

    with logger.source("replay"):
        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return outcome


def already_replayed(repo: Repo) -> set[tuple[str | None, ...]]:
    """(agent, day, hashes of input, prompt and code) of replays that came through, in live log and sealed data."""
    from telemetry.read import store
    from telemetry.read.rows import Window

    rows = store.connect(repo, Window(source="replay", kind="run"), fields=["code_hash"]).execute(
        "select agent, as_of, input_hash, prompt_hash, code_hash from events"
        " where as_of is not null and error_kind is null"
    )
    return set(rows.fetchall())
