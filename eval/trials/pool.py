"""Runs many trials at once. The harness and the A/B test stand on this.

- A **job** says what to run: arm label, that arm's `PromptSet` (texts in memory), agent, case, trial number.
- A **trial** is what came of it. `ok` and `score` are None if the infrastructure failed (endpoint, rate limit, budget,
  source): such a trial says nothing about the agent and counts for nobody (`trial.counted` is False). An answer that
  does not parse and an agent that crashes are the arm's own fault: `ok` is False, `score` 0.
- A **journal** (`eval/trials/journal.py`) holds finished trials on disk. A counted trial found there is not run again.

    with Journal(path, about) as journal:
        async with aclosing(run_trials(jobs, model, concurrency=16, journal=journal, source="ab_test")) as trials:
            async for trial in trials:  # in the order in which they finish
                ...

`jobs` is any iterable, pulled lazily, one job when there is room for it: a generator that looks at the trials seen
so far and returns stops the feed early; what is in flight still finishes and is yielded. Leaving the loop inside
`aclosing` cancels what is in flight instead. Every trial leaves a `run` row (the agent's) and an `evaluation` row.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, nullcontext
from itertools import takewhile
from typing import Any

from agents.base import BaseAgent, build_agent
from agents.manifest import AgentSpec
from agents.model.call import Model, Sent, log_lost, sending
from agents.texts.prompt_set import PromptSet
from eval.grading.judge import Judge
from eval.trials.journal import Journal
from eval.trials.progress import Progress
from eval.trials.trial import Job, Recorder, Trial, from_row, run_trial, to_row
from telemetry import logger
from telemetry.edge.records import made
from telemetry.edge.split import Tell, heard, split_off

__all__ = ["Breaker", "Job", "Journal", "Trial", "collect", "run_all", "run_trials"]

Build = Callable[[AgentSpec, PromptSet, Model], BaseAgent]


Asked = tuple[str, str | None]  # an agent and the model it asks; None of one that failed before it asked


class Breaker:
    """Says whom to stop feeding: an agent at a model whose last `limit` trials failed by infrastructure, or everyone.

    One agent's trouble is its own, and one model's: the others go on. If no agent is answered either, it is an outage.
    """

    def __init__(self, limit: int = 32, model: str | None = None) -> None:
        """`model` is the one that agents ask who name none."""
        self.limit, self.reason, self._model = limit, "", model
        self.given_up: set[Asked] = set()
        self._in_a_row: Counter[Asked] = Counter()
        self._down: dict[Asked, str] = {}  # those given up since anybody was answered, and why

    def gives_up(self, job: Job) -> bool:
        """Whether a trial would be in vain."""
        if not self.given_up:
            return False
        name = job.spec.name
        return not self.given_up.isdisjoint({(name, job.spec.model or self._model), (name, None)})

    def see(self, trial: Trial) -> None:
        """Take note of a finished trial."""
        asked = (trial.agent, trial.model)
        if trial.counted:
            self._in_a_row[asked] = 0
            self._down.clear()
            return
        if trial.error_kind == "unknown_task":  # between one agent and the offline model, and no outage
            self.given_up.add(asked)
            return
        self._in_a_row[asked] += 1
        if trial.error_kind == "budget":
            self.reason = self.reason or f"budget reached: {trial.error}"
        elif self._in_a_row[asked] >= self.limit and asked not in self.given_up:
            self.given_up.add(asked)
            self._down[asked] = f"{self.limit} calls in a row failed, last: {trial.error}"
            if len({agent for agent, _ in self._down}) > 1:
                self.end()

    def end(self) -> None:
        """Nobody is left to be fed: whoever was given up last may have been the endpoint's fault."""
        if self._down and not self.reason:
            self.reason = f"outage: {list(self._down.values())[-1]}"


