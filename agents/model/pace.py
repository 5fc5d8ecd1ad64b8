"""How many calls an endpoint gets at once, and how long each may take: a slow endpoint is not a dead one.

An endpoint that answers one at a time queues the rest. A call's time limit therefore starts anew whenever a call that
was sent before it is answered: until then the endpoint cannot have begun with it. And an endpoint that refuses for
load, or takes more than half the limit, gets half as many calls at once; one more again after each full round.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any


class Flight:
    """One call on its way: when it was sent last, and as which of all."""

    __slots__ = ("number", "sent")

    def __init__(self) -> None:
        self.number, self.sent = 0, 0.0


class Pace:
    """The calls in flight at one endpoint, on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self.limit, self._most, self._loop = most, most, loop
        self._flying, self._count = 0, 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._answers: deque[tuple[int, float]] = deque(maxlen=most)  # (number, when) of the latest
        self._good, self._slowed = 0, 0  # answers since the last change; calls sent before that

    async def __aenter__(self) -> Flight:
        """A place among the calls in flight, waited for if need be."""
        while self._flying >= self.limit:
            turn = self._loop.create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done():  # it was woken, and another may have its turn
                    self._wake()
                raise
        self._flying += 1
        return Flight()

    async def __aexit__(self, *_: object) -> None:
        self._flying -= 1
        self._wake()

    def limited(self, flight: Flight, limit_s: float, hard_s: float | None) -> Limit:
        """Send inside the block: TimeoutError when its time is over, at the latest after `hard_s`."""
        self._count += 1
        now = self._loop.time()
        flight.number, flight.sent = self._count, now
        return Limit(self, flight, limit_s, None if hard_s is None else now + hard_s)

    def ends(self, flight: Flight, limit_s: float) -> float:
        """When its time is over, as things are."""
        began = flight.sent
        for number, when in self._answers:
            if number < flight.number and when > began:
                began = when
        return began + limit_s

    def answered(self, flight: Flight, limit_s: float) -> None:
        """The endpoint has answered, whatever it said."""
        now = self._loop.time()
        self._answers.append((flight.number, now))
        if now - flight.sent > limit_s / 2 and self._flying > 1:
            self.slower(flight)
            return
        self._good += 1
        if self._good >= self.limit and self.limit < self._most:
            self.limit, self._good = self.limit + 1, 0
            self._wake()

    def slower(self, flight: Flight) -> None:
        """It is too much for the endpoint; calls that were sent at the old pace say so only once."""
        self._good = 0
        if flight.number > self._slowed:
            self.limit, self._slowed = max(1, self.limit // 2), self._count

    def _wake(self) -> None:
        while self._waiting and self._flying < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class Limit:
    """The time of one request; looked at again when it seems to be over, for others may have been answered since."""

    __slots__ = ("_clock", "_flight", "_last", "_limit_s", "_loop", "_pace", "_timer")

    def __init__(self, pace: Pace, flight: Flight, limit_s: float, last: float | None) -> None:
        self._pace, self._flight, self._limit_s, self._last = pace, flight, limit_s, last
        self._loop, self._clock = asyncio.get_running_loop(), asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._clock.__aenter__()
        self._timer = self._loop.call_at(self._due(), self._look)

    async def __aexit__(self, *raised: Any) -> None:
        self._timer.cancel()
        await self._clock.__aexit__(*raised)

    def _due(self) -> float:
        ends = self._pace.ends(self._flight, self._limit_s)
        return ends if self._last is None else min(ends, self._last)

    def _look(self) -> None:
        now, due = self._loop.time(), self._due()
        if due > now:
            self._timer = self._loop.call_at(due, self._look)
        else:
            self._clock.reschedule(now)
