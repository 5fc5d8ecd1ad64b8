"""The planted part of the sample market: its dice, its crises, and what the news wire says on a day.

What is planted when stands in `plan.yaml`, the templates of the wire in `headlines.yaml`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_yaml

PLAN: Final = load_yaml((Path(__file__).parent / "plan.yaml").read_bytes())
NEWS: Final = load_yaml((Path(__file__).parent / "headlines.yaml").read_bytes())
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


@frozen
class Arc:
    """A planted crisis."""

    day: int
    theme: str
    region: str
    moves: dict[str, list[float]]
    warned: int = 1
    relief: int | None = None


CRISES: Final = [Arc(**arc) for arc in PLAN["crises"]]


def is_quiet(day: int) -> bool:
    return any(first <= day < end for first, end in PLAN["quiet"])


def _stage(arc: Arc, age: int) -> str:
    """What a crisis is in, so many days after its outbreak; empty when the wire is silent about it."""
    if age == arc.relief:
        return "relief"
    if age < 0:
        return "tremor" if age >= -arc.warned else ""
    return "shock" if age == 0 else "aftermath" if age < ACTIVE else ""


def fill(template: str, dice: Dice, place: str) -> str:
    """The template with every slot filled; two teams in one headline are never the same."""
    slots = NEWS["slots"]
    values = {name: dice.pick(choices) for name, choices in slots.items() if "{" + name + "}" in template}
    if "{team2}" in template:
        values["team2"] = dice.pick([team for team in slots["team"] if team != values.get("team")])
    text = template.format(place=place, **values)
    return text[0].upper() + text[1:]


def headlines(day: int, places: dict[int, str], recent: list[str], dice: Dice) -> list[list[str]]:
    """The day's news as [time, wire, text], early first; `recent` keeps a text from coming back too soon."""
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

    towns = NEWS["places"]
    anywhere = [place for names in towns.values() for place in names]
    for index, arc in enumerate(CRISES):
        age = day - arc.day
        if stage := _stage(arc, age):
            for _ in range(2 if stage in ("shock", "aftermath") and age < 2 else 1):
                write(NEWS["arcs"][arc.theme][stage], places[index])
    for sort, share in (("simmer", 0.35), ("alarms", 0.06)):
        if not is_quiet(day) and dice.chance(share):
            region, template = dice.pick(NEWS[sort])
            write([template], dice.pick(towns[region]))
    for _ in range(1 + dice.chance(0.7) + dice.chance(0.4)):
        write(NEWS["decoys"][dice.pick(list(NEWS["decoys"]))], dice.pick(anywhere))
    for _ in range(3 + dice.chance(0.5)):
        write(NEWS["plain"], dice.pick(anywhere))
    recent[:] = (recent + texts)[-120:]
    times = sorted({int(dice.between(5, 13 * 60 + 50)) for _ in range(40)})
    order = sorted(texts, key=lambda _: dice.between(0, 1))
    spaced = times[:: len(times) // len(order)]
    return [
        [f"{minute // 60:02d}:{minute % 60:02d}", dice.pick(NEWS["wires"]), text]
        for minute, text in zip(spaced, order, strict=False)
    ]