async def run_trials(
    jobs: Iterable[Job],
    model: Model,
    *,
    concurrency: int = 16,
    journal: Journal | None = None,
    source: str = "eval",
    judge: Judge | None = None,
    build: Build = build_agent,
) -> AsyncGenerator[Trial, None]:
    """Run jobs, at most `concurrency` at once, and yield trials as they finish."""
    judge = judge or Judge(model)
    recorder = Recorder(model)
    agents: dict[tuple[int, str, str | None], BaseAgent] = {}
    running: set[asyncio.Task[None]] = set()
    finished: deque[Trial | BaseException] = deque()
    wake, outside = asyncio.Event(), contextvars.copy_context()
    asking = 0  # of those running, the others are being graded

    def done(found: Trial | BaseException) -> None:
        finished.append(found)
        wake.set()

    known = frozenset[str]() if journal is None else journal.on_record

    async def one(job: Job, agent: BaseAgent) -> None:
        found: Trial | BaseException
        try:
            found = await settled(job, agent)
        except BaseException as problem:  # noqa: BLE001 - raised again where trials are waited for
            found = problem
        running.discard(asyncio.current_task())
        done(found)

    async def settled(job: Job, agent: BaseAgent) -> Trial:
        row_id = None if journal is None else journal.row_id(job.identity)
        nonlocal asking
        asks = True

        async def answered() -> None:
            """The next question leaves before this answer is graded and put on record."""
            nonlocal asking, asks
            asking, asks = asking - 1, False
            fill()
            await asyncio.sleep(0)

        if journal is not None:
            sending.set(lambda sent: journal.sends(job.identity, sent))
        try:
            # With nobody to find what a killed process left under way, each row is written as it comes.
            with logger.source(source), logger.together() if journal else nullcontext():
                # One at a time: a trial is seen before the next begins.
                told = answered if concurrency > 1 else None
                trial = await run_trial(job, agent, judge, told, row_id, on_record=row_id in known)
        except asyncio.CancelledError:
            if journal is not None:  # what was under way has its row: it was given up, not lost
                journal.add(job.identity, None)
            raise
        if journal is not None:
            journal.add(trial.identity, to_row(trial))
        asking -= asks
        return trial

    feed = iter(jobs)

    def fill() -> None:
        nonlocal asking
        while asking < concurrency and (job := next(feed, None)):
            row = journal.rows[job.identity] if journal and job.identity in journal.rows else None
            if row and row["score"] is not None:  # one that an outage spoilt is run again
                done(from_row(row))
                return  # one at a time, so that the feed may look at what is there
            place = (id(job.prompts), job.spec.name, job.spec.model)
            if place not in agents:
                agents[place] = build(job.spec, job.prompts, recorder)
            task = asyncio.create_task(one(job, agents[place]), context=outside.copy())
            running.add(task)
            asking += 1

    if journal is not None:
        with logger.source(source):
            settle(journal)
    try:
        while True:
            fill()
            if not finished:
                if not running:
                    return
                wake.clear()
                await wake.wait()
            found = finished.popleft()
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        left = list(running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def breaker_for(model: Model, concurrency: int) -> Breaker:
    """One that lets all that is in flight fail before it says so."""
    return Breaker(max(8, 2 * concurrency), getattr(getattr(model, "inner", model), "model", None))


def settle(journal: Journal) -> None:
    """Put requests on record that died with their process, at their worst price; their trials run again."""
    for identity, sent in journal.lost.items():
        log_lost(identity[1], [made(Sent, one) for one in sent])
        journal.add(identity, None)
    if journal.lost:
        calls = sum(map(len, journal.lost.values()))
        said = (
            f"{calls} requests were under way when the last run died: on record as lost, at their worst price"
        )
        print(f"{journal.path.name}: {said}", file=sys.stderr)
        journal.lost.clear()


def run_all(
    jobs: Iterable[Job],
    model: Model,
    see: Callable[[Trial], None],
    progress: Progress,
    *,
    concurrency: int,
    beside: Sequence[Iterable[Job]] = (),
    **options: Any,
) -> str:
    """Run jobs to their end, handing each trial to `see`; why it stopped early (budget, outage), if it did.

    Where no endpoint is waited for, shares of the jobs may be run `beside` the others, by a process each.
    """

    def seen(trial: Trial) -> None:
        see(trial)
        progress.see(trial.ok, trial.cost_usd if trial.turns else 0.0, trial.resumed)

    run = functools.partial(_by_all_cores, [jobs, *beside]) if beside else functools.partial(_run, jobs)
    try:
        stopped = run(model, seen, concurrency=concurrency, **options)
        if not stopped:
            progress.total = progress.done  # decided before all cases were used
    finally:
        progress.finish()
    return stopped


def _run(
    jobs: Iterable[Job],
    model: Model,
    see: Callable[[Trial], None],
    *,
    concurrency: int,
    breaker: Breaker | None = None,
    **options: Any,
) -> str:
    breaker = breaker or breaker_for(model, concurrency)

    async def work() -> None:
        fed = takewhile(lambda _: not breaker.reason, jobs)
        feed = (job for job in fed if not breaker.gives_up(job))
        try:
            async with aclosing(run_trials(feed, model, concurrency=concurrency, **options)) as stream:
                async for trial in stream:
                    see(trial)
                    breaker.see(trial)
            breaker.end()
        finally:
            await model.aclose()

    asyncio.run(work())
    return breaker.reason


def _by_all_cores(
    shares: Sequence[Iterable[Job]],
    model: Model,
    see: Callable[[Trial], None],
    *,
    journal: Journal,
    source: str = "eval",
    **options: Any,
) -> str:
    """The same by a process for each share; the journal stays here."""
    with logger.source(source):
        settle(journal)

    def work(share: Iterable[Job], tell: Tell) -> str:
        def again(trial: Trial) -> None:
            if trial.resumed:
                tell(trial.identity)

        return _run(share, model, again, journal=journal.handed_to(tell), source=source, **options)

    with split_off([functools.partial(work, share) for share in shares]) as parts:
        for told in heard(parts):
            if not isinstance(told, bytes):
                see(from_row(journal.rows[told]))
            elif (row := journal.take(told)) is not None:
                see(from_row(row, resumed=False))
        return next(filter(None, (part.result() for part in parts)), "")


async def collect(jobs: Iterable[Job], model: Model, **options: Any) -> list[Trial]:
    """All trials of `jobs`, in the order in which they finished."""
    async with aclosing(run_trials(jobs, model, **options)) as trials:
        return [trial async for trial in trials]
