"""The one choke point for telemetry: one run, one row, appended whole to `telemetry/events.jsonl`.

An append is a single `os.write` on an O_APPEND descriptor under an exclusive `flock`: many processes may write
at once, a torn tail left by a full disk is closed off first, and a sealer that renames the log under the same
lock can never lose a line. The logger never raises: losing a row is bad, losing the agent's result is worse.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from telemetry.edge.errors import unwritten
from telemetry.edge.files import EVENTS, here
from telemetry.edge.records import plain
from telemetry.edge.text import MAX_ERROR, MAX_FIELD, cut, may_hold_secret, redact

# The vocabulary of events.
SCHEMA_VERSION: Final = 1
SCORING_VERSION: Final = "1.0"  # of telemetry.reward: every rewarded row carries it
KINDS: Final = ("run", "llm_call", "routing", "evaluation")
SOURCES: Final = ("runtime", "replay", "eval", "ab_test", "critique", "shadow")
FIELD: Final = ("runtime", "replay", "shadow")  # sources of real work; the others are exercises
COMPLEXITIES: Final = ("trivial", "standard", "complex")  # of a task
ERROR_KINDS: Final = (
    "timeout",
    "rate_limit",
    "provider",
    "parse",
    "budget",
    "source",
    "unknown_task",
    "lost",
    "agent",
)
# What the endpoint, the budget or a data source did, and what the offline model was never taught: not held against
# an agent or an arm.
INFRASTRUCTURE: Final = frozenset(ERROR_KINDS) - {"parse", "agent"}

T = TypeVar("T")
LOG_PATH = EVENTS  # below the root being worked on

# Rows with every field, null where nobody knows: copying one is the cheapest way to a complete row.
_OTHER_ROW: Final[dict[str, Any]] = dict.fromkeys(
    ("event_id", "schema_version", "ts", "kind", "agent", "run_id", "source", "latency_ms", "tokens_in",
     "tokens_out", "cost_usd", "error", "reward", "task_id", "task_type", "complexity", "tenant_id")
) | {"schema_version": SCHEMA_VERSION, "kind": "run"}  # fmt: skip
_RUN_ROW: Final[dict[str, Any]] = _OTHER_ROW | dict.fromkeys(
    ("tokens_thinking", "cost_source", "price_list_version", "error_kind", "signal_strength", "scoring_version",
     "model", "provider", "prompt_hash", "success", "partial_success", "failure_reason", "tokens_used",
     "tool_call_count", "tool_call_success_rate", "tools_used", "quality_score", "budget_compliant", "compliant",
     "token_efficiency", "time_to_first_action", "iterations", "final_metrics")
)  # fmt: skip

_SCALARS: Final = frozenset({int, float, bool, type(None)})
# What we name ourselves, all the way down.
_OUR_OWN: Final = frozenset(
    {"kind", "price_list_version", "scoring_version", "prompt_hash", "input_hash", "input_sha256", "code_hash",
     "as_of", "failure_reason", "tools_used", "final_metrics"}
)  # fmt: skip

orjson: Any = None  # loaded by the first event, so that `--help` need not pay for it
_source: ContextVar[str] = ContextVar("source", default="runtime")
_task: ContextVar[dict[str, str]] = ContextVar("task", default={})  # noqa: B039 - never changed, only replaced
_watched: ContextVar[list[dict[str, Any]] | None] = ContextVar("watched", default=None)
_held: ContextVar[together | None] = ContextVar("held", default=None)
_lock = threading.Lock()
_open_logs: dict[str, _Log] = {}
_ids = itertools.count()
_id_prefix = ""
_joined: tuple[Path | None, Path | None, str] = (None, None, "")
_warned: set[str] = set()


class within(Generic[T]):
    """A context variable has this value inside the block. A trial enters six: a generator would cost thrice as much."""

    __slots__ = ("_setting", "_token", "_value")

    def __init__(self, setting: ContextVar[Any], value: T) -> None:
        self._setting, self._value = setting, value

    def __enter__(self) -> T:
        self._token = self._setting.set(self._value)
        return self._value

    def __exit__(self, *_: object) -> None:
        self._setting.reset(self._token)


def source(name: str) -> AbstractContextManager[str]:
    """Rows written inside the block carry this `source`."""
    if name not in SOURCES:
        raise ValueError(f"source {name!r}: allowed are {', '.join(SOURCES)}")
    return within(_source, name)


def task(
    task_id: str | None = None,
    task_type: str | None = None,
    complexity: str | None = None,
    tenant_id: str | None = None,
) -> AbstractContextManager[dict[str, str]]:
    """Rows written inside the block are about this task; what a block around it says already stands."""
    if complexity is not None and complexity not in COMPLEXITIES:
        raise ValueError(f"complexity {complexity!r}: allowed are {', '.join(COMPLEXITIES)}")
    said = {"task_id": task_id, "task_type": task_type, "complexity": complexity, "tenant_id": tenant_id}
    return within(_task, {name: value for name, value in said.items() if value is not None} | _task.get())


def watch() -> AbstractContextManager[list[dict[str, Any]]]:
    """Collects the rows logged inside the block, beside writing them: how a trial learns what its run cost."""
    return within(_watched, [])


class together:
    """Rows logged inside the block are one write at its end, whatever ends it; one that is killed leaves none of them.

    For work that a journal has on record before it begins: who goes on from there finds all of it or nothing.
    """

    __slots__ = ("_rows", "_token")

    def __enter__(self) -> None:
        self._rows: list[tuple[dict[str, Any], Any]] | None = []
        self._token = _held.set(self)

    def take(self, row: dict[str, Any], foreign: Any) -> bool:
        """Keep a row until the end; False if that is over, for a thread may outlive the block."""
        with _lock:
            if self._rows is None:
                return False
            self._rows.append((row, foreign))
            return True

    def __exit__(self, *_: object) -> None:
        _held.reset(self._token)
        with _lock:
            rows, self._rows = self._rows or [], None
        try:
            if rows:
                append(b"".join([encode(row, foreign=foreign) for row, foreign in rows]))
        except Exception as problem:  # noqa: BLE001 - as of a single row
            for row, _ in rows:
                _lost(row["agent"], problem)


def new_run_id() -> str:
    """A fresh id, sortable by time to the second."""
    return f"{_second(int(time.time()))[1]}-{os.urandom(6).hex()}"


def utc_now() -> str:
    """Now, in UTC, to the millisecond."""
    now = time.time()
    whole = int(now)
    return f"{_second(whole)[0]}.{int((now - whole) * 1000):03d}Z"


@functools.lru_cache(maxsize=2)
def _second(whole: int) -> tuple[str, str]:
    """A second as rows have it, and as ids do: to spell it out costs more than to write a row."""
    at = time.gmtime(whole)
    return time.strftime("%Y-%m-%dT%H:%M:%S", at), time.strftime("%Y%m%dT%H%M%S", at)


def log_event(
    agent: str,
    run_id: str,
    latency_ms: float | None,
    cost_usd: float | None = None,
    tokens_in: int | None = None,
    tokens_out: int | None = None,
    error: str | None = None,
    reward: float | None = None,
    *,
    ours: frozenset[str] = frozenset(),
    **fields: Any,
) -> str:
    """Append one event and return its id; trouble is one line on stderr, never an exception.

    `ours` are fields of which the caller knows that all their words are its own: hashes, names of a format.
    """
    known = {"cost_usd": cost_usd, "tokens_in": tokens_in, "tokens_out": tokens_out, "reward": reward}
    return log_row(agent, run_id, latency_ms, {**known, "error": error, **fields}, ours)


def log_row(
    agent: str,
    run_id: str,
    latency_ms: float | None,
    fields: Mapping[str, Any],
    ours: frozenset[str] = frozenset(),
) -> str:
    """The same with all fields in one mapping: to match forty names with parameters takes longer than the write."""
    event_id = _new_event_id()
    try:
        about, error = _task.get(), fields.get("error")
        row: dict[str, Any] = {
            **(_RUN_ROW if fields.get("kind", "run") == "run" else _OTHER_ROW),
            "event_id": event_id,
            "ts": utc_now(),
            "source": _source.get(),
            **about,
        }
        if error is not None:
            error, lost = cut(str(error), MAX_ERROR)
            fields = {**fields, "error": error}
            if lost:
                row["error_truncated"] = True
        row |= fields
        row["agent"], row["run_id"], row["latency_ms"] = agent, run_id, latency_ms
        if row.get("cost_source") is None:
            row["cost_source"] = "unknown" if row["cost_usd"] is None else "override"
        if row["reward"] is not None and row.get("scoring_version") is None:
            row["scoring_version"] = SCORING_VERSION
        if error is not None and row.get("error_kind") is None:
            row["error_kind"] = "agent"
        rows = _watched.get()
        if rows is not None:
            rows.append(row)
        foreign = {
            name: value
            for name, value in fields.items()
            if type(value) not in _SCALARS and name not in _OUR_OWN and name not in ours
        }
        words, held = (agent, run_id, about, foreign), _held.get()
        if held is None or not held.take(row, words):
            append(encode(row, foreign=words))
    except Exception as problem:  # noqa: BLE001 - the agent's result outranks its row; the loss is reported
        _lost(agent, problem)
    return event_id


def encode(row: Mapping[str, Any], *, foreign: Any = ...) -> bytes:
    """One line of JSON: no NaN, no secret, nothing unserialisable, no newline inside.

    Looking for secrets costs more than writing: of a row whose other words are ours, `foreign` is the part to look at.
    """
    line = _dumped(row)
    doubtful = line if foreign is ... else _dumped(foreign) if foreign else b""
    if may_hold_secret(doubtful.decode()):
        line = redact(line.decode()).encode()
    return line + b"\n"


def _dumped(value: Any) -> bytes:
    global orjson
    if orjson is None:
        import orjson as loaded

        orjson = loaded
    try:
        line = orjson.dumps(value, default=_marked)
    except (TypeError, ValueError, RecursionError):
        line = _dumped_somehow(value)
    return line if len(line) <= MAX_FIELD else orjson.dumps(_plain(orjson.loads(line)))  # type: ignore[no-any-return]


def _dumped_somehow(value: Any) -> bytes:
    """Keys that are no text, which take twice the time of all others; huge integers, lone surrogates, cycles."""
    try:
        line: bytes = orjson.dumps(value, default=_marked, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        line = orjson.dumps(_plain(value))
    return line


def append(line: bytes, path: str | Path | None = None) -> None:
    """Append one whole line, or some, to the live log; raises OSError, e.g. on a full disk."""
    target = _target() if path is None else os.fspath(path)
    with _lock:
        while not _append_if_current(target, line):  # sealed, rotated or deleted meanwhile: open it anew
            os.close(_open_logs.pop(target).descriptor)


def _target() -> str:
    """The live log below the current root; joining paths costs as much as a write, so the last one is kept."""
    global _joined
    root = here().root
    if _joined[0] is not root or _joined[1] is not LOG_PATH:
        _joined = (root, LOG_PATH, os.fspath(root / LOG_PATH))
    return _joined[2]


def _append_if_current(target: str, line: bytes) -> bool:
    """Append under the lock, unless the open descriptor is no longer the file at `target`."""
    log = _open_logs.get(target)
    if log is None:
        log = _open_logs[target] = _Log(_open(target))
    fcntl.flock(log.descriptor, fcntl.LOCK_EX)
    try:
        try:
            status = os.stat(target)  # noqa: PTH116 - a Path object costs as much as the call itself
        except FileNotFoundError:
            return False
        if (status.st_ino, status.st_dev) != log.identity:
            return False
        size = status.st_size
        ours = size == log.size  # our own last line is the tail: it is whole
        torn = not ours and size > 0 and os.pread(log.descriptor, 1, size - 1) != b"\n"
        data = b"\n" + line if torn else line
        log.size = -1
        try:
            written = os.write(log.descriptor, data)
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, target) from None
        if written != len(data):  # a full disk takes what still fits
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        log.size = size + written
        return True
    finally:
        fcntl.flock(log.descriptor, fcntl.LOCK_UN)


class _Log:
    """An open live log: which file it is, and how long our own last write left it."""

    __slots__ = ("descriptor", "identity", "size")

    def __init__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.descriptor = descriptor
        self.identity = (status.st_ino, status.st_dev)
        self.size = -1


def _open(target: str) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(target, flags, 0o644)
    except FileNotFoundError:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        return os.open(target, flags, 0o644)


def _forget_after_fork() -> None:
    """A child shares its parent's descriptors, and with them the lock: it opens its own."""
    global _id_prefix, _lock
    _lock = threading.Lock()
    for log in _open_logs.values():
        os.close(log.descriptor)
    _open_logs.clear()
    _id_prefix = ""


