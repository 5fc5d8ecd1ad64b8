"""The committed sample market, and what a payload of the market must look like, whoever loads it.

`load(kind, as_of)` gives a payload of the kind `macro`, `headlines` or `quotes`, checked before any agent sees it:
finite numbers, plausible order, and nothing dated after `as_of`.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.domain import Payload, SourceError
from telemetry.edge.records import is_number

SAMPLE: Final = "agents/sample/market.jsonl"
HISTORY_DAYS: Final = 90  # trading days of history in a macro payload
_REBUILT: Final = "`python -m agents.sample_market` rebuilds it"
QUOTED_AT: Final = "14:00:00"  # UTC; the sample's news and quotes are as of this time of day


class Snapshot:
    """The sample market, one line a day; a payload is built from that day's line and earlier ones only."""

    mode = "snapshot"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._about: dict[str, Any] = {}
        self._lines: list[dict[str, Any]] = []
        self._index: dict[str, int] = {}

    def days(self) -> Sequence[str]:
        self._read()
        return [line["date"] for line in self._lines if "headlines" in line]

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        days = self.days()
        day = as_of or days[-1]
        if day not in self._index or day < days[0]:
            raise SourceError(f"{self.path}: no trading day {day} (from {days[0]} to {days[-1]})")
        builders = {"macro": self._macro, "headlines": self._headlines, "quotes": self._quotes}
        if kind not in builders:
            raise SourceError(f"{self.path}: no input of kind {kind!r}; there are {', '.join(builders)}")
        try:
            payload = builders[kind](self._index[day])
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise SourceError(f"{self.path}: {day}: malformed {kind}: {problem!r}") from problem
        return checked(kind, payload | {"synthetic": True})

    def _read(self) -> None:
        if self._lines:
            return
        try:
            with self.path.open(encoding="utf-8") as file:
                about, *lines = (json.loads(line) for line in file)
            self._index = {line["date"]: n for n, line in enumerate(lines)}
            self._about, self._lines = about, lines
        except OSError as problem:
            raise SourceError(f"{self.path}: {problem.strerror}; {_REBUILT}") from None
        except (ValueError, KeyError, TypeError) as problem:
            raise SourceError(f"{self.path}: not a sample market: {problem!r}") from problem
        if not any("headlines" in line for line in lines):
            raise SourceError(f"{self.path}: no trading days in it; {_REBUILT}")

    def _macro(self, at: int) -> Payload:
        """Values as published by then: a late one is missing, a wrong one is wrong until its revision came."""
        known: dict[str, dict[str, float]] = {name: {} for name in self._about["series"]}
        for line in self._lines[max(0, at - HISTORY_DAYS - 1) : at + 1]:
            for name, value in line["macro"].items():
                if value is not None:
                    known[name][line["date"]] = value
            for name, date, value in line.get("revisions", ()):
                known[name][date] = value
        return {
            "as_of": self._lines[at]["date"],
            "series": [
                {"id": name, **about, "history": _history(known[name])}
                for name, about in self._about["series"].items()
            ],
        }

    def _headlines(self, at: int) -> Payload:
        line = self._lines[at]
        day = line["date"]
        return {
            "as_of": day,
            "headlines": [
                {"id": f"{day}-h{n}", "published": f"{day}T{time}:00Z", "source": wire, "text": text}
                for n, (time, wire, text) in enumerate(line["headlines"], 1)
            ],
        }

    def _quotes(self, at: int) -> Payload:
        line = self._lines[at]
        now = dt.datetime.fromisoformat(f"{line['date']}T{QUOTED_AT}+00:00")
        named = ("venue", "symbol", "bid", "ask", "bid_size", "ask_size")
        quotes = []
        for *figures, age_s in line["quotes"]:
            quote = dict(zip(named, figures, strict=True))
            fee, moment = self._about["fee_bps"][quote["venue"]], now - dt.timedelta(seconds=age_s)
            quotes.append(quote | {"fee_bps": fee, "ts": stamp(moment)})
        return {"as_of": stamp(now), "quotes": quotes, "fx": line["fx"]}


def _history(values: Mapping[str, float]) -> list[dict[str, Any]]:
    return [{"date": date, "value": values[date]} for date in sorted(values)[-HISTORY_DAYS:]]


def stamp(moment: dt.datetime) -> str:
    """A UTC time as text, with milliseconds only where there are any."""
    text = moment.astimezone(dt.UTC).isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def checked(kind: str, payload: Payload) -> Payload:
    """The payload itself, if it is well formed and holds nothing from after `as_of`; else SourceError."""
    try:
        CHECKS[kind](payload)
    except (KeyError, TypeError, AttributeError) as problem:
        raise SourceError(f"{kind}: malformed payload: {problem!r}") from problem
    return payload


def _check_macro(payload: Payload) -> None:
    for series in _filled(payload, "series"):
        name, history = series["id"], _filled(series, "history")
        dates = [point["date"] for point in history]
        if any(later <= earlier for earlier, later in itertools.pairwise(dates)):
            raise SourceError(f"macro: {name}: dates must rise")
        if dates[-1] > payload["as_of"]:
            raise SourceError(f"macro: {name}: {dates[-1]} is after {payload['as_of']}")
        for point in history:
            if not is_number(point["value"]):
                raise SourceError(f"macro: {name}: {point['date']}: {point['value']!r} is not a number")


def _check_headlines(payload: Payload) -> None:
    until = payload["as_of"] if len(payload["as_of"]) > 10 else f"{payload['as_of']}T23:59:59Z"
    for headline in _filled(payload, "headlines"):
        if not headline["text"].strip():
            raise SourceError(f"headlines: {headline['id']}: no text")
        if headline["published"] > until:
            said = f"published {headline['published']}, after {until}"
            raise SourceError(f"headlines: {headline['id']}: {said}")


def _check_quotes(payload: Payload) -> None:
    now = dt.datetime.fromisoformat(payload["as_of"])
    for quote in _filled(payload, "quotes"):
        where = f"quotes: {quote['venue']} {quote['symbol']}"
        for field in ("bid", "ask", "bid_size", "ask_size", "fee_bps"):
            value = quote[field]
            if not is_number(value) or value < 0 or (value == 0 and field in ("bid", "ask")):
                raise SourceError(f"{where}: {field} is {quote[field]!r}")
        if quote["ask"] < quote["bid"]:
            raise SourceError(f"{where}: ask {quote['ask']} below bid {quote['bid']}")
        if dt.datetime.fromisoformat(quote["ts"]) > now:
            raise SourceError(f"{where}: quoted at {quote['ts']}, after {payload['as_of']}")
    for pair, rate in payload.get("fx", {}).items():
        if not is_number(rate) or rate <= 0:
            raise SourceError(f"quotes: fx {pair} is {rate!r}")


def _filled(payload: Mapping[str, Any], field: str) -> list[Any]:
    items = payload[field]
    if not isinstance(items, list) or not items:
        raise SourceError(f"{field}: empty; an empty answer is not a quiet day")
    return items


CHECKS: Final = {"macro": _check_macro, "headlines": _check_headlines, "quotes": _check_quotes}
