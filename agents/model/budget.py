"""Holds a run to what it may spend: in USD, in calls, in seconds.

A call reserves its worst case before it is sent, so calls in flight cannot overshoot together; near the cap,
calls wait until those before them are settled. Once a limit is reached the budget stays stopped. The scripts of a
night share one: each has its own limits, and those of `whole` above them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from agents.model.call import LLMError
from telemetry.edge.errors import BadInput

if TYPE_CHECKING:
    import asyncio


night: ContextVar[Budget | None] = ContextVar("night", default=None)  # what all scripts of a night may use


class Budget:
    """Limits of one run; None is no limit. Safe to share between threads and event loops."""

    def __init__(
        self,
        max_usd: float | None = None,
        max_calls: int | None = None,
        max_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        whole: Budget | None = None,
    ) -> None:
        for name, limit in (("max_usd", max_usd), ("max_calls", max_calls), ("max_seconds", max_seconds)):
            if limit is not None and not limit >= 0:  # also NaN, which no sum would ever exceed
                raise BadInput(f"budget: {name}: must be a number >= 0, not {limit}")
        self.max_usd, self.max_calls, self.max_seconds = max_usd, max_calls, max_seconds
        self.spent_usd = 0.0  # settled; a call of unknown cost counts with its worst case
        self.calls = 0
        self.stopped: str | None = None  # why, once a limit was reached
        self._reserved: list[float] = []
        self._clock, self._whole = clock, whole
        self._ends: float | None = None  # set by the first call, not while imports before it take their time
        self.on_settled: Callable[[Budget], None] = lambda _: None  # told of every call that is over
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def settled(self) -> int:
        """Calls that are over."""
        return self.calls - len(self._reserved)

    def seconds_left(self) -> float | None:
        """Until `max_seconds` is over; None without such a limit."""
        own = None if self._ends is None else self._ends - self._clock()
        above = self._whole.seconds_left() if self._whole else None
        return own if above is None else above if own is None else min(own, above)

    async def reserve(self, worst_usd: float = 0.0) -> float:
        """Set the worst case aside, waiting for calls in flight if need be; give it back with `settle`."""
        if self._whole:
            await self._whole.reserve(worst_usd)
        try:
            while (turn := self._try(worst_usd)) is not None:
                await turn.wait()
        except BaseException:  # it was never sent: whatever kept it from that goes on
            if self._whole:
                self._whole.release(worst_usd)
            raise
        return worst_usd

    def release(self, reserved: float) -> None:
        """The call was not made after all."""
        with self._lock:
            self.calls -= 1
        self.settle(reserved, 0.0)

    def settle(self, reserved: float, cost_usd: float | None) -> None:
        """The call is over; None means its cost is unknown, and the worst case is taken."""
        if self._whole:
            self._whole.settle(reserved, cost_usd)
        with self._lock:
            self._reserved.remove(reserved)
            self.spent_usd += reserved if cost_usd is None else cost_usd
            waiting, self._waiting = self._waiting, []
        for loop, turn in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(turn.set)
        self.on_settled(self)

    def stop(self, reason: str) -> LLMError:
        """Refuse this and every later call; returns the error to raise."""
        self.stopped = self.stopped or reason
        return LLMError(f"budget: {self.stopped}", "budget")

    def _try(self, worst_usd: float) -> asyncio.Event | None:
        """Reserve, or say what to wait for, or raise."""
        with self._lock:
            if self.stopped is not None:
                raise self.stop(self.stopped)
            if self.max_seconds is not None and self._ends is None:
                self._ends = self._clock() + self.max_seconds
            left = self.seconds_left()
            if left is not None and left <= 0:
                raise self.stop(f"max_seconds {self.max_seconds:g} reached after {self.calls} calls")
            if self.max_calls is not None and self.calls >= self.max_calls:
                raise self.stop(f"max_calls {self.max_calls} reached")
            if self.max_usd is not None and self.spent_usd + sum(self._reserved) + worst_usd > self.max_usd:
                if not self._reserved:
                    raise self.stop(
                        f"max_usd {self.max_usd:g} reached: {self.spent_usd:.6f} spent in {self.calls} calls,"
                        f" the next may cost {worst_usd:.6f}"
                    )
                import asyncio

                turn = asyncio.Event()
                self._waiting.append((asyncio.get_running_loop(), turn))
                return turn
            self.calls += 1
            self._reserved.append(worst_usd)
            return None
