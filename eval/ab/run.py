"""Runs the trials of an A/B night, all arms side by side, until every comparison is decided or has had its rounds.

A case counts for a comparison once both arms have answered it, and cases are taken in the planned order only: what
finished early by chance waits for its turn, else fast cases would be seen first. What is proven in the rounds is
finished by a fresh pass over all of its cases the same night.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from agents.llm_client import ModelOptions
from agents.model.call import Model
from eval.ab.evidence import Turn, log_turn
from eval.ab.plan import CONTROL, Arm, Plan, Test, Unit
from eval.ab.record import MAX_UNREADABLE
from eval.ab.rounds import Match, Rules
from eval.grading.judge import Judge
from eval.trials.journal import Journal
from eval.trials.pool import breaker_for, run_all
from eval.trials.progress import Progress
from eval.trials.results import all_known
from eval.trials.shards import Shards
from eval.trials.trial import Identity, Job, Trial
from telemetry.edge.frozen import frozen

FINISH = 1000  # trials of the finishing pass are numbered from here on


@frozen
class Pair:
    """One case that counted tonight: what both arms did on it."""

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


def share(trials: Sequence[Trial], of: Callable[[Trial], bool]) -> float:
    """How many of them are so."""
    return sum(map(of, trials)) / max(1, len(trials))


def unreadable(champion: Sequence[Trial], challenger: Sequence[Trial]) -> float:
    """The share of answers that could not be read, of the arm of which more could."""
    return min(share(arm, lambda trial: trial.error_kind == "parse") for arm in (champion, challenger))


Finished = Callable[[str, Unit, int], Trial | None]  # (arm, case, number) -> its trial, once there is one


class Comparison:
    """One challenger against the champion."""

    def __init__(self, plan: Plan, test: Test, arm: Arm) -> None:
        settings = plan.settings
        family = {unit.key: f"{unit.spec.name}/{unit.case.family}" for unit in plan.order}
        self.plan, self.test, self.arm = plan, test, arm
        self.units = {unit.key: unit for unit in test.units(plan.order)}
        self.match = Match(
            list(self.units),
            Rules(
                rounds=settings.rounds,
                nightly=settings.trials,
                alpha=test.alpha,
                min_effect=settings.min_effect,
                min_cases=settings.min_cases,
                seed=settings.seed,
                margin=test.margin,
                either=bool(settings.against),
                family=family.__getitem__,
            ),
            plan.evidence.archive(),
        )
        # Cases on which an arm had no answer for reasons of infrastructure.
        self.lost: set[tuple[str, str]] = set()
        self.seen: dict[tuple[str, str], tuple[list[Trial], list[Trial]]] = defaultdict(lambda: ([], []))
        self.fresh: dict[tuple[str, str], tuple[list[Trial], list[Trial]]] = defaultdict(lambda: ([], []))
        # Tonight's trials that it stands on; some may have run beyond that.
        self.took: dict[Identity, Trial] = {}
        self.unpriced = False  # it should be cheaper, and nobody knows what it costs
        self.vain = False  # after a round neither arm could be read: more would be money for nothing
        self.turns: list[Turn] = []  # tonight's
        self._place = 0
        played = self._replayed(plan.evidence.turns.get(arm.pair, ()))
        self.first = self.match.rounds + 1  # the round that tonight begins or goes on with
        nightly = settings.rounds if plan.deterministic else settings.trials
        if len(self.units) < settings.min_cases:
            # It cannot decide: one round in all, for a person to look at.
            nightly = max(0, 1 - self.match.rounds)
        self.last = min(self.first + nightly - 1, settings.rounds)
        self._turns = deque(
            (number, unit)
            for number in range(self.first, self.last + 1)
            for unit in plan.round(number - self.first)
            if unit.key in self.units and not (number == self.first and unit.key in played)
        )
        self._finishing: deque[tuple[int, Unit]] = deque()

    def _replayed(self, turns: Iterable[Turn]) -> set[tuple[str, str]]:
        """Take in what earlier nights measured; what of its last round is there already."""
        number, played = 0, set[tuple[str, str]]()
        for turn in turns:
            if turn.case not in self.units:  # its suite was changed: then the comparison has another name
                continue
            if number and turn.round != number:
                self.match.end_round()
                played = set()
            number = turn.round
            self.match.add(turn.case, turn.champion, turn.challenger)
            played.add(turn.case)
            self._place = turn.place
        if len(played) == len(self.units) and self.match.open:
            self.match.end_round()
            played = set()
        return played

    @property
    def open(self) -> bool:
        """Whether it still wants rounds tonight."""
        return self.match.open and bool(self._turns) and not (self.unpriced or self.vain)

    @property
    def attempts(self) -> tuple[list[Trial], list[Trial]]:
        """Tonight's trials of the champion, then of the challenger, that it stands on."""
        took = [self.took[identity] for identity in sorted(self.took)]
        champion, challenger = ([t for t in took if t.arm == label] for label in (CONTROL, self.arm.label))
        return champion, challenger

    @property
    def unread(self) -> bool:
        """Whether neither arm could be read: that is no evidence, and nothing to go on from."""
        return unreadable(*self.attempts) > MAX_UNREADABLE

    @property
    def pairs(self) -> list[Pair]:
        """What reports show: the finishing pass, else what was run tonight, by case, in a random order as bets need."""
        chosen = self.fresh if self.fresh else self.seen
        return [
            Pair(unit, self.match.weights[unit.key], tuple(chosen[unit.key][0]), tuple(chosen[unit.key][1]))
            for unit in self.plan.round(FINISH)
            if unit.key in chosen
        ]

    def advance(self, finished: Finished) -> None:
        """Take the cases whose turn has come."""
        while self.open:
            number, unit = self._turns[0]
            slot = self.plan.begun + number - self.first
            both = self._both(finished, unit, slot, number)
            if both is None:
                return
            self._turns.popleft()
            champion, challenger = both
            self.match.add(unit.key, champion.score, challenger.score)
            if champion.score is None or challenger.score is None:
                self.lost.add(unit.key)
            else:
                self.lost.discard(unit.key)
                self._see(self.seen[unit.key], champion, challenger)
                self._place += 1
                if not (self.plan.deterministic and number > self.first):
                    at = (self.arm.pair, number, self._place, *unit.key)
                    self.turns.append(Turn(*at, champion.score, challenger.score, self.plan.night))
            if self.match.open and (not self._turns or self._turns[0][0] != number):
                self.match.end_round()
                self.vain = self.unread
                if self.test.margin:
                    self._count_the_cost()
        while self._finishing:
            number, unit = self._finishing[0]
            both = self._both(finished, unit, FINISH + number, FINISH + number)
            if both is None:
                return
            self._finishing.popleft()
            champion, challenger = both
            self.match.finish(unit.key, champion.score, challenger.score)
            if champion.counted and challenger.counted:
                self._see(self.fresh[unit.key], champion, challenger)

    def _both(self, finished: Finished, unit: Unit, slot: int, number: int) -> tuple[Trial, Trial] | None:
        """The trials of a case, the champion's first, once there are both."""
        champion = finished(CONTROL, unit, self.plan.number(slot))
        challenger = finished(self.arm.label, unit, self.plan.number(number))
        if champion is None or challenger is None:
            return None
        self.took |= {trial.identity: trial for trial in (champion, challenger)}
        return champion, challenger

    def _count_the_cost(self) -> None:
        """More rounds of a model that should be cheaper, and is not, would be money for nothing."""
        costs = [[trial.cost_usd for pair in self.seen.values() for trial in pair[arm]] for arm in (0, 1)]
        paid, asked = map(all_known, costs)
        self.unpriced = not paid or not asked
        if paid and asked and fmean(asked) >= fmean(paid):
            self.match.dropped = f"not cheaper: ${fmean(paid):.3g} -> ${fmean(asked):.3g} a case"

    def begin_finish(self) -> None:
        """Plan the fresh pass over all cases."""
        self._finishing = deque(
            (number, unit)
            for number in range(self.match.passes)
            for unit in self.plan.round(FINISH + number)
            if unit.key in self.units
        )

    @staticmethod
    def _see(kept: tuple[list[Trial], list[Trial]], champion: Trial, challenger: Trial) -> None:
        for trials, trial in zip(kept, (champion, challenger), strict=True):
            if not trials or trial is not trials[-1]:  # an answer that stands for several rounds is one trial
                trials.append(trial)


