"""Sums that may leave: how many runs each agent had and how good they were, with noise, while there is budget for it.

The unit is one run: whether any single run was among them can be told from a release only as well as epsilon allows.
A run belongs to one agent, so the agents of a release cost no more than one. OpenDP makes the noise and adds up what
all releases so far come to; what would go beyond the budget is refused, for good: noise can be averaged away.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from telemetry import logger
from telemetry.edge.errors import BadInput
from telemetry.edge.files import EXPORTS, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import is_number, load_json

SPENT: Final = EXPORTS / "privacy.jsonl"  # one line a release


@frozen
class Figures:
    """What is released of one agent: both with noise, so the mean of few runs may lie outside 0..1 and is cut there."""

    runs: int
    mean_quality: float | None


def spent(repo: Repo) -> list[float]:
    """The epsilons of all releases so far."""
    file = repo / SPENT
    found = []
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            found.append(load_json(line)["epsilon"])
        except (ValueError, KeyError, TypeError) as problem:
            raise BadInput(f"{SPENT}: what was spent cannot be read, so nothing more is: {problem}") from None
    if not all(is_number(one) and one > 0 for one in found):  # less than nothing would give some back
        raise BadInput(
            f"{SPENT}: what was spent cannot be read, so nothing more is: epsilon must be a number > 0"
        )
    return found


def total(epsilons: Sequence[float]) -> float:
    """What releases come to together, by OpenDP's composition."""
    dp = _opendp()
    composed = dp.c.make_adaptive_composition(*_space(dp), dp.max_divergence(), 1, list(epsilons))
    return float(composed.map(1))


def release(
    repo: Repo, qualities: Mapping[str, Iterable[float]], epsilon: float, budget: float
) -> tuple[dict[str, Figures], float]:
    """The figures by agent, and what is left of the budget; bad input when they would cost more than that.

    What is spent is on record before anybody sees a figure, and one release waits for another.
    """
    (repo / SPENT).parent.mkdir(parents=True, exist_ok=True)
    with (repo / SPENT).open("ab") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        before = spent(repo)
        cost = total([*before, epsilon])
        if cost > budget + 1e-9:
            left = max(0.0, budget - (total(before) if before else 0.0))
            raise BadInput(
                f"--epsilon {epsilon:g}: {left:.4g} of {budget:g} is left ({SPENT}); ask for less, or not at all"
            )
        found = {agent: figures(own, epsilon) for agent, own in sorted(qualities.items())}
        row = {"ts": logger.utc_now(), "epsilon": epsilon, "agents": len(found)}
        ledger.write(logger.encode(row))
        ledger.flush()
        os.fsync(ledger.fileno())
    return found, max(0.0, round(budget - cost, 9))


def figures(qualities: Iterable[float], epsilon: float) -> Figures:
    """Half of epsilon for how many, half for how good; the compositor answers these two questions and no third."""
    dp = _opendp()
    half = epsilon / 2

    def noised(*steps: Any) -> Any:
        def chain(scale: float) -> Any:
            made = _space(dp)
            for step in (*steps, dp.m.then_laplace(scale=scale)):
                made = made >> step
            return made

        return dp.binary_search_chain(chain, d_in=1, d_out=half)

    both = dp.c.make_adaptive_composition(*_space(dp), dp.max_divergence(), 1, [half, half])
    asked = both(list(map(float, qualities)))
    runs = int(asked(noised(dp.t.then_count())))
    summed = float(asked(noised(dp.t.then_clamp((0.0, 1.0)), dp.t.then_sum())))
    return Figures(max(0, runs), round(min(1.0, max(0.0, summed / runs)), 4) if runs > 0 else None)


def _space(dp: Any) -> Any:
    return dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()


def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise BadInput("aggregates: needs OpenDP: pip install -e '.[privacy]'") from None
    dp.enable_features("contrib")
    return dp
