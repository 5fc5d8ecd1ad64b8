"""Random numbers for data that is committed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

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