class Board:
    """All comparisons of a night, filled in as trials finish; `stopped` says why it ended early, if it did."""

    def __init__(self, plan: Plan, *, record: bool = True) -> None:
        # What is forced starts afresh, and is no part of the evidence that other nights go on from.
        aside = plan.settings.force or plan.settings.against
        self.plan, self.stopped, self._record = plan, "", record and not aside
        self.comparisons = [Comparison(plan, test, arm) for test in plan.tests for arm in test.arms]
        self.finished: dict[Identity, Trial] = {}
        self.in_vain: Callable[[Job], bool] = lambda job: False  # whom the endpoint answers no more

    @property
    def taken(self) -> list[Trial]:
        """The trials that comparisons stand on, in an order that does not depend on who ran them, and when."""
        took = {identity: trial for one in self.comparisons for identity, trial in one.took.items()}
        return [took[identity] for identity in sorted(took)]

    @property
    def proven(self) -> bool:
        """Whether a fresh pass is wanted."""
        return any(one.match.proven for one in self.comparisons)

    def see(self, trial: Trial) -> None:
        """One more trial is finished."""
        self.finished[trial.identity] = trial
        for comparison in self.comparisons:
            if trial.arm in (CONTROL, comparison.arm.label) and trial.agent in comparison.test.agents:
                comparison.advance(self._trial)

    def keep(self) -> None:
        """Put on record what other nights go on from."""
        for one in self.comparisons if self._record else ():
            for turn in () if one.unread else one.turns:
                if turn.identity not in self.plan.evidence.logged:
                    log_turn(turn)

    def _trial(self, arm: str, unit: Unit, number: int) -> Trial | None:
        return self.finished.get((arm, *unit.key, number))

    def rounds(self, part: int = 1, of: int = 1) -> Iterator[Job]:
        """Jobs round by round, case by case, arms side by side, the first place going round; decided arms drop out."""
        plan = self.plan
        nights = [one for one in self.comparisons if one.match.open]
        slots = 1 if plan.deterministic else max((one.last - one.first + 1 for one in nights), default=0)
        for slot in range(slots):
            for at, unit in enumerate(plan.round(slot)):
                if at % of != part - 1:
                    continue
                running = [
                    one
                    for one in nights
                    if unit.key in one.units and slot <= one.last - one.first and (one.open or of > 1)
                ]
                control = Job(CONTROL, plan.control, unit.spec, unit.case, plan.number(plan.begun + slot))
                rivals = [one.arm.job(unit, plan.number(one.first + slot)) for one in running]
                rivals = [job for job in rivals if not self.in_vain(job)]
                if rivals and not self.in_vain(control):  # one without the other says nothing
                    yield from _in_turn([control, *rivals], slot + at)

    def finish(self) -> Iterator[Job]:
        """Jobs of the fresh pass of everything proven."""
        proven = [one for one in self.comparisons if one.match.proven]
        for one in proven:
            one.begin_finish()
            one.advance(self._trial)
        for number in range(max((one.match.passes for one in proven), default=0)):
            for at, unit in enumerate(self.plan.round(FINISH + number)):
                running = [one for one in proven if unit.key in one.units and number < one.match.passes]
                fresh = self.plan.number(FINISH + number)
                control = Job(CONTROL, self.plan.control, unit.spec, unit.case, fresh)
                rivals = [one.arm.job(unit, fresh) for one in running]
                jobs = _in_turn([control, *rivals], number + at) if rivals else ()
                yield from (job for job in jobs if job.identity not in self.finished)


