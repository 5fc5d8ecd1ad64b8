"""Which points go into a batch: how many, how good and how different they must be, and in which order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from telemetry.batches.formats import CURRICULUM, GRPO, SFT, TURNS
from telemetry.batches.points import Point
from telemetry.edge.frozen import frozen
from telemetry.read.rows import in_utc

RECENT: Final = 30  # days that come first
MOST: Final = 100_000  # points of one batch


@frozen
class Minimum:
    """What a batch must have to be worth a training; None is all that there are."""

    points: int
    quality: float
    task_types: int | None = 1
    agents: int = 1


MINIMA: Final = {
    SFT: Minimum(1_000, 0.8, task_types=3),
    TURNS: Minimum(5_000, 0.7, task_types=5),
    GRPO: Minimum(10_000, 0.7, agents=10),
    CURRICULUM: Minimum(20_000, 0.6, task_types=None),
}


def usable(kind: str, point: Point) -> bool:
    """Whether such a batch can hold the point at all: only graded cases can grade what a trainer generates."""
    return kind != GRPO or point.case_id is not None


def missing(kind: str, chosen: Sequence[Point], there: Collection[str]) -> list[str]:
    """What a batch lacks, a line each; `there` are the task types of everything that could be exported."""
    least = MINIMA[kind]
    counts = {
        "task types": len({one.task_type for one in chosen}),
        "agents": len({one.agent for one in chosen}),
    }
    wanted = {
        "task types": len(there) if least.task_types is None else least.task_types,
        "agents": least.agents,
    }
    found = [] if len(chosen) >= least.points else [f"{least.points - len(chosen):,} more points"]
    return found + [
        f"{wanted[name] - counts[name]} more {name}" for name in counts if counts[name] < wanted[name]
    ]


def picked(points: Iterable[Point], now: datetime, most: int = MOST) -> list[Point]:
    """The points in the order they are taken: the last month first, in turn by task type and agent, newest first."""
    edge = in_utc(now - timedelta(days=RECENT))
    by_age: dict[bool, list[Point]] = defaultdict(list)
    for point in points:
        by_age[point.ts >= edge].append(point)
    return [*_in_turn(by_age[True]), *_in_turn(by_age[False])][:most]


def _in_turn(points: Iterable[Point]) -> list[Point]:
    cells: Counter[tuple[str, str]] = Counter()
    ranked = []
    for point in sorted(points, key=lambda one: (one.ts, one.point_id), reverse=True):
        cell = (point.task_type, point.agent)
        ranked.append((cells[cell], cell, point))
        cells[cell] += 1
    return [point for _, _, point in sorted(ranked, key=lambda one: one[:2])]
