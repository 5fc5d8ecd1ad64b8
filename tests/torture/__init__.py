"""What does it take to break it? The long proofs behind the promises, one module per kind of harm."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: of so many tries so many held; `wanted` were to be tried."""

    what: str
    held: int
    tried: int
    wanted: int
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.held == self.tried >= self.wanted


class Clock:
    """How long an area may still go on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        return time.monotonic() > self._end

    def share(self, parts: int, own: int = 1) -> Clock:
        """What is left, for the first of so many; `own` parts of it."""
        return Clock(max(0.0, self._end - time.monotonic()) * own / parts)
