"""The whole rule of a comparison: paired rounds until the evidence suffices, then one fresh pass over every case. Pure.

- A **round** runs both arms once on every case, in a fresh random order. Differences of all rounds feed one paired
  test (`eval/ab/sequential.py`), which may stop after any case and go on another night.
- What is proven on the cases must also hold across them: the mean difference of cases (of families, where they are
  known) has to stand `CLEAR_Z` of its own standard errors above the null, else a few lucky kinds of case decided.
- A challenger that looks **hopeless** at the end of a round is dropped. The champion's archived evals halve the noise
  of that look; they can drop a challenger, never help one win. Stopping for whatever reason costs no validity.
- What is proven is **finished**: a fresh pass over all cases, whose mean has to be above the null, and with which the
  gain has to be as clear as before: half of what luck has proven, mostly early, ends here. Its interval is what a
  reviewer reads, because an estimate that stopped when it looked good overstates.

Cases come without replacement within a round. For a fixed bet that only lowers the expected wealth (Maclaurin: the
product of values drawn without replacement expects at most the same power of their mean), and simulated nulls whose
effects differ by case or family are promoted in less than 1 % of tests (`make bench`). A rule of this kind was
published as PACE (arXiv 2606.08106).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf, log, sqrt
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from eval.ab.sequential import LOWER_SHARE, PairedTest, interval
from telemetry.edge.frozen import frozen

Case = tuple[str, str]  # agent and id of the case
# (arm, case, round) -> score in 0..1, None if there was no answer
Draw = Callable[[str, Case, int], "float | None"]
Archive = Callable[[Case], "float | None"]  # the champion's mean score in earlier evals of the same text
Verdict = Literal["promote", "keep", "continue", "blocked", "inconclusive"]

CHAMPION, CHALLENGER = "champion", "challenger"
ALPHA = 0.02
PASSES = 3  # trials per arm and case of the finishing pass
MARGIN_ALPHA = 0.07  # which the finishing pass halves: an arm at the margin looks worse in it as often as not
MARGIN_PASSES = 5  # so that it seldom looks so of an equal arm, which stands only one margin above the limit
TYPICAL_SD = 0.53  # of a difference of two trials, where 70 % pass: to foresee how long a comparison takes
FULL_SUITE = 30  # cases from which an agent counts in full: a smaller suite must not cap everybody's bets
CLEAR_Z = 2.3
LEAST_FAMILIES = 10  # fewer say little about how families differ: then the cases stand for themselves
FAMILY_Z = 1.96  # two-sided 95 %
FUTILITY_Z = 4.0  # of the test within a round; the looks between rounds see more, and drop earlier
# Of an agent's mean in the finishing pass; below it, and clearly so (`WORSE_Z`), it is harmed.
AGENT_FLOOR = -0.02
WORSE_Z = 1.28  # one-sided 90 %: harm to one agent has to be seen more easily than a gain
# (from round, a mean of at most, less this many standard errors): hopeless. Tuned for 365 challengers a year.
HOPELESS = ((1, 0.01, 1.2), (2, 0.01, 0.8), (3, 0.01, 0.45), (6, 0.015, 0.35))
# Times as many, where the archive is looked at too: a second look is a second chance to be dropped.
ARCHIVE_Z = 2.0


@frozen
class Rules:
    """What a comparison may be told."""

    rounds: int = 15
    nightly: int = 3  # rounds in one night
    # How often a useless challenger may be proven better; None: `ALPHA`, `MARGIN_ALPHA`.
    alpha: float | None = None
    min_effect: float = 0.01
    margin: float = 0.0  # 0: has to be better; else: has to be not worse than by this much
    either: bool = False  # whether it is worse is asked as well: nothing is dropped for want of hope
    passes: int = PASSES
    min_cases: int = 10
    seed: int = 0
    family: Callable[[Case], str] = field(default=lambda case: "\t".join(case))

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        return f"not worse by more than {100 * self.margin:g} points" if self.margin else "better"


@dataclass(frozen=True)
class Result:
    """Where a comparison stands. The interval is worked out only when asked for: it costs more than the test."""

    verdict: Verdict
    calls: int
    mean: float
    reason: str
    e_value: float
    rounds: int  # played to the end
    interval: Callable[[], tuple[float, float]]
    finished: bool = False  # mean and interval are those of the finishing pass
    families: int = 0  # that the cases come from
    # 95 % interval with families as what varies; None for few of them.
    robust: tuple[float, float] | None = None

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        return self.interval()

    @property
    def ci_low(self) -> float:
        """Lower end of the interval."""
        return self._bounds[0]

    @property
    def ci_high(self) -> float:
        """Upper end of the interval."""
        return self._bounds[1]


def order(cases: Iterable[Case], seed: int, number: int) -> list[Case]:
    """The order of a round, fixed beforehand."""
    shuffled = list(cases)
    random.Random(f"round {seed} {number}").shuffle(shuffled)
    return shuffled


def weights_of(cases: Sequence[Case]) -> dict[Case, float]:
    """Agents count equally, but for small suites, which count less."""
    sizes = Counter(agent for agent, _ in cases)
    return {case: 1 / max(sizes[case[0]], FULL_SUITE) for case in cases}


class Match:
    """A comparison as it runs: `add` pairs of scores, `end_round`, and `finish` once it is `proven`."""

    def __init__(
        self, cases: Sequence[Case], rules: Rules | None = None, archive: Archive | None = None
    ) -> None:
        self.cases, self.rules, self._archive = cases, rules or Rules(), archive or (lambda case: None)
        self.weights = weights_of(cases)
        null = -self.rules.margin
        self.alpha = self.rules.alpha or (MARGIN_ALPHA if self.rules.margin else ALPHA)
        self.passes = max(self.rules.passes, MARGIN_PASSES) if self.rules.margin else self.rules.passes
        self.test = PairedTest(
            self.rules.rounds * len(cases),
            self.alpha,
            0.0 if self.rules.either else null or self.rules.min_effect,
            [self.weights[case] for case in cases],
            self.rules.min_cases,
            null=null,
            futility_z=inf if self.rules.either else FUTILITY_Z,
        )
        self.rounds, self.calls, self.dropped = 0, 0, ""
        self._lopsided = False  # proven, but by a few kinds of cases
        self.scores: dict[Case, list[tuple[float, float]]] = defaultdict(list)
        self.fresh: dict[Case, list[float]] = defaultdict(list)
        self._passed: Counter[Case] = Counter()  # attempts of the finishing pass

    @property
    def proven(self) -> bool:
        """Whether the rounds have shown what was asked, so that only the finishing pass is missing."""
        return self.test.decision == "promote"

    @property
    def open(self) -> bool:
        """Whether it still wants pairs."""
        undecided = self.test.decision is None and not self.dropped
        return undecided and self.rounds < self.rules.rounds

    def add(self, case: Case, champion: float | None, challenger: float | None) -> None:
        """One pair of this round; a pair without both answers counts for nobody."""
        self.calls += 2
        if champion is None or challenger is None:
            return
        self.scores[case].append((champion, challenger))
        self.test.add(_bounded(challenger - champion), self.weights[case])
        self._lopsided = self.proven and not self._clear()
        if self._lopsided:
            self.test.reopen()

    def end_round(self) -> None:
        """The look between two rounds."""
        self.rounds += 1
        if self.rules.either:
            return
        means = self._means()
        archived = {
            case: fmean(b for _, b in pairs) - known
            for case, pairs in self.scores.items()
            if (known := self._archive(case)) is not None
        }
        # To rule out a small loss takes most of the rounds even for an equal arm: only the clear cases are dropped.
        looks = HOPELESS[:1] if self.rules.margin else HOPELESS
        most, z = next((most, z) for first, most, z in reversed(looks) if self.rounds >= first)
        for look, reach in ((means, z), (means | archived, ARCHIVE_Z * z)):
            mean, error = self._across(look)
            if len(means) >= self.rules.min_cases and mean <= most - self.rules.margin - reach * error:
                self.dropped = f"hopeless after round {self.rounds}: {100 * mean:+.1f} points"

    def finish(self, case: Case, champion: float | None, challenger: float | None) -> None:
        """One pair of the finishing pass."""
        self.calls += 2
        self._passed[case] += 1
        if champion is not None and challenger is not None:
            self.fresh[case].append(challenger - champion)

    def result(self) -> Result:
        """The verdict as far as the pairs go."""
        known = Result(
            "continue", self.calls, self.test.mean, "", self.test.e_value, self.rounds, self.test.interval
        )
        known = self._by_family(known, self._means())
        enough = len(self.cases) >= self.rules.min_cases
        if len(self.scores) < self.rules.min_cases and not (enough and self.open):
            few = f"{len(self.scores)} cases, at least {self.rules.min_cases} are needed"
            return replace(known, verdict="inconclusive", reason=few)
        if self.proven:
            return self._finished(known)
        if self.open:
            return replace(known, reason=f"undecided after {self.rounds} of {self.rules.rounds} rounds")
        if self.rules.either and self.test.decision == "keep":
            return replace(known, verdict="keep", reason="worse, beyond reasonable doubt")
        few = f"{self.rules.claim} on these cases, but by so few kinds of them that it may be luck"
        unshown = few if self._lopsided else f"all rounds used, not shown to be {self.rules.claim}"
        return replace(known, verdict="keep", reason=self.dropped or self.test.reason or unshown)

    def _finished(self, known: Result) -> Result:
        """What the finishing pass makes of a proven challenger."""
        if any(self._passed[case] < self.passes for case in self.cases):
            return replace(known, reason="proven; the finishing pass is not complete")
        means = {case: fmean(found) for case, found in self.fresh.items()}
        weights = [self.weights[case] for case in means]
        known = replace(
            self._by_family(known, means),
            mean=self._across(means)[0],
            finished=True,
            interval=lambda: interval([_bounded(mean) for mean in means.values()], weights=weights),
        )
        by_agent: dict[str, list[float]] = defaultdict(list)
        for case, difference in means.items():
            by_agent[case[0]].append(difference)
        harmed = [
            f"{agent} {100 * fmean(own):+.1f} points"
            for agent, own in sorted(by_agent.items())
            if clearly_worse(own, self.rules.margin)
        ]
        # An equal arm stands only one margin above the limit: there the fresh pass's mean is enough.
        clear = bool(self.rules.margin) or self._clear(self.fresh)
        if known.mean <= -self.rules.margin or not clear:
            return replace(known, verdict="keep", reason="a fresh pass over all cases did not confirm it")
        if harmed:
            return replace(
                known, verdict="blocked", reason=f"{self.rules.claim}, but not for {', '.join(harmed)}"
            )
        return replace(known, verdict="promote", reason=f"{self.rules.claim}, beyond reasonable doubt")

    def _means(self) -> dict[Case, float]:
        """By case, the mean difference of the rounds."""
        return {case: fmean(b - a for a, b in pairs) for case, pairs in self.scores.items()}

    def _by_family(self, known: Result, means: Mapping[Case, float]) -> Result:
        """With the interval of whoever asks about other cases of these kinds, not about these cases."""
        count = len({self.rules.family(case) for case in means})
        if count < LEAST_FAMILIES:
            return replace(known, families=count)
        mean, error = self._across(means, self.rules.family)
        reach = FAMILY_Z * error * sqrt(count / (count - 1))
        return replace(known, families=count, robust=(max(-1.0, mean - reach), min(1.0, mean + reach)))

    def _clear(self, fresh: Mapping[Case, Sequence[float]] = MappingProxyType({})) -> bool:
        """Whether the gain of all pairs, of a fresh pass too, holds across families, not in a few of them."""
        seen = {
            case: [*(b - a for a, b in self.scores.get(case, ())), *fresh.get(case, ())]
            for case in self.cases
        }
        means = {case: fmean(own) for case, own in seen.items() if own}
        weights = {case: self.weights[case] * len(seen[case]) for case in means}
        many = len({self.rules.family(case) for case in means}) >= LEAST_FAMILIES
        mean, error = self._across(means, self.rules.family if many else None, weights)
        return mean + self.rules.margin >= CLEAR_Z * error

    def _across(
        self,
        means: Mapping[Case, float],
        group: Callable[[Case], object] | None = None,
        weights: Mapping[Case, float] | None = None,
    ) -> tuple[float, float]:
        """Weighted mean of the cases' means, and its standard error with groups (none: cases) as what varies."""
        weights = weights or self.weights
        total = sum(weights[case] for case in means)
        mean = sum(weights[case] * found for case, found in means.items()) / total if means else 0.0
        parts: dict[object, float] = defaultdict(float)
        for case, found in means.items():
            parts[group(case) if group else case] += weights[case] * (found - mean)
        return mean, sqrt(sum(part * part for part in parts.values())) / total if means else 0.0


