"""Whether a figure rises or falls over days, or only wavers: tested, not eyeballed. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

ALPHA: Final = 0.05
LEAST_DAYS: Final = 8  # with fewer, the normal approximation of the test is none


def direction(days: Sequence[float], *, alpha: float = ALPHA) -> int:
    """1 rising, -1 falling, 0 neither can be told (Mann 1945, Kendall 1975; two-sided, ties counted).

    It asks only whether later days tend to lie above earlier ones: one wild day decides nothing.
    """
    p, s = mann_kendall(days)
    return 0 if p is None or p > alpha else 1 if s > 0 else -1


def mann_kendall(days: Sequence[float]) -> tuple[float | None, int]:
    """The p-value, None for too few days or days that are all alike, and the statistic S."""
    n = len(days)
    s = sum((later > day) - (later < day) for at, day in enumerate(days) for later in days[at + 1 :])
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(days).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    if n < LEAST_DAYS or variance <= 0:
        return None, s
    z = 0.0 if s == 0 else (s - math.copysign(1, s)) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2)), s


def shares_differ(hits: tuple[float, int], others: tuple[float, int], *, alpha: float = ALPHA) -> bool:
    """Whether two shares, each as (hits, of), differ by more than chance (two-sided z-test, pooled)."""
    (a, n), (b, m) = hits, others
    if not n or not m:
        return False
    pooled = (a + b) / (n + m)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    return spread > 0 and math.erfc(abs(a / n - b / m) / spread / math.sqrt(2)) < alpha