def _in_turn(jobs: list[Job], at: int) -> list[Job]:
    """The arms side by side, the first place going round."""
    first = at % len(jobs)
    return jobs[first:] + jobs[:first]


def run(
    plan: Plan, model: Model, journal: Journal, ask: ModelOptions, shard: tuple[int, int], *, quiet: bool
) -> Board:
    """Run what is not in the journal yet; `shard` is the I-th of N parts of the cases, from 1."""
    part, of = shard
    # A shard sees only its own cases, so it cannot know when a comparison is decided.
    board = Board(plan, record=of == 1)
    shown = Progress("A/B", plan.max_calls // of, quiet=quiet, max_usd=ask.max_usd)
    try:
        _work(board, board.rounds(part, of), model, journal, ask, shown)
    finally:
        board.keep()
    if all(one.unread for one in board.comparisons):
        journal.remove()  # whoever mends the endpoint asks again
    if of == 1:
        finish(board, model, journal, ask, quiet=quiet)
    return board


def merge(plan: Plan, shards: Shards) -> Board:
    """The rounds as if they had been run in one piece; refuses shards of another configuration."""
    shards.check(plan.about)
    board = Board(plan)
    # Seen in any order: a comparison takes its cases in their turn.
    for trial in sorted(shards.trials, key=lambda trial: trial.identity):
        board.see(replace(trial, resumed=False))
    board.keep()
    waiting = any(one.open for one in board.comparisons)
    board.stopped = shards.stopped or (shards.cut_short if waiting else "")
    return board


def finish(board: Board, model: Model, journal: Journal, ask: ModelOptions, *, quiet: bool) -> None:
    """Run the fresh pass of everything proven."""
    if board.proven and not board.stopped:
        shown = Progress("finishing", board.plan.max_finish, quiet=quiet, max_usd=ask.max_usd)
        _work(board, board.finish(), model, journal, ask, shown)


def _work(
    board: Board, jobs: Iterable[Job], model: Model, journal: Journal, ask: ModelOptions, shown: Progress
) -> None:
    """Run jobs to their end, or until something stops it."""
    breaker = breaker_for(model, ask.at_once)
    board.in_vain = breaker.gives_up
    board.stopped = run_all(
        jobs,
        model,
        board.see,
        shown,
        concurrency=ask.at_once,
        breaker=breaker,
        journal=journal,
        source="ab_test",
        judge=Judge(model, seed=board.plan.settings.seed),
    )
