"""The sources that the manifest names under `inputs:`: a file, a function of the day, an address on the web.

Whatever the source, an agent gets one JSON object. Rows become `{"as_of": DAY, "items": [...]}`; an object that a
function or an address gives is passed on as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from agents.manifest import Feed
from agents.manifest.code import load_code
from agents.sources import rows
from agents.sources.source import Payload, Source, SourceError
from agents.sources.web import Web, decoded
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SCRATCH
from telemetry.edge.frozen import frozen

DAY_S: Final = 86_400.0


def open_feed(feed: Feed, root: Path) -> Source:
    """The source that a manifest entry names."""
    if feed.call is not None:
        return Function(feed)
    if feed.http is not None:
        return Rows(feed, "live", lambda: _fetched(feed, root))
    return Rows(feed, "snapshot", lambda: rows.read_rows(root, str(feed.file), feed.fields))


@dataclass(frozen=True)
class Rows:
    """Rows that stand somewhere, all at once or, with `by_day`, as they came day by day."""

    feed: Feed
    mode: str
    read: Callable[[], Any]

    @cached_property
    def _value(self) -> Any:
        return self.read()

    @cached_property
    def _days(self) -> Mapping[str, list[rows.Row]]:
        if self.feed.by_day is None:
            return {}
        if not isinstance(self._value, list):
            raise SourceError(f"{self.feed.name}: by_day: the source is no list of rows")
        found = rows.by_day(self._value, self.feed.by_day, self.feed.name)
        if not found:
            raise SourceError(f"{self.feed.name}: no rows")
        return found

    def days(self) -> Sequence[str]:
        return list(self._days)

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        if not self._days:
            return payload(self._value, as_of)
        day = as_of or max(self._days)
        if day not in self._days:
            raise SourceError(f"{self.feed.name}: no rows of {day}")
        return payload(self._days[day], day)


@frozen
class Function:
    """A function of the day, in the repository's own code."""

    feed: Feed
    mode: str = "live"

    def days(self) -> Sequence[str]:
        if self.feed.days is None:
            return ()
        found = _called(self.feed.days, "inputs.days")
        if not isinstance(found, list | tuple) or not all(isinstance(day, str) for day in found):
            raise SourceError(f"{self.feed.days}: must return a list of days such as 2026-03-02")
        return sorted(found)

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        day = as_of or str(datetime.now(UTC).date())
        found = _called(str(self.feed.call), "inputs.call", day)
        if isinstance(found, list | tuple):
            return payload(rows.checked(list(found), self.feed.name, self.feed.fields), day)
        return payload(found, day, self.feed.name)


def _called(function: str, where: str, *given: str) -> Any:
    """What the user's function gives; whatever it raises is told on the rows of those who need it."""
    try:
        return load_code(function, where)(*given)
    except SourceError:
        raise
    except BadInput as problem:
        raise SourceError(str(problem)) from problem
    except Exception as problem:
        raise SourceError(f"{function}: {type(problem).__name__}: {problem}") from problem


def payload(value: Any, day: str | None, where: str = "") -> Payload:
    """What an agent is given: rows under `items`, an object as it is."""
    if isinstance(value, list):
        return ({"as_of": day} if day else {}) | {"items": value}
    if not isinstance(value, dict):
        raise SourceError(f"{where}: must be a list of rows or an object, not {type(value).__name__}")
    return value if "as_of" in value or day is None else {"as_of": day, **value}


def _fetched(feed: Feed, root: Path) -> Any:
    """What an address says today, at the path in its JSON; asked once a day, and never by way of another host."""
    import orjson

    def parse(body: bytes) -> Any:
        text = decoded(body, "JSON")
        try:
            value = orjson.loads(text)
        except ValueError as problem:
            raise SourceError(f"not JSON ({problem})") from None
        found = _at(value, feed.json_path)
        if isinstance(found, list):
            return rows.checked(found, feed.json_path or "the answer", feed.fields)
        return payload(found, None, feed.json_path or "the answer")

    web = Web(root / SCRATCH / "cache", same_host=True)
    return web.get(str(feed.http), parse, keep_s=time.time() % DAY_S)  # as old as the day is, in UTC


def _at(value: Any, path: str) -> Any:
    """The value at a dotted path such as `data.rows` or `results.0`."""
    for part in filter(None, path.removeprefix("$").split(".")):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise SourceError(f"json_path {path}: nothing at {part!r}")
    return value
