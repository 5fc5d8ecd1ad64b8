"""Reads the documents of feeds by pure parsers: FRED CSV, RSS and Atom, GDELT JSON, ccxt order books.

Each raises `SourceError` on anything that is not the documented format, error pages with status 200 included.
"""

from __future__ import annotations

import csv
import datetime as dt
import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from typing import Any, Final
from xml.parsers import expat

from agents.domain import SourceError
from agents.market.snapshot import stamp
from agents.sources.web import decoded
from telemetry.edge.frozen import frozen
from telemetry.edge.text import clean

MAX_TEXT: Final = 300  # characters of a headline
MAX_ITEMS: Final = 200  # per feed
MAX_DEPTH: Final = 40  # of XML
_TAGS: Final = re.compile(r"<[^>]{0,500}>")


@frozen
class Item:
    """One headline of a feed."""

    published: dt.datetime
    source: str
    text: str


def fred(body: bytes, series_id: str) -> list[dict[str, Any]]:
    """`fredgraph.csv`: a header `observation_date,<ID>` (`DATE` until 2024), `.` or nothing for a missing value."""
    text = decoded(body, "CSV")
    if not text.endswith("\n"):
        raise SourceError("cut off in the middle of a line")
    rows = list(csv.reader(text.splitlines()))
    if len(rows[0]) != 2 or rows[0][0].lower() not in ("observation_date", "date") or rows[0][1] != series_id:
        raise SourceError(f"expected the header observation_date,{series_id}, got {','.join(rows[0])[:80]!r}")
    points = []
    for number, row in enumerate(rows[1:], 2):
        try:
            date, value = row
            dt.date.fromisoformat(date)
            if value in (".", ""):
                continue
            if not math.isfinite(float(value)):
                raise ValueError(value)
        except ValueError:
            got = ",".join(row)[:80]
            raise SourceError(f"line {number}: expected a date and a number, got {got!r}") from None
        points.append({"date": date, "value": float(value)})
    if not points:
        raise SourceError(f"{series_id}: no values")
    return points


def gdelt(body: bytes) -> list[Item]:
    """GDELT DOC 2.0, `mode=artlist&format=json`; its complaints are plain text with status 200."""
    text = decoded(body, "JSON")
    try:
        document = json.loads(text, strict=False)  # titles may hold raw control characters
        articles = document.get("articles", []) if isinstance(document, dict) else None
        if not isinstance(articles, list):
            raise ValueError("no list of articles")
    except (ValueError, RecursionError):
        raise SourceError(f"expected JSON with articles, got {_clean(text)[:100]!r}") from None
    items = []
    for article in articles[:MAX_ITEMS]:
        try:
            seen = dt.datetime.strptime(article["seendate"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
            site, title = article.get("domain") or "GDELT", article["title"]
            item = Item(seen, _clean(site)[:60], _clean(title)[:MAX_TEXT])
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # one article without title or date is no reason to lose the others
        if item.text:
            items.append(item)
    if not items:
        raise SourceError("no article with title and date")
    return items


def rss(body: bytes) -> list[Item]:
    """RSS 2.0 or Atom. Documents with a DTD or entity declarations are refused: no feed needs them."""
    decoded(body, "RSS")
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    path: list[str] = []
    feed_title = ""
    item: dict[str, str] | None = None
    found: list[dict[str, str]] = []

    def refuse(*_: object) -> None:
        raise SourceError("an XML document type or entity declaration, which is refused")

    def start(name: str, _: dict[str, str]) -> None:
        nonlocal item
        path.append(name.rpartition(" ")[2].lower())
        if len(path) > MAX_DEPTH:
            raise SourceError(f"XML nested deeper than {MAX_DEPTH}")
        if path[-1] in ("item", "entry") and len(found) < MAX_ITEMS:
            item = {}

    def end(_: str) -> None:
        nonlocal item
        if path.pop() in ("item", "entry") and item is not None:
            found.append(item)
            item = None

    def text(data: str) -> None:
        nonlocal feed_title
        if item is not None and path[-2] in ("item", "entry"):
            item[path[-1]] = (item.get(path[-1], "") + data)[: 4 * MAX_TEXT]
        elif path[-1] == "title" and path[-2:-1] in (["channel"], ["feed"]):
            feed_title = (feed_title + data)[:MAX_TEXT]

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    try:
        parser.Parse(body, True)
    except expat.ExpatError as problem:
        raise SourceError(f"not well-formed XML: {problem}") from None
    items = []
    for entry in found:
        dates = [entry[name] for name in ("pubdate", "published", "updated", "date") if entry.get(name)]
        published = _date(dates[0]) if dates else None
        title = _clean(entry.get("title", ""))[:MAX_TEXT]
        if published is not None and title:
            items.append(Item(published, _clean(feed_title)[:60] or "RSS", title))
    if not items:
        raise SourceError("no item with title and date")
    return items


def _date(text: str) -> dt.datetime | None:
    """RFC 2822 (RSS) or ISO 8601 (Atom), in UTC; None when it is neither."""
    for read in (dt.datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def _clean(text: str) -> str:
    """One line of text without markup, nothing hidden in it."""
    return " ".join(clean(html.unescape(_TAGS.sub(" ", text))).split())


@frozen
class Book:
    """The top of one order book."""

    bid: float
    ask: float
    bid_size: float
    ask_size: float
    fee_bps: float
    ts: dt.datetime

    def quote(self, venue: str, symbol: str) -> dict[str, Any]:
        """As a line of a `quotes` payload."""
        return {"venue": venue, "symbol": symbol} | asdict(self) | {"ts": stamp(self.ts)}


def books(exchange: Any, symbols: Sequence[str]) -> dict[str, Book]:
    """The best bid and ask of each symbol the venue lists, with its taker fee; ccxt's errors pass through."""
    markets = exchange.load_markets()
    found = {}
    for symbol in symbols:
        if symbol not in markets:
            continue
        book = exchange.fetch_order_book(symbol, 5)
        asked_at = dt.datetime.now(dt.UTC)
        try:
            (bid, bid_size, *_), (ask, ask_size, *_) = book["bids"][0], book["asks"][0]
            fee_bps = round(float(markets[symbol]["taker"]) * 1e4, 4)
            millis = book.get("timestamp")  # some venues give none: then the time of the answer
            ts = min(asked_at, dt.datetime.fromtimestamp(millis / 1000, dt.UTC)) if millis else asked_at
            found[symbol] = Book(float(bid), float(ask), float(bid_size), float(ask_size), fee_bps, ts)
            if not 0 < found[symbol].bid <= found[symbol].ask < math.inf:
                raise ValueError(f"bid {bid}, ask {ask}")
        except (IndexError, KeyError, TypeError, ValueError) as problem:
            raise SourceError(f"{symbol}: no best bid, ask and taker fee in the book: {problem!r}") from None
    return found
