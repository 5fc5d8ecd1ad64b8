"""The planted part of the sample market: its dice, its crises, and what the news wire says on a day.

What is planted when stands in `plan.yaml`, the templates of the wire in `headlines.yaml`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from telemetry.edge.records import load_yaml, made

CONTENT: Final = Path(__file__).parent
QUIET: Final = (range(26, 46), range(98, 116))  # no crisis, no simmer, and little noise
ACTIVE: Final = 3  # days from the outbreak on which a region's crisis is still running

T = TypeVar("T")


class Dice:
    """Random numbers that are the same everywhere: only `random()` of a seeded generator, then plain arithmetic."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random()

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def noise(self) -> float:
        """Nearly standard normal: twelve uniform numbers, less six."""
        return sum(self._random() for _ in range(12)) - 6.0


@dataclass(frozen=True, slots=True)
class Arc:
    """A planted crisis."""

    day: int
    theme: str
    region: str
    moves: dict[str, list[float]]
    warned: int = 1
    relief: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is planted: `agents/market/sample/plan.yaml`."""

    holidays: list[str]
    crises: list[Arc]
    bumps: list[tuple[int, str, list[float]]]


@dataclass(frozen=True, slots=True)
class News:
    """What the wire may say: `agents/market/sample/headlines.yaml`."""

    wires: list[str]
    slots: dict[str, list[str]]
    places: dict[str, list[str]]
    arcs: dict[str, dict[str, list[str]]]
    simmer: list[tuple[str, str]]
    alarms: list[tuple[str, str]]
    decoys: dict[str, list[str]]
    plain: list[str]


@functools.cache
def plan() -> Plan:
    return made(Plan, load_yaml((CONTENT / "plan.yaml").read_bytes()))


@functools.cache
def news() -> News:
    return made(News, load_yaml((CONTENT / "headlines.yaml").read_bytes()))


def _stage(arc: Arc, age: int) -> str:
    """What a crisis is in, so many days after its outbreak; empty when the wire is silent about it."""
    if age == arc.relief:
        return "relief"
    if age < 0:
        return "tremor" if age >= -arc.warned else ""
    return "shock" if age == 0 else "aftermath" if age < ACTIVE else ""


def fill(template: str, dice: Dice, place: str) -> str:
    """The template with every slot filled; two teams in one headline are never the same."""
    slots = news().slots
    values = {name: dice.pick(choices) for name, choices in slots.items() if "{" + name + "}" in template}
    if "{team2}" in template:
        values["team2"] = dice.pick([team for team in slots["team"] if team != values.get("team")])
    text = template.format(place=place, **values)
    return text[0].upper() + text[1:]


def headlines(day: int, places: dict[int, str], recent: list[str], dice: Dice) -> list[list[str]]:
    """The day's news as [time, wire, text], early first; `recent` keeps a text from coming back too soon."""
    wire = news()
    texts: list[str] = []
    used: set[str] = set()  # no template twice on one day

    def write(templates: Sequence[str], place: str) -> None:
        for _ in range(20):
            template = dice.pick(templates)
            text = fill(template, dice, place)
            if text not in recent and template not in used:
                texts.append(text)
                used.add(template)
                return

    anywhere = [place for names in wire.places.values() for place in names]
    for index, arc in enumerate(plan().crises):
        age = day - arc.day
        stage = _stage(arc, age)
        for _ in range(2 if stage in ("shock", "aftermath") and age < 2 else 1 if stage else 0):
            write(wire.arcs[arc.theme][stage], places[index])
    quiet = any(day in stretch for stretch in QUIET)
    if not quiet and dice.chance(0.35):
        region, template = dice.pick(wire.simmer)
        write([template], dice.pick(wire.places[region]))
    if not quiet and dice.chance(0.06):
        region, template = dice.pick(wire.alarms)
        write([template], dice.pick(wire.places[region]))
    for _ in range(1 + dice.chance(0.7) + dice.chance(0.4)):
        write(wire.decoys[dice.pick(list(wire.decoys))], dice.pick(anywhere))
    for _ in range(3 + dice.chance(0.5)):
        write(wire.plain, dice.pick(anywhere))
    recent[:] = (recent + texts)[-120:]
    times = sorted({int(dice.between(5, 13 * 60 + 50)) for _ in range(40)})
    order = sorted(texts, key=lambda _: dice.between(0, 1))
    step = len(times) // len(order)
    return [
        [f"{times[n * step] // 60:02d}:{times[n * step] % 60:02d}", dice.pick(wire.wires), text]
        for n, text in enumerate(order)
    ]
