"""Tests whether the challenger is better: a paired test that may look after every case, and stop when it knows.

One difference per case, challenger minus champion, in [-1, 1], in a random order fixed beforehand. The null
hypothesis is "the mean difference is at most m" (m = 0: not better). Whoever bets a share `b` of its wealth on
the next difference holds wealth times `1 + b * (d - m)`; under the null no betting plan can expect to gain, so
(Ville 1939) wealth ever reaches 1/a with probability at most a, whenever one looks and for whatever reason one
stops. The wealth is the e-value. See Waudby-Smith & Ramdas, "Estimating means of bounded random variables by
betting" (JRSS B, 2024).

The wealth is spread over a few plans, and a mixture of valid plans is valid:
- fixed shares (`SHARES`), which settle large effects early;
- one plan that knows how many cases there are and bets, at each case, what an effect just large enough to reach
  the goal by the last case would make optimal (target-recalculating bets, Voracek & Orabona 2025). It is what
  finds small effects late: one to two points more power than fixed shares alone with three trials a case,
  fifteen and more with one.

`alpha` is shared between the two sides (`LOWER_SHARE`), so that promotion and the interval always agree: a
promoted challenger's interval lies above zero, and the interval covers the truth with probability 1 - alpha at
the stopping time. Weights have to be known before the outcomes (agents of different suite sizes count equally);
the differences of one agent may be good and of another bad, only the weighted mean is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite, log, log1p, sqrt
from typing import Literal

from telemetry.edge.frozen import frozen

Verdict = Literal["promote", "keep", "inconclusive"]

SHARES = (0.5, 0.7, 0.9)  # of the wealth; beyond 0.9 one lost case costs nearly everything
FIXED_WEIGHT = 0.6  # of the starting wealth on the fixed shares, the rest on the plan with a horizon
MAX_SHARE = 0.9
LOWER_SHARE = 0.8  # of alpha to the lower bound, which decides; the rest to the upper one
PRIOR_SD, PRIOR_CASES = 0.3, 10  # what the horizon plan believes of the spread before it has seen any
MIN_CASES = 10  # no verdict on fewer
FUTILITY_AFTER = 20  # cases; before that the spread is a guess
FUTILITY_Z = 2.8  # how surprising the remaining cases would have to be; costs 0.5 points of power


@frozen
class PairedResult:
    """What the test knows where it stopped."""

    verdict: Verdict
    n_used: int
    e_value: float  # evidence that the challenger is better: the odds at which the null has been beaten
    mean: float  # weighted mean difference over the cases used
    ci_low: float
    ci_high: float
    reason: str


class _Wealth:
    """The logarithm of the wealth won by betting that the mean lies above `null` (`sign` 1) or below (-1)."""

    def __init__(self, sign: int, null: float, goal: float, horizon: int, mean_square: float) -> None:
        self._sign, self._null = sign, null
        self._cap = 1 / max(0.05, 1 + sign * null)  # the largest possible loss is 1 + sign * null
        self._fixed = [0.0] * len(SHARES)
        self._late = 0.0
        self._goal = goal - log(1 - FIXED_WEIGHT)
        self._left = horizon
        self._squares = PRIOR_SD**2 * PRIOR_CASES * mean_square
        self._cases = PRIOR_CASES

    def add(self, difference: float, weight: float) -> None:
        gain = self._sign * weight * (difference - self._null)
        for i, share in enumerate(SHARES):
            self._fixed[i] += log1p(share * self._cap * gain)
        missing = max(0.0, self._goal - self._late)
        spread = self._squares / self._cases * max(1, self._left)
        share = min(MAX_SHARE * self._cap, sqrt(2 * missing / spread)) if spread > 0 else 0.0
        self._late += log1p(share * gain)
        self._left -= 1
        self._squares += gain * gain
        self._cases += 1

    def log_value(self) -> float:
        parts = [log(FIXED_WEIGHT / len(SHARES)) + part for part in self._fixed]
        parts.append(log(1 - FIXED_WEIGHT) + self._late)
        top = max(parts)
        return top + log(sum(exp(part - top) for part in parts))


class PairedTest:
    """The test as it runs: `add` one case after the other until `decision` is no longer None."""

    def __init__(
        self,
        horizon: int,
        alpha: float = 0.05,
        min_effect: float = 0.01,
        weights: Sequence[float] | None = None,
        min_cases: int = MIN_CASES,
        *,
        null: float = 0.0,
        futility_z: float = FUTILITY_Z,
    ) -> None:
        """`horizon` is how many cases there are at most, `weights` their weights (default: all equal).

        `null` is the mean that has to be beaten: 0 for "better", less for "not worse by more than that".
        """
        if not 0 < alpha < 1:
            raise ValueError(f"alpha: must lie between 0 and 1, not {alpha}")
        if not -1 < min_effect < 1:
            raise ValueError(f"min_effect: must lie between -1 and 1, not {min_effect}")
        weights = [1.0] * horizon if weights is None else weights
        if any(not isfinite(weight) or weight < 0 for weight in weights) or (weights and max(weights) <= 0):
            raise ValueError("weights: must be finite, >= 0 and not all 0")
        self._heaviest = max(weights, default=1.0)
        self._mean_square = sum((w / self._heaviest) ** 2 for w in weights) / max(1, len(weights))
        self._horizon, self._min_effect, self._min_cases = horizon, min_effect, min_cases
        self._low_goal = -log(alpha * LOWER_SHARE)
        self._high_goal = -log(alpha * (1 - LOWER_SHARE))
        self._null, self._futility_z = null, futility_z
        self._better = self._bet(1, null)
        self._not_enough = self._bet(-1, min_effect)
        self._seen: list[tuple[float, float]] = []
        self._sum = self._weight = self._squares = 0.0
        self.decision: Verdict | None = None
        self.reason = ""

    def add(self, difference: float, weight: float = 1.0) -> Verdict | None:
        """One more case, in the order fixed beforehand; the verdict as soon as there is one."""
        if self.decision is not None:
            return self.decision
        if not -1 <= difference <= 1:
            raise ValueError(f"differences: must lie in [-1, 1], not {difference}")
        weight /= self._heaviest
        if not 0 <= weight <= 1:
            raise ValueError(f"weights: {weight * self._heaviest} was not announced")
        self._seen.append((difference, weight))
        self._sum += weight * difference
        self._weight += weight
        self._squares += (weight * (difference - self._null)) ** 2
        self._better.add(difference, weight)
        self._not_enough.add(difference, weight)
        self._decide()
        return self.decision

    def result(self) -> PairedResult:
        """Where the test stands; without a decision the champion stays, or there was too little to say."""
        verdict, reason = self.decision, self.reason
        if verdict is None and len(self._seen) < self._min_cases:
            verdict = "inconclusive"
            reason = f"{len(self._seen)} cases, at least {self._min_cases} are needed"
        elif verdict is None:
            verdict, reason = "keep", "all cases used, no improvement shown"
        low, high = self.interval()
        return PairedResult(verdict, len(self._seen), self.e_value, self.mean, low, high, reason)

    def reopen(self) -> None:
        """Take back a decision that somebody else's rule does not bear out; the next case may bring it again."""
        self.decision, self.reason = None, ""

    @property
    def e_value(self) -> float:
        """Evidence that the null is beaten."""
        return exp(min(700.0, self._better.log_value()))

    @property
    def mean(self) -> float:
        """Weighted, over the cases seen."""
        return self._sum / self._weight if self._weight > 0 else 0.0

    def _decide(self) -> None:
        n = len(self._seen)
        if n < self._min_cases:
            return
        if self._better.log_value() >= self._low_goal and self.mean >= self._min_effect:
            self.decision, self.reason = "promote", "better, beyond reasonable doubt"
        elif self._not_enough.log_value() >= self._high_goal:
            self.decision, self.reason = "keep", "an improvement worth having is ruled out"
        elif n >= FUTILITY_AFTER and self._hopeless(n):
            self.decision, self.reason = "keep", "the remaining cases could hardly show an improvement"

    def _hopeless(self, n: int) -> bool:
        """Would the remaining cases have to be surprisingly unlike those seen? (Stopping costs no validity.)

        Wealth reaches e^goal by the end only if the total reaches about spread * sqrt(2 * goal * horizon),
        however one bets; the mean of the remaining cases is predicted from the mean of those seen.
        """
        left = self._horizon - n
        if left <= 0:
            return False
        prior = PRIOR_SD**2 * PRIOR_CASES * self._mean_square
        spread = sqrt((prior + self._squares) / (PRIOR_CASES + n))
        gained = self._sum - self._null * self._weight
        needed = (spread * sqrt(2 * self._low_goal * self._horizon) - gained) / left
        return needed > gained / n + self._futility_z * spread * sqrt(1 / n + 1 / left)

    def _bet(self, sign: int, null: float) -> _Wealth:
        goal = self._low_goal if sign > 0 else self._high_goal
        return _Wealth(sign, null, goal, self._horizon, self._mean_square)

    def interval(self) -> tuple[float, float]:
        """Every mean that has not been beaten by a bet against it, from either side."""
        if not self._seen:
            return -1.0, 1.0
        low = self._bound(1, self._null if self.decision == "promote" else -1.0, self.mean)
        return low, self._bound(-1, 1.0, self.mean)

    def _bound(self, sign: int, outside: float, inside: float) -> float:
        goal = self._low_goal if sign > 0 else self._high_goal
        for _ in range(22):  # halving: to 5e-7, never to the optimistic side
            middle = (outside + inside) / 2
            wealth = self._bet(sign, middle)
            for difference, weight in self._seen:
                wealth.add(difference, weight)
            if wealth.log_value() >= goal:
                outside = middle
            else:
                inside = middle
        return outside


def paired_test(
    differences: Sequence[float],
    alpha: float = 0.05,
    min_effect: float = 0.01,
    weights: Sequence[float] | None = None,
    *,
    min_cases: int = MIN_CASES,
) -> PairedResult:
    """Test the differences in the given order; `n_used` says where it stopped."""
    if weights is not None and len(weights) != len(differences):
        raise ValueError(f"weights: {len(weights)} of them for {len(differences)} differences")
    test = PairedTest(len(differences), alpha, min_effect, weights, min_cases)
    for i, difference in enumerate(differences):
        if test.add(difference, 1.0 if weights is None else weights[i]) is not None:
            break
    return test.result()


def interval(differences: Sequence[float], weights: Sequence[float] | None = None) -> tuple[float, float]:
    """The 95 % confidence interval of a mean of bounded differences."""
    test = PairedTest(len(differences), weights=weights, min_cases=len(differences) + 1)
    for i, difference in enumerate(differences):
        test.add(difference, 1.0 if weights is None else weights[i])
    return test.interval()
