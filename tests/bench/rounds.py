"""How often does the rule of a comparison err over a year, at which cost? By simulation of `eval.ab.rounds.play`.

A year is 365 challengers: 40 % identical to the champion, 40 % worse by 0.05, 20 % better by +0.05 to +0.20; 120 cases
whose pass rates follow Beta(1.4, 0.6); the champion's archive holds thirty earlier evals of every case, or nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from eval.ab.rounds import Archive, Case, Draw, Rules, play
from tests import bench
from tests.bench import Row

YEARS = 6
TESTS = 600  # of each null cell
DIFFICULTY = (1.4, 0.6)
ARCHIVED = 30
LOOKS = (30, 45, 68)  # new cases of a promotion when it is tested again, if 68 come in within 90 days

Effect = Callable[[random.Random], float]


@dataclass(frozen=True, slots=True)
class World:
    """What a simulated comparison is drawn from."""

    effect: float | Effect = 0.0
    cases: int = 120
    difficulty: tuple[float, float] = DIFFICULTY
    # Standard deviation of the effect between cases, its mean over the cases left as it is.
    by_case: float = 0.0
    by_family: float = 0.0
    families: int = 20
    agents: int = 1
    archived: int = ARCHIVED

    def draw(self, rng: random.Random) -> tuple[Draw, list[Case], Archive | None]:
        """One comparison: what the arms answer, on which cases, and what is known of the champion."""
        cases = [(f"agent{i % self.agents}", f"case{i}") for i in range(self.cases)]
        champion = [rng.betavariate(*self.difficulty) for _ in cases]
        if self.by_case or self.by_family:
            champion = [0.15 + 0.7 * rate for rate in champion]  # room for effects of both signs
            challenger = self._varied(rng, champion)
        else:
            effect = self.effect if isinstance(self.effect, float) else self.effect(rng)
            mean = self.difficulty[0] / sum(self.difficulty)
            # An improvement mends part of what fails, a harm breaks part of what passes: rates stay within 0..1.
            challenger = [
                rate + effect * ((1 - rate) / (1 - mean) if effect > 0 else rate / mean) for rate in champion
            ]
        rates = {
            "champion": dict(zip(cases, champion, strict=True)),
            "challenger": dict(zip(cases, challenger, strict=True)),
        }
        known = {
            case: sum(rng.random() < rate for _ in range(self.archived)) / self.archived
            for case, rate in zip(cases, champion, strict=True)
            if self.archived
        }
        archive = known.get if self.archived else None
        return lambda arm, case, number: float(rng.random() < rates[arm][case]), cases, archive

    def _varied(self, rng: random.Random, champion: list[float]) -> list[float]:
        """Rates that differ by case and family, and are as good on the mean."""
        family = [rng.gauss(0, self.by_family) for _ in range(self.families)]
        effects = [rng.gauss(0, self.by_case) + family[i % self.families] for i in range(self.cases)]
        for _ in range(40):
            rates = [min(1.0, max(0.0, a + b)) for a, b in zip(champion, effects, strict=True)]
            shift = sum(b - a for a, b in zip(champion, rates, strict=True)) / self.cases
            effects = [one - shift for one in effects]
        return rates


@dataclass(frozen=True, slots=True)
class Found:
    """What became of many comparisons of one kind."""

    verdicts: Mapping[str, float]  # shares
    calls: float  # of one comparison

    @property
    def promoted(self) -> float:
        return self.verdicts.get("promote", 0.0)


def _chance(name: str) -> random.Random:
    return random.Random(f"{bench.SEED} {name}" if bench.SEED else name)


def simulate(world: World, tests: int, seed: str, rules: Rules | None = None) -> Found:
    """So many comparisons of that kind."""
    rng, counts, calls = _chance(seed), Counter[str](), 0
    for number in range(tests):
        draw, cases, archive = world.draw(rng)
        result = play(draw, cases, replace(rules or Rules(), seed=number), archive)
        counts[result.verdict] += 1
        calls += result.calls
    return Found({verdict: count / tests for verdict, count in counts.items()}, calls / tests)


def naive(world: World, tests: int, seed: str) -> float:
    """How often the plain rule promotes: one trial per arm and case, a difference of means of at least 0.01."""
    rng, promoted = _chance(seed), 0
    for _ in range(tests):
        draw, cases, _ = world.draw(rng)
        gained = sum((draw("challenger", case, 0) or 0) - (draw("champion", case, 0) or 0) for case in cases)
        promoted += gained / len(cases) >= 0.01
    return promoted / tests


def year(years: int, seed: str, **world: Any) -> dict[str, float]:
    """False promotions and calls of a year, and the share of true improvements found."""
    per = {"same": 146, "worse": 146, "true": 73}
    effects: dict[str, float | Effect] = {
        "same": 0.0,
        "worse": -0.05,
        "true": lambda rng: rng.uniform(0.05, 0.2),
    }
    found = {
        name: simulate(World(effects[name], **world), years * count, f"{seed} {name}")
        for name, count in per.items()
    }
    return {
        "false": sum(per[name] * found[name].promoted for name in ("same", "worse")),
        "found": found["true"].promoted,
        "calls": sum(per[name] * found[name].calls for name in per) / sum(per.values()),
    }


def taken_back(world: World, tests: int, seed: str) -> float:
    """The share of promotions that a back-test demotes, three trials per text and case, by its looks within 90 days."""
    rng, fallen = _chance(seed), 0
    for _ in range(tests):
        draw, cases, _ = world.draw(rng)
        gained = [
            fmean((draw("challenger", case, n) or 0) - (draw("champion", case, n) or 0) for n in range(3))
            for case in cases
        ]
        fallen += any(fmean(gained[:n]) <= 0 for n in LOOKS)
    return fallen / tests


NULLS: Mapping[str, World] = {
    "identical arms": World(),
    "identical arms, no archive": World(archived=0),
    "30 cases": World(cases=30),
    "300 cases": World(cases=300),
    "nearly all pass": World(difficulty=(9.5, 0.5)),
    "nearly none pass": World(difficulty=(0.5, 9.5)),
    "three agents": World(agents=3),
    "effects differ by case": World(by_case=0.2),
    "effects differ by case, no archive": World(by_case=0.2, archived=0),
    "effects differ by family": World(by_family=0.1),
    "effects differ by family, no archive": World(by_family=0.1, archived=0),
}


def null_cells(tests: int = TESTS, seed: str = "null") -> dict[str, float]:
    """The share promoted of challengers that are no better."""
    return {name: simulate(world, tests, f"{seed} {name}").promoted for name, world in NULLS.items()}


def main() -> list[Row]:
    """The rows of the table."""
    rows: list[Row] = []

    def row(what: str, measured: str, target: str, ok: bool, reference: str = "") -> None:
        rows.append(Row(what, measured, reference, "", target, ok))

    plain = 146 * sum(naive(World(effect), TESTS, "naive") for effect in (0.0, -0.05))

    for name, archived in (("", ARCHIVED), (", no archive", 0)):
        one = year(YEARS, "year", archived=archived)
        shown = f"{plain:.0f} by difference of means"
        row(f"false promotions a year{name}", f"{one['false']:.2f}", "<= 1.0", one["false"] <= 1.0, shown)
        row(f"true ones found, +0.05 .. +0.20{name}", f"{one['found']:.1%}", ">= 95%", one["found"] >= 0.95)
        row(f"calls a test{name}", f"{one['calls']:.0f}", "<= 950", one["calls"] <= 950)
    fresh = {"cases": LOOKS[-1], "archived": 0}
    for said, effect, least, most in (
        ("an identical text", 0.0, 0.5, 1.0),
        ("one 5 points worse", -0.05, 0.8, 1.0),
        ("one 10 points better", 0.10, 0.0, 0.12),
    ):
        share = taken_back(World(effect, **fresh), TESTS, f"fresh {effect}")
        aim = f">= {least:.0%}" if least else f"<= {most:.0%}"
        row(f"back-test takes back: {said}", f"{share:.1%}", aim, least <= share <= most)
    steps = (0.05, 0.10, 0.15, 0.20)
    found = [simulate(World(effect), TESTS // 2, f"step {effect}").promoted for effect in steps]
    told = ", ".join(f"{share:.0%}" for share in found)
    over = fmean((low + high) / 2 for low, high in pairwise(found))  # all between: an end counts half
    row("found of +0.05, +0.10, +0.15, +0.20", told, "over the range >= 95%", over >= 0.95)
    for name, share in null_cells().items():
        row(f"promoted, no better: {name}", f"{share:.1%}", "<= 3.5%", share <= 0.035)
    margin = Rules(margin=0.05)
    worse = simulate(World(-0.05), TESTS, "margin", margin).promoted
    equal = simulate(World(), TESTS, "equal", margin).promoted
    row("margin 5: a model 5 points worse passes", f"{worse:.1%}", "<= 5%", worse <= 0.05)
    row("margin 5: an equal one passes", f"{equal:.1%}", ">= 90%", equal >= 0.9)
    return rows
