"""Intervals that hold for small samples and skewed data, where mean +- 2 standard errors does not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from telemetry.edge.frozen import frozen

Z95 = 1.959963984540054  # two-sided 95 % of the normal distribution


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float] | None:
    """Wilson's score interval of a proportion; None for no observation (E. B. Wilson, JASA 1927)."""
    if n <= 0:
        return None
    share = hits / n
    centre = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # None of n, and all of n, end at 0 and 1 exactly: rounding must not make either a finding.
    return (centre - spread) / scale if hits else 0.0, (centre + spread) / scale if hits < n else 1.0


def mean_upper_bound(values: Sequence[float], ceiling: float = 1.0, alpha: float = 0.05) -> float:
    """An upper 1 - alpha bound of the mean of values that are at most `ceiling`, whatever their shape.

    By betting (Waudby-Smith & Ramdas, JRSS B 2024): if the mean were m, the wealth of a bettor against m,
    `mean over lambda of prod(1 + lambda * (m - x))`, would reach 1 / alpha with probability at most alpha. The
    bound is the smallest m so refuted. Rewards are mostly zero with rare large values; there a t-interval flags
    an agent that stands exactly at the floor in 6 to 7 % of windows, this one in at most 5 %.
    """
    import numpy as np

    x = np.minimum(np.asarray(values, dtype=float), ceiling)
    if x.size == 0:
        return math.inf
    kinds, counts = np.unique(x, return_counts=True)  # rewards repeat: most of them are zero
    shares = np.linspace(0.1, 0.95, 8)[:, None]
    goal = math.log(1 / alpha)

    def refuted(m: float) -> bool:
        log_wealth = np.log1p(shares / (ceiling - m) * (m - kinds)) @ counts
        peak = log_wealth.max()
        return float(peak + math.log(float(np.exp(log_wealth - peak).mean()))) >= goal

    low, high = float(x.mean()), ceiling
    for _ in range(14):  # to less than a ten-thousandth of the range
        middle = (low + high) / 2
        low, high = (low, middle) if middle < ceiling and refuted(middle) else (middle, high)
    return high


def mean_lower_bound(values: Sequence[float], floor: float = -1.0, alpha: float = 0.05) -> float:
    """The mirror image, for values that are at least `floor` (lower ones count as `floor`)."""
    return -mean_upper_bound([-max(value, floor) for value in values], ceiling=-floor, alpha=alpha)


@frozen
class Mean:
    """A mean, and the squares of the differences from it."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Of plain values."""
        mean = math.fsum(values) / len(values) if values else 0.0
        return cls(len(values), mean, math.fsum((value - mean) ** 2 for value in values))

    @classmethod
    def pooled(cls, parts: Iterable[tuple[int, float, float]]) -> Mean:
        """From parts that come as (count, mean, variance): Chan, Golub and LeVeque 1979."""
        n, mean, squares = 0, 0.0, 0.0
        for count, part, variance in parts:
            total, delta = n + count, part - mean
            squares += variance * (count - 1) + delta * delta * n * count / total
            mean += delta * count / total
            n = total
        return cls(n, mean, squares)

    def standard_error(self) -> float | None:
        return math.sqrt(self.squares / (self.n - 1) / self.n) if self.n > 1 else None

    def interval(self) -> list[float] | None:
        """The 95 % confidence interval of the mean, by Student's t."""
        error = self.standard_error()
        spread = None if error is None else t95(self.n - 1) * error
        return None if spread is None else [self.mean - spread, self.mean + spread]


def t95(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: exact for 1 and 2 degrees of freedom, else Hill's expansion (CACM 396)."""
    if freedom <= 2:
        return 12.706204736 if freedom == 1 else 4.302652730
    z = Z95
    expansion = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(expansion))
