"""Rows as they are read: the columns of an event, the rule for a malformed line, and the window asked for."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO, Any, Final

from telemetry.edge import cli
from telemetry.edge.frozen import frozen
from telemetry.logger import SOURCES

REQUIRED: Final = ("event_id", "ts", "kind", "agent", "run_id", "source")  # of every row, as it is read
SAID: Final = ("ts", "agent", "run_id")  # of these a line has to speak, whoever wrote it; the others follow
# A moment with its zone, in the forms that Python and DuckDB read alike.
ZONED: Final = (
    r"[12]\d{3}-\d\d-\d\d[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
    r"(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"
)
NUMBERS: Final = {
    "latency_ms": "double",
    "cost_usd": "double",
    "reward": "double",
    "signal_strength": "double",
    "profit_pct": "double",  # the best profit that an output names, in percent; null where there is none
    "tokens_in": "bigint",
    "tokens_out": "bigint",
    "tokens_thinking": "bigint",
    "tokens_cached": "bigint",
    "schema_version": "bigint",
}
TEXTS: Final = (
    *("event_id", "kind", "agent", "run_id", "source", "error", "error_kind", "cost_source"),
    *("price_list_version", "scoring_version", "model", "provider", "prompt_hash", "input_hash"),
    *("as_of", "signals"),
)
_ZONED: Final = re.compile(ZONED)
# What is summed up: here anything but a number or null makes the line malformed; elsewhere it reads as unknown.
MEASURES: Final = ("latency_ms", "cost_usd", "reward")
MAX_MEASURE: Final = 1e15  # beyond it, a value is no measurement, and its square would break every mean
_INSTANT: Final = re.compile(r"(19[7-9]|2[01]\d)\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
COLUMNS: Final = {"ts": "timestamp"} | dict.fromkeys(TEXTS, "varchar") | NUMBERS  # name -> type in SQL

# By type in SQL, the types in Python of which a column gives every value back.
_HOLDS: Final = {"timestamp": (str,), "varchar": (str,), "double": (int, float), "bigint": (int,)}

ELSEWHERE: Final = "branch/"  # how the source of a row begins whose run was started from another branch

LAST_N: Final = 5000  # runs; some weeks of a handful of agents, and read in a blink
# Bytes; no row is a thousandth of that, and the engine would give up at twice as much.
MAX_LINE: Final = 16 << 20
TAIL_BLOCK: Final = 1 << 20  # bytes read at a time from the end of the log
# Looking for the last N this many lines back without finding them, a full scan is the faster way.
TAIL_PATIENCE: Final = 100_000


@frozen
class Window:
    """Which rows are asked for. `last_n` counts matching rows by order of appending; 0 means all."""

    last_n: int = 0
    since: datetime | None = None
    source: str | None = None
    kind: str | None = None
    among: tuple[str, ...] = SOURCES  # the sources that count
    elsewhere: bool = False  # with what was run on other branches of the repository: it decides nothing

    def matches(self, event: dict[str, Any]) -> bool:
        return (
            (self.kind is None or event["kind"] == self.kind)
            and (self.source is None or event["source"] == self.source)
            and (self.among == SOURCES or event["source"] in self.among)
            and (self._everywhere or not str(event["source"]).startswith(ELSEWHERE))
            and (self.since is None or event["ts"][:23] >= in_utc(self.since))
        )

    @property
    def _everywhere(self) -> bool:
        return self.elsewhere or self.source is not None

    def condition(self) -> str:
        """The same as SQL."""
        parts = ["true"]
        if self.kind is not None:
            parts.append(f"kind = {quoted(self.kind)}")
        if self.source is not None:
            parts.append(f"source = {quoted(self.source)}")
        if self.among != SOURCES:
            parts.append(f"source in ({', '.join(map(quoted, self.among))})")
        if not self._everywhere:
            parts.append(f"not starts_with(source, {quoted(ELSEWHERE)})")
        if self.since is not None:
            parts.append(f"ts >= cast({quoted(in_utc(self.since))} as timestamp)")
        return " and ".join(parts)


def with_window_flags(parser: cli.Parser) -> cli.Parser:
    """The parser with the flags that choose runs, the same for every reader."""
    add, last = parser.add_argument, "the last N runs; 0: all (default %(default)s)"
    add("--last-n", type=cli.whole(0), default=LAST_N, metavar="N", help=last)
    add_since_flag(parser)
    add("--source", type=_source, help=f"only runs of this source: {', '.join(SOURCES)}, {ELSEWHERE}<name>")
    return parser


def add_since_flag(parser: cli.Parser, told: str = "only runs from this UTC day or time on") -> None:
    """`--since TIME`."""
    parser.add_argument("--since", type=_moment, metavar="TIME", help=told)


def window_of(args: argparse.Namespace) -> Window:
    """The runs that those flags ask for."""
    return Window(args.last_n, args.since, args.source, kind="run")


def _source(text: str) -> str:
    if text not in SOURCES and not text.startswith(ELSEWHERE):
        said = f"{text!r}: must be one of {', '.join(SOURCES)}, or {ELSEWHERE}<name>"
        raise argparse.ArgumentTypeError(said)
    return text


def _moment(text: str) -> datetime:
    """A day or a time as given on the command line; without a zone it is UTC."""
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter: a day that UTC does not have, at either end of time
        said = f"{text!r}: must be a day or time like 2026-11-16 or 2026-11-16T06:00Z"
        raise argparse.ArgumentTypeError(said) from None


def parse(line: bytes) -> dict[str, Any] | None:
    """The event on a line, or None if it is malformed: the rule that the view applies, for one line.

    Rows of other programs need not have an id, a kind or a source: those are a run of an agent in the field.
    """
    found = read(line)
    return None if found is None else found[0]


def read(line: bytes) -> tuple[dict[str, Any], Form | None] | None:
    """The same, and its form, if the line itself says all of that, in JSON."""
    import orjson

    if len(line) > MAX_LINE:
        return None
    said = True
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        event, said = _with_nan(line), False
    if type(event) is not dict or not (form := form_of(event)).known:
        return None
    for name in form.measures:
        if not -MAX_MEASURE <= event[name] <= MAX_MEASURE:  # NaN is not between
            return None
    if not is_instant(event["ts"]):
        if (moment := _in_utc(event["ts"])) is None:
            return None
        event["event_id"] = event.get("event_id") or own_id(event)
        event["ts"], said = moment, False
    if said and form.whole:
        return event, form
    for name in ("event_id", "kind", "source"):
        if event.get(name) is None:
            event[name] = DEFAULTS.get(name) or own_id(event)
    if event.get("error") is not None and event.get("error_kind") is None:
        event["error_kind"] = "agent"
    return event, None


@frozen
class Form:
    """What events of some fields and types have in common: all that can be said of one without its values."""

    known: bool  # who ran, and when; and its measures are numbers
    whole: bool  # nothing has to follow from the rest
    fits: bool  # its columns can hold values of those types
    measures: tuple[str, ...]  # that are not null
    numbers: tuple[str, ...]  # the columns that hold one
    rest: tuple[str, ...]  # the fields that are no column


def form_of(event: dict[str, Any]) -> Form:
    return _form(*event, *map(type, event.values()))


@lru_cache(maxsize=1000)  # rows of one program are of a few forms, and there are millions of them
def _form(*told: Any) -> Form:
    """Of as many names and, behind them, as many types."""
    names, kinds = told[: len(told) // 2], told[len(told) // 2 :]
    given = {name: kind for name, kind in zip(names, kinds, strict=True) if kind is not type(None)}
    measures = tuple(name for name in MEASURES if name in given)
    numbers = tuple(name for name in given if name in NUMBERS)
    return Form(
        given.keys() >= {*SAID} and all(given[name] in _HOLDS["double"] for name in measures),
        given.keys() >= {*REQUIRED} and ("error" not in given or "error_kind" in given),
        all(kind in _HOLDS[COLUMNS[name]] for name, kind in given.items() if name in COLUMNS),
        measures,
        numbers,
        tuple(name for name in names if name not in COLUMNS),
    )


OWN: Final = "row-"  # how the id of a row begins that came without
DEFAULTS: Final = {"kind": "run", "source": "runtime"}


def own_id(event: dict[str, Any]) -> str:
    """The id of a row that came without: the same for the same run, here and in the view."""
    import hashlib

    said = "|".join(str(event[name]) for name in SAID)
    return f"{OWN}{hashlib.md5(said.encode(), usedforsecurity=False).hexdigest()}"


def content_id(event: Mapping[str, Any]) -> str:
    """An id that only a row with the same content has, whatever the order of its fields."""
    import hashlib

    import orjson

    said = {name: value for name, value in event.items() if name != "event_id"}
    return f"import-{hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]}"


def _in_utc(text: object) -> str | None:
    """A moment of any zone as rows have it; None if it names no zone, or is none."""
    if not isinstance(text, str) or not _ZONED.fullmatch(text):
        return None
    try:
        return f"{in_utc(datetime.fromisoformat(text))}Z"
    except ValueError:
        return None


def _with_nan(line: bytes) -> object:
    """A line that only NaN or Infinity keep from being JSON: Python writes them, DuckDB reads them, and so do we."""
    import json

    if b"NaN" not in line and b"Infinity" not in line:
        return None
    try:
        event = json.loads(line.decode())
        json.dumps(event, ensure_ascii=False).encode()  # half a character is malformed here as there
    except (ValueError, RecursionError):
        return None
    return event


def read_tail(log: IO[bytes], size: int, window: Window) -> tuple[list[bytes], int] | None:
    """The last matching lines, last first, with the malformed ones between them, and how many matched.

    None if they lie too far back to look for them this way.
    """
    kept: list[bytes] = []
    found: set[tuple[str, str]] = set()
    seen = 0
    for line in backwards(log, size):
        if not line.strip():
            continue
        event = parse(line)
        if event is None:
            kept.append(line)
        elif window.matches(event) and (key := (event["ts"][:10], str(event["event_id"]))) not in found:
            kept.append(line)
            found.add(key)
        seen += 1
        if len(found) == window.last_n:
            break
        if seen > window.last_n + TAIL_PATIENCE:
            return None
    return kept, len(found)


def backwards(log: IO[bytes], size: int) -> Iterator[bytes]:
    """The lines of the first `size` bytes, last line first."""
    parts: list[bytes] = []  # of the line under way, its end first: a long one is put together once
    while size > 0:
        block = min(TAIL_BLOCK, size)
        size -= block
        first, *others = os.pread(log.fileno(), block, size).split(b"\n")
        if others:
            yield b"".join(reversed([*parts, others.pop()]))
            yield from reversed(others)
            parts = []
        parts.append(first)
    yield b"".join(reversed(parts))


def has_long_line(log: IO[bytes], size: int) -> bool:
    """Whether a line may be longer than the limit; looks at so few places that it costs nothing."""
    step, window = MAX_LINE // 2, 1 << 16
    return any(b"\n" not in os.pread(log.fileno(), window, at) for at in range(0, size - window, step))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def in_utc(when: datetime) -> str:
    """To the millisecond, as rows have it but for the Z."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:23]


def is_instant(text: object) -> bool:
    """Whether it is a moment as rows have it: ISO 8601 in UTC, with its Z."""
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