os.register_at_fork(after_in_child=_forget_after_fork)


def _new_event_id() -> str:
    global _id_prefix
    if not _id_prefix:
        _id_prefix = os.urandom(8).hex()
    return f"{_id_prefix}-{next(_ids):06x}"


def _marked(value: object) -> object:
    """What stands in the log for a value that JSON cannot hold."""
    if isinstance(value, set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return _plain(plain(value))
    item = getattr(value, "item", None)
    if callable(item) and type(value).__module__ == "numpy":
        return _plain(item())
    return f"[unserialisable {type(value).__name__}]"


def _plain(value: object, depth: int = 0) -> object:
    """A copy of `value` that any JSON reader takes, long strings cut and marked."""
    if depth > 20:
        return "[nested too deeply]"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else f"[integer of {value.bit_length()} bits]"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        text, lost = cut(value.encode("utf-8", "replace").decode(), MAX_FIELD // 4)
        return text + "[cut]" if lost else text
    if isinstance(value, Mapping):
        return {str(_plain(str(key))): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    return _marked(value)


def _lost(agent: str, problem: Exception) -> None:
    if not unwritten.take(problem):
        _warn(f"telemetry: an event of {agent!r} was not written: {type(problem).__name__}: {problem}")


def _warn(message: str) -> None:
    """Once per message and process: a full disk must not fill the console too."""
    if message not in _warned:
        _warned.add(message)
        print(redact(message), file=sys.stderr)
