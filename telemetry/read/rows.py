"""What is a row? The columns of an event, the rule for a malformed line, and the window asked for."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Final

REQUIRED: Final = ("event_id", "ts", "kind", "agent", "run_id", "source")
NUMBERS: Final = {
    "latency_ms": "double",
    "cost_usd": "double",
    "reward": "double",
    "signal_strength": "double",
    "profit_pct": "double",
    "tokens_in": "bigint",
    "tokens_out": "bigint",
    "tokens_thinking": "bigint",
    "tokens_cached": "bigint",
    "schema_version": "bigint",
}
TEXTS: Final = (
    *("event_id", "kind", "agent", "run_id", "source", "error", "error_kind", "cost_source"),
    *("price_list_version", "scoring_version", "model", "provider", "prompt_hash", "as_of", "signals"),
)
# What is summed up: here anything but a number or null makes the line malformed; elsewhere it reads as unknown.
MEASURES: Final = ("latency_ms", "cost_usd", "reward")
COLUMNS: Final = ("ts", *TEXTS, *NUMBERS)

TAIL_BLOCK: Final = 1 << 20  # bytes read at a time from the end of the log
# Looking for the last N this many lines back without finding them, a full scan is the faster way.
TAIL_PATIENCE: Final = 100_000


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows are asked for. `last_n` counts matching rows by order of appending; 0 means all."""

    last_n: int = 0
    since: datetime | None = None
    source: str | None = None
    kind: str | None = None

    def matches(self, event: dict[str, Any]) -> bool:
        return (
            (self.kind is None or event["kind"] == self.kind)
            and (self.source is None or event["source"] == self.source)
            and (self.since is None or event["ts"][:23] >= _instant(self.since))
        )

    def condition(self) -> str:
        """The same as SQL."""
        parts = ["true"]
        if self.kind is not None:
            parts.append(f"kind = {quoted(self.kind)}")
        if self.source is not None:
            parts.append(f"source = {quoted(self.source)}")
        if self.since is not None:
            parts.append(f"ts >= cast({quoted(_instant(self.since))} as timestamp)")
        return " and ".join(parts)


def parse(line: bytes) -> dict[str, Any] | None:
    """The event on a line, or None if it is malformed: the rule that the view applies, for one line."""
    import orjson

    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        event = _with_nan(line)
    if type(event) is not dict:
        return None
    for name in REQUIRED:
        if event.get(name) is None:
            return None
    for name in MEASURES:
        value = event.get(name)
        if value is None or type(value) is int:
            continue
        if type(value) is not float or not math.isfinite(value):
            return None
    return event if _is_instant(event["ts"]) else None


def _with_nan(line: bytes) -> object:
    """A line that only NaN or Infinity keep from being JSON: Python writes them, DuckDB reads them, and so do we."""
    if b"NaN" not in line and b"Infinity" not in line:
        return None
    import json

    try:
        event = json.loads(line.decode())
        json.dumps(event, ensure_ascii=False).encode()  # half a character is malformed here as there
    except (ValueError, RecursionError):
        return None
    return event


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log: the matching lines and the malformed ones between them."""

    lines: list[bytes]
    found: int


def read_tail(log: IO[bytes], size: int, window: Window) -> Tail | None:
    """The last matching lines, read from the end; None if they lie too far back to look for them this way."""
    kept: list[bytes] = []
    found = seen = 0
    for line in backwards(log, size):
        if not line.strip():
            continue
        event = parse(line)
        if event is None:
            kept.append(line)
        elif window.matches(event):
            kept.append(line)
            found += 1
        seen += 1
        if found == window.last_n:
            break
        if seen > window.last_n + TAIL_PATIENCE:
            return None
    return Tail(kept, found)


def backwards(log: IO[bytes], size: int) -> Iterator[bytes]:
    """The lines of the first `size` bytes, last line first."""
    rest = b""
    while size > 0:
        block = min(TAIL_BLOCK, size)
        size -= block
        lines = (os.pread(log.fileno(), block, size) + rest).split(b"\n")
        rest = lines[0]
        yield from reversed(lines[1:])
    yield rest


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _instant(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:23]


def _is_instant(text: object) -> bool:
    if not isinstance(text, str) or len(text) < 20 or text[4] + text[10] + text[-1] != "-TZ":
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