def play(
    draw: Draw, cases: Sequence[Case], settings: Rules | None = None, archive: Archive | None = None
) -> Result:
    """A whole comparison, from the first pair to the verdict."""
    match = Match(cases, settings, archive)
    number = 0

    def turns() -> Iterator[tuple[Case, float | None, float | None]]:
        """One round more."""
        nonlocal number
        number += 1
        for case in order(cases, match.rules.seed, number):
            yield case, draw(CHAMPION, case, number), draw(CHALLENGER, case, number)

    while match.open:
        for turn in turns():
            match.add(*turn)
            if not match.open:
                break
        else:
            match.end_round()
    for _ in range(match.passes if match.proven else 0):
        for turn in turns():
            match.finish(*turn)
    return match.result()


def rounds_needed(margin: float, cases: int) -> int:
    """How many rounds it takes to show that an equal arm is not worse than by `margin`, nine times out of ten.

    However one bets, wealth reaches its goal about when the total stands sqrt(2 * goal) standard errors above the null.
    """
    reach = sqrt(-2 * log(MARGIN_ALPHA * LOWER_SHARE)) + 1.28
    return ceil((reach * TYPICAL_SD / margin) ** 2 / max(1, cases))


def clearly_worse(differences: Sequence[float], margin: float = 0.0) -> bool:
    """Whether an agent is harmed, by the differences of its cases in the finishing pass."""
    mean, n = fmean(differences), len(differences)
    error = sqrt(sum((one - mean) ** 2 for one in differences)) / n
    return mean < AGENT_FLOOR - margin and mean + WORSE_Z * error < -margin


def _bounded(difference: float) -> float:
    """Means of scores in 0..1 may differ by a rounding error more than 1."""
    return max(-1.0, min(1.0, difference))
