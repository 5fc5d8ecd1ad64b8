"""Runs the trials of an A/B night, all arms side by side, until every comparison is decided.

A case counts for a comparison once both arms have finished all their trials on it, and cases are taken in the planned
order only: what finished early by chance waits for its turn, else fast cases would be seen first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from agents.llm_client import ModelOptions
from agents.model.call import Model
from eval.ab.plan import CONTROL, Arm, Plan, Test, Unit
from eval.ab.sequential import PairedTest
from eval.grading.judge import Judge
from eval.trials.journal import Journal
from eval.trials.pool import run_all
from eval.trials.progress import Progress
from eval.trials.shards import Shards
from eval.trials.trial import Job, Trial


@dataclass(frozen=True, slots=True)
class Pair:
    """One case that counted: what both arms did on it."""

    unit: Unit
    weight: float
    champion: tuple[Trial, ...]
    challenger: tuple[Trial, ...]

    @property
    def difference(self) -> float:
        return mean_score(self.challenger) - mean_score(self.champion)


def mean_score(trials: Sequence[Trial]) -> float:
    """Over the trials that counted."""
    return fmean(trial.score for trial in trials if trial.score is not None)


class Comparison:
    """One challenger against the champion."""

    def __init__(self, plan: Plan, test: Test, arm: Arm) -> None:
        settings = plan.settings
        self.test, self.arm, self.trials = test, arm, settings.trials
        self.units = test.units(plan.order)
        sizes = Counter(unit.spec.name for unit in self.units)
        self.weights = [1 / sizes[unit.spec.name] for unit in self.units]  # every agent counts equally
        limits = test.alpha, settings.min_effect, self.weights, settings.min_cases
        self.statistics = PairedTest(len(self.units), *limits)
        self.pairs: list[Pair] = []
        self.lost: list[Unit] = []  # cases on which an arm had no answer for reasons of infrastructure
        self._next = 0

    @property
    def open(self) -> bool:
        """Whether it still wants cases."""
        return self.statistics.decision is None

    @property
    def exhausted(self) -> bool:
        """Whether every planned case was seen."""
        return self._next >= len(self.units)

    def advance(self, finished: dict[tuple[str, str, str], list[Trial]]) -> None:
        """Take the cases whose turn has come."""
        while self.open and not self.exhausted:
            unit, weight = self.units[self._next], self.weights[self._next]
            champion = finished.get((CONTROL, *unit.key), [])
            challenger = finished.get((self.arm.label, *unit.key), [])
            if len(champion) < self.trials or len(challenger) < self.trials:
                return
            self._next += 1
            if not any(t.counted for t in champion) or not any(t.counted for t in challenger):
                self.lost.append(unit)
                continue
            pair = Pair(unit, weight, tuple(champion), tuple(challenger))
            self.pairs.append(pair)
            # Means of scores in 0..1 may differ by a rounding error more than 1.
            self.statistics.add(max(-1.0, min(1.0, pair.difference)), weight)


class Board:
    """All comparisons of a night, filled in as trials finish; `stopped` says why it ended early, if it did."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.stopped = plan, ""
        self.comparisons = [Comparison(plan, test, arm) for test in plan.tests for arm in test.arms]
        self.finished: dict[tuple[str, str, str], list[Trial]] = defaultdict(list)
        self.seen: list[Trial] = []

    def see(self, trial: Trial) -> None:
        """One more trial is finished."""
        self.seen.append(trial)
        self.finished[(trial.arm, trial.agent, trial.case_id)].append(trial)
        for comparison in self.comparisons:
            if trial.arm in (CONTROL, comparison.arm.label) and trial.agent in comparison.test.agents:
                comparison.advance(self.finished)

    def feed(self, units: Sequence[Unit], *, until_decided: bool = True) -> Iterator[Job]:
        """Jobs case by case, arms side by side, the first place going round; decided arms drop out."""
        for unit in units:
            arms = [
                one.arm
                for one in self.comparisons
                if unit.spec.name in one.test.agents and (one.open or not until_decided)
            ]
            if not arms:
                continue
            jobs = [(CONTROL, self.plan.control), *((arm.label, arm.prompts) for arm in arms)]
            for number in range(self.plan.settings.trials):
                for label, prompts in jobs[number % len(jobs) :] + jobs[: number % len(jobs)]:
                    yield Job(label, prompts, unit.spec, unit.case, number)


def run(
    plan: Plan, model: Model, journal: Journal, ask: ModelOptions, shard: tuple[int, int], *, quiet: bool
) -> Board:
    """Run what is not in the journal yet; `shard` is the I-th of N parts of the cases, from 1."""
    board = Board(plan)
    part, of = shard
    # A shard sees only its own cases, so it cannot know when a comparison is decided.
    jobs = board.feed(plan.order[part - 1 :: of], until_decided=of == 1)
    board.stopped = run_all(
        jobs,
        model,
        board.see,
        Progress("A/B", plan.max_calls // of, quiet=quiet, max_usd=ask.max_usd),
        concurrency=ask.concurrency,
        journal=journal,
        source="ab_test",
        judge=Judge(model, seed=plan.settings.seed),
    )
    return board


def merge(plan: Plan, shards: Shards) -> Board:
    """The night as if it had been run in one piece; refuses shards of another configuration."""
    shards.check(plan.about)
    board = Board(plan)
    board.stopped = shards.stopped
    place = {unit.key: at for at, unit in enumerate(plan.order)}
    known = [trial for trial in shards.trials if (trial.agent, trial.case_id) in place]
    # In the order of the plan, though no result depends on it.
    for trial in sorted(known, key=lambda t: (place[t.agent, t.case_id], t.trial_no, t.arm)):
        board.see(trial)
    return board
