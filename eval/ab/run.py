"""Runs the trials of an A/B night, all arms at once and journalled, until every comparison is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from agents.model.call import Model
from eval.ab.compare import Board
from eval.ab.plan import Plan, Unit
from eval.grading.judge import Judge
from eval.trials.journal import Journal
from eval.trials.pool import Breaker, run_trials
from eval.trials.progress import Progress
from eval.trials.shards import Shards
from eval.trials.trial import Job, Trial
from telemetry.edge.repo import RESULTS

SHARDS = RESULTS / "ab_shards"


@dataclass(frozen=True, slots=True)
class Limits:
    """How to run; nothing here changes what is measured."""

    concurrency: int = 16
    max_usd: float | None = None
    shard: tuple[int, int] = (1, 1)  # the I-th of N, from 1
    quiet: bool = False


def run(plan: Plan, model: Model, journal: Journal, limits: Limits) -> tuple[Board, str]:
    """Run what is not in the journal yet; returns what was found, and why it stopped early, if it did."""
    board = Board(plan)
    breaker = Breaker(limit=max(8, 2 * limits.concurrency))
    part, of = limits.shard
    units: Sequence[Unit] = plan.order[part - 1 :: of]

    def feed() -> Iterator[Job]:
        # A shard sees only its own cases, so it cannot know when a comparison is decided.
        for job in board.feed(units, until_decided=of == 1):
            if breaker.reason:
                return
            yield job

    async def work() -> None:
        progress = Progress("A/B", plan.max_calls // of, quiet=limits.quiet, max_usd=limits.max_usd)
        judge = Judge(model, seed=plan.settings.seed)
        stream = run_trials(
            feed(), model, concurrency=limits.concurrency, journal=journal, source="ab_test", judge=judge
        )
        try:
            async with aclosing(stream):
                async for trial in stream:
                    board.see(trial)
                    breaker.see(trial)
                    progress.see(trial.ok, trial.cost_usd if trial.turns else 0.0, trial.resumed)
            if not breaker.reason:
                progress.total = progress.done  # decided before all cases were used
        finally:
            progress.finish()
            await model.aclose()

    asyncio.run(work())
    return board, breaker.reason


def merge(plan: Plan, shards: Shards) -> tuple[Board, str]:
    """The night as if it had been run in one piece; refuses shards of another configuration."""
    shards.check(plan.about)
    board = Board(plan)
    for trial in _planned(plan, shards.trials):
        board.see(trial)
    return board, shards.stopped


def _planned(plan: Plan, trials: Iterable[Trial]) -> list[Trial]:
    """In the order of the plan, though no result depends on it."""
    place = {unit.key: at for at, unit in enumerate(plan.order)}
    known = [trial for trial in trials if (trial.agent, trial.case_id) in place]
    return sorted(known, key=lambda t: (place[t.agent, t.case_id], t.trial_no, t.arm))
