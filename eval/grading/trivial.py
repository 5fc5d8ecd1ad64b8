"""What an agent gains by always answering nothing: the floor that pass rates are read against. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from eval.grading.graders import passes_empty
from eval.grading.suite import Case, splits

TRIVIAL: Final = 0.5  # a suite of which nothing passes more than this share tells little apart


@dataclass(frozen=True, slots=True)
class Baseline:
    """How many cases the empty answer passes."""

    passed: int
    total: int
    pass_rate: float | None  # None of no case


def empty_baseline(cases: Collection[Case]) -> dict[str, Baseline]:
    """By split, with the real graders."""
    total = Counter(case.split for case in cases)
    passed = Counter(case.split for case in cases if passes_empty(case.expect, case.threshold))
    return {half: _baseline(passed[half], total[half]) for half in splits(cases)}


def _baseline(passed: int, total: int) -> Baseline:
    return Baseline(passed, total, round(passed / total, 6) if total else None)
