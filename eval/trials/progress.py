"""Tells how far a run is: one line that rewrites itself on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

TERMINAL_EVERY_S = 0.1
PLAIN_EVERY_S = 10.0  # in a CI log


_listener: Callable[[str], None] | None = None


@contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """Let a script that runs quietly within another tell that one how far it is."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


class Progress:
    """Counts finished trials; rate and time left come from those really run, not from resumed ones."""

    def __init__(
        self,
        what: str,
        total: int,
        *,
        quiet: bool = False,
        max_usd: float | None = None,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.total, self.quiet, self.max_usd = what, total, quiet, max_usd
        self.out, self.clock = out or sys.stderr, clock
        self.terminal = self.out.isatty()
        self.listener = _listener if quiet else None
        self.every_s = TERMINAL_EVERY_S if self.terminal or self.listener else PLAIN_EVERY_S
        self.done = self.ran = self.passed = self.errors = self.unpriced = 0
        self.usd = 0.0
        self.started = self.told = clock()

    def see(self, ok: bool | None, cost_usd: float | None, resumed: bool) -> None:
        """One more trial is finished; `ok` is None for an infrastructure error."""
        self.done += 1
        self.passed += ok is True
        self.errors += ok is None
        if not resumed:
            self.ran += 1
            self.usd += cost_usd or 0.0
            self.unpriced += cost_usd is None and ok is not None
        if (self.listener or not self.quiet) and self.clock() - self.told >= self.every_s:
            self.tell()

    def tell(self) -> None:
        """Print the line as it stands."""
        self.told = self.clock()
        if self.listener:
            self.listener(self.line())
            return
        start, end = ("\r", "\x1b[K") if self.terminal else ("", "\n")
        self.out.write(f"{start}{self.line()}{end}")
        self.out.flush()

    def finish(self) -> None:
        """The last line."""
        if not self.quiet:
            self.tell()
            if self.terminal:
                self.out.write("\n")

    def line(self) -> str:
        """`eval 120/240 · 96 passed · 45.2/s · 0:03 left · $0.0123 of $2`."""
        elapsed = max(self.clock() - self.started, 1e-9)
        rate = self.ran / elapsed
        parts = [f"{self.what} {self.done}/{self.total}", f"{self.passed} passed"]
        if self.errors:
            parts.append(f"{self.errors} errors")
        parts.append(f"{rate:.1f}/s")
        if self.done < self.total and rate > 0:
            left = int((self.total - self.done) / rate)
            parts.append(f"{left // 60}:{left % 60:02} left")
        cap = "" if self.max_usd is None else f" of ${self.max_usd:g}"
        unknown = f" and {self.unpriced} of unknown cost" if self.unpriced else ""
        parts.append(f"${self.usd:.4f}{cap}{unknown}")
        return " · ".join(parts)
