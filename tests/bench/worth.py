"""How often is a good agent flagged in a year, and how soon a dead one found? Retirement's own rule, asked weekly.

A good agent earns twice the floor: on some days its four runs find something, on the others nothing. Its days are
independent, or come in spells of three days; its signals are frequent and weak or rare and strong. A dead one finds
nothing, from the start or after a good half-year. `by runs` is the rule that took four runs of a day for four
observations: the upper bound of the mean over the last 200 runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from meta.worth.assessment import MIN_N, REWARD_FLOOR
from meta.worth.evidence import CONVINCED, against
from telemetry.read.field import WINDOW
from telemetry.read.intervals import mean_upper_bound
from tests import bench
from tests.bench import Row

YEAR, WEEK, RUNS = 365, 7, 4
AGENTS = 300  # of each kind
STRENGTHS = (0.3, 0.5, 0.8, 1.0)  # what a signal is worth; the rarer, the stronger, the mean is the same
NOISE = 0.02  # between the runs of a day

Rule = Callable[[Sequence[Sequence[float]]], bool]  # the runs of each day so far -> flagged?


def good(rng: random.Random, days: int, strength: float, spell: int = 1) -> Iterator[list[float]]:
    """The rewards of each day's runs; the mean is twice the floor."""
    offset, found = rng.randrange(spell), False
    for number in range(days):
        if number == 0 or (number + offset) % spell == 0:
            found = rng.random() < 2 * REWARD_FLOOR / strength
        yield [strength * found + rng.uniform(-NOISE, NOISE) for _ in range(RUNS)]


def by_days(runs: Sequence[Sequence[float]]) -> bool:
    """The rule."""
    means = [sum(own) / len(own) for own in runs[-WINDOW:]]
    return len(means) >= MIN_N and against(means, REWARD_FLOOR).odds >= CONVINCED


def by_runs(runs: Sequence[Sequence[float]]) -> bool:
    """What it replaced."""
    flat = [one for own in runs[-200 // RUNS :] for one in own]
    low = sum(flat) < REWARD_FLOOR * len(flat)
    return len(flat) >= 100 and low and mean_upper_bound(flat) < REWARD_FLOOR


def flagged(rule: Rule, days: Sequence[Sequence[float]], after: int = 0) -> int | None:
    """The day of the first weekly look that flags the agent."""
    looks = range(WEEK, len(days) + 1, WEEK)
    return next((day for day in looks if day > after and rule(days[:day])), None)


def year(rule: Rule, agents: int, seed: str, **world: Any) -> float:
    """The share of good agents that are flagged within a year."""
    rng = random.Random(f"{bench.SEED} {seed}" if bench.SEED else seed)
    hit = [flagged(rule, list(good(rng, YEAR, **world))) for _ in range(agents)]
    return sum(day is not None for day in hit) / agents


def found_after(agents: int, seed: str, before: int, strength: float) -> list[float]:
    """In how many weeks dead agents are found, counted from their death."""
    rng, weeks = random.Random(f"{bench.SEED} {seed}" if bench.SEED else seed), []
    for _ in range(agents):
        alive = list(good(rng, before, strength))
        day = flagged(by_days, [*alive, *[[0.0] * RUNS] * 300], before)
        weeks.append(((day or 9_999) - before) / WEEK)
    return weeks


def main() -> list[Row]:
    """The rows of the table."""
    rows: list[Row] = []
    for name, spell, most in (("independent days", 1, 0.01), ("3-day spells", 3, 0.09)):
        cells = {
            strength: year(by_days, AGENTS, f"{name} {strength}", strength=strength, spell=spell)
            for strength in STRENGTHS
        }
        worst = max(cells, key=cells.__getitem__)
        was = year(by_runs, 100, f"runs {name}", strength=STRENGTHS[-1], spell=spell)
        what = f"good agents flagged a year, {name}, worst of {len(cells)} shapes (signals of {worst:g})"
        target = f"<= {most:.0%}"
        rows.append(
            Row(what, f"{cells[worst]:.1%}", f"{was:.0%} (by runs)", "", target, cells[worst] <= most)
        )
    for name, before in (("from the start", 0), ("after a good half-year", 182)):
        weeks = sorted(w for strength in STRENGTHS for w in found_after(40, f"dead {name}", before, strength))
        late = weeks[int(0.95 * len(weeks))]
        rows.append(
            Row(f"dead agents found, {name}, 95 % within", f"{late:.0f} weeks", "", "", "<= 15", late <= 15)
        )
    return rows


if __name__ == "__main__":
    print(*main(), sep="\n")
