"""A budget holds under concurrency, and once stopped it stays stopped."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.budget import Budget
from agents.model.call import LLMError
from telemetry.edge.errors import BadInput


async def spend(budget: Budget, worst: float, cost: float | None) -> float | None:
    """One call: what it cost, or None when it was refused."""
    try:
        reserved = await budget.reserve(worst)
    except LLMError as problem:
        assert problem.error_kind == "budget"
        return None
    await asyncio.sleep(0)
    budget.settle(reserved, cost)
    return worst if cost is None else cost


@given(
    st.floats(0.0, 1.0),
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 100) | st.none()), min_size=1, max_size=30),
)
def test_concurrent_calls_never_spend_more_than_the_cap(
    max_usd: float, calls: list[tuple[int, int | None]]
) -> None:
    """As long as a call costs at most its worst case."""
    budget = Budget(max_usd=max_usd)

    async def all_at_once() -> list[float | None]:
        return await asyncio.gather(
            *(
                spend(budget, worst / 100, None if share is None else worst * share / 10_000)
                for worst, share in calls
            )
        )

    spent = asyncio.run(all_at_once())
    assert budget.spent_usd <= max_usd + 1e-9
    assert budget.spent_usd == pytest.approx(sum(one for one in spent if one is not None))
    assert (None in spent) == (budget.stopped is not None)


def test_near_the_cap_a_call_waits_for_those_in_flight_instead_of_stopping() -> None:
    budget = Budget(max_usd=1.0)

    async def two() -> list[float | None]:
        return await asyncio.gather(*(spend(budget, 0.8, 0.1) for _ in range(3)))

    assert asyncio.run(two()) == [0.1, 0.1, 0.1]
    assert budget.stopped is None


def test_a_stopped_budget_stays_stopped_and_says_why() -> None:
    budget = Budget(max_usd=1.0)

    async def work() -> None:
        assert await spend(budget, 2.0, 0.0) is None
        assert await spend(budget, 0.1, 0.1) is None

    asyncio.run(work())
    assert budget.stopped is not None
    assert budget.stopped.startswith("max_usd 1 reached")


def test_max_calls_counts_exactly() -> None:
    budget = Budget(max_calls=7)

    async def many() -> list[float | None]:
        return await asyncio.gather(*(spend(budget, 0.0, 0.0) for _ in range(20)))

    assert asyncio.run(many()).count(0.0) == 7
    assert budget.calls == 7


def test_the_clock_starts_with_the_first_call() -> None:
    now = [100.0]
    budget = Budget(max_seconds=10, clock=lambda: now[0])
    now[0] = 500.0
    assert asyncio.run(spend(budget, 0.0, 0.0)) == 0.0
    assert budget.seconds_left() == 10
    now[0] = 510.0
    assert asyncio.run(spend(budget, 0.0, 0.0)) is None
    assert budget.stopped == "max_seconds 10 reached after 1 calls"


def test_without_limits_nothing_stops() -> None:
    budget = Budget()
    for _ in range(100):
        assert asyncio.run(spend(budget, 1e6, 1e6)) == 1e6


@pytest.mark.parametrize("limits", [{"max_usd": float("nan")}, {"max_calls": -1}, {"max_seconds": -0.5}])
def test_a_limit_that_could_never_hold_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(BadInput, match=next(iter(limits))):
        Budget(**limits)  # type: ignore[arg-type]
