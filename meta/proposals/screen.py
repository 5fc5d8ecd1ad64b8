"""Marks texts on the tune cases by real trials; for the offline model see meta/offline/screen.py.

A text under trial never touches the disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from agents.manifest import AgentSpec
from agents.model.call import Model
from agents.texts.prompt_set import PromptSet
from eval.grading.suite import Case
from eval.trials.pool import Breaker, Job, collect
from telemetry.edge.errors import Stopped
from telemetry.edge.frozen import frozen


@frozen
class Unit:
    """One tune case of one agent."""

    spec: AgentSpec
    case: Case
    second_half: bool = field(init=False)  # of the tune families, by a hash: ideas must not lose in either

    def __post_init__(self) -> None:
        if self.case.split != "tune":
            raise AssertionError(f"{self.case.id} is a holdout case: no proposal may see it")
        half = hashlib.sha256(self.case.family.encode()).digest()[1] % 2
        object.__setattr__(self, "second_half", half == 1)


@frozen
class Mark:
    """How a text did on a case."""

    ok: bool
    score: float
    reasons: tuple[str, ...] = ()
    output: Any = None

    @property
    def value(self) -> float:
        """A pass counts most, partial credit shows the way."""
        return (self.ok + self.score) / 2


Marks = Mapping[int, Mark]  # by the place of the unit


class Screen(Protocol):
    """Something that marks texts."""

    units: Sequence[Unit]
    spent: int  # judgements made

    async def marks(self, text: str, places: Iterable[int]) -> dict[int, Mark]: ...

    def reached(self, before: str, after: str, places: Iterable[int]) -> list[int]: ...


class TrialScreen:
    """Marks by trials, like evals; costs what they cost."""

    def __init__(
        self, units: Sequence[Unit], prompt: str, prompts: PromptSet, model: Model, concurrency: int
    ) -> None:
        self.units, self.prompt, self.prompts = units, prompt, prompts
        self.model, self.concurrency = model, concurrency
        self.spent = 0

    async def marks(self, text: str, places: Iterable[int]) -> dict[int, Mark]:
        """One trial each; a case that an outage spoilt has no mark."""
        arm = f"screen-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        prompts = self.prompts.with_overrides({self.prompt: text})
        wanted = list(places)
        jobs = [Job(arm, prompts, self.units[place].spec, self.units[place].case) for place in wanted]
        by_case = {(job.spec.name, job.case.id): place for job, place in zip(jobs, wanted, strict=True)}
        self.spent += len(jobs)
        breaker, found = Breaker(limit=8), {}
        for trial in await collect(jobs, self.model, concurrency=self.concurrency):
            breaker.see(trial)
            if trial.score is not None:
                place = by_case[(trial.agent, trial.case_id)]
                found[place] = Mark(trial.ok is True, trial.score, trial.reasons, trial.output)
        breaker.end()
        if breaker.reason:
            raise Stopped(breaker.reason)
        return found

    def reached(self, before: str, after: str, places: Iterable[int]) -> list[int]:
        """Nobody knows what a real model makes of a change: all of them."""
        return list(places)
