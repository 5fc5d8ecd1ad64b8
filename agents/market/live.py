"""The live source: macro series from FRED, headlines from RSS and GDELT, order books through ccxt.

Public, no keys. Every macro series must answer (a missing one could hide the signal of the day); of the news feeds
and of the venues some may fail, and the payload then names them under `missing`. Addresses can be changed through the
environment: RATCHET_FRED_URL, RATCHET_GDELT_URL (empty: do not ask), RATCHET_RSS_URLS (blank-separated),
RATCHET_VENUES and RATCHET_SYMBOLS (comma-separated ccxt names).
"""

from __future__ import annotations

import datetime as dt
import os
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from agents.domain import Payload, SourceError
from agents.market import feeds
from agents.market.snapshot import HISTORY_DAYS, checked, stamp
from agents.model.threads import start
from agents.sources.web import Web
from telemetry.edge.frozen import frozen

FRED_URL: Final = "https://fred.stlouisfed.org/graph/fredgraph.csv"
GDELT_URL: Final = "https://api.gdeltproject.org/api/v2/doc/doc"
GDELT_QUERY: Final = {
    "query": "(missile OR sanctions OR coup OR invasion OR ceasefire OR tariffs OR cyberattack) sourcelang:english",
    "mode": "artlist", "format": "json", "maxrecords": "75", "timespan": "24h",
}  # fmt: skip
RSS_URLS: Final = ("https://feeds.bbci.co.uk/news/world/rss.xml", "https://www.aljazeera.com/xml/rss/all.xml")
VENUES: Final = ("kraken", "coinbase", "bitstamp")
SYMBOLS: Final = ("BTC/USD", "ETH/USD", "BTC/EUR")

# our id -> FRED id, name, unit, kind. FRED has no DXY: the broad trade-weighted index stands in and says so.
SERIES: Final = {
    "VIX": ("VIXCLS", "CBOE volatility index", "index points", "level"),
    "DGS10": ("DGS10", "10-year Treasury yield", "percent", "rate"),
    "DXY": ("DTWEXBGS", "Nominal broad US dollar index (stands in for DXY)", "index points", "level"),
    "WTI": ("DCOILWTICO", "Crude oil, WTI spot, Cushing", "USD per barrel", "level"),
}
MACRO_KEEP_S: Final = 3600.0  # FRED's daily series change once a day
NEWS_KEEP_S: Final = 600.0
DEAD_AFTER_DAYS: Final = 30  # a series whose last value is older than this has been discontinued
NEWS_HOURS: Final = 36
MAX_HEADLINES: Final = 40
BOOK_TIMEOUT_MS: Final = 10_000

T = TypeVar("T")
Exchanges = Callable[[str], Any]  # venue name -> an object with the ccxt methods


@frozen
class Live:
    """The live source; `now` and `exchange` are arguments so that tests can hold the clock and the venues."""

    web: Web
    fred_url: str = FRED_URL
    gdelt_url: str = GDELT_URL
    rss_urls: Sequence[str] = RSS_URLS
    venues: Sequence[str] = VENUES
    symbols: Sequence[str] = SYMBOLS
    exchange: Exchanges | None = None
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    mode: str = "live"

    @classmethod
    def from_env(cls, root: Path) -> Live:
        def setting(name: str, default: Sequence[str], separator: str | None) -> Sequence[str]:
            given = os.environ.get(name)
            return default if given is None else list(filter(None, map(str.strip, given.split(separator))))

        return cls(
            web=Web(root / ".ratchet/cache"),
            fred_url=os.environ.get("RATCHET_FRED_URL", FRED_URL),
            gdelt_url=os.environ.get("RATCHET_GDELT_URL", GDELT_URL),
            rss_urls=setting("RATCHET_RSS_URLS", RSS_URLS, None),
            venues=setting("RATCHET_VENUES", VENUES, ","),
            symbols=setting("RATCHET_SYMBOLS", SYMBOLS, ","),
        )

    def days(self) -> Sequence[str]:
        return [self.now().date().isoformat()]

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        now = self.now()
        if as_of is not None and as_of != now.date().isoformat():
            raise SourceError(f"the live source knows only today, not {as_of}")
        loaders = {"macro": self._macro, "headlines": self._headlines, "quotes": self._quotes}
        if kind not in loaders:
            raise SourceError(f"the live source has no input of kind {kind!r}")
        return checked(kind, loaders[kind](now) | {"synthetic": False})

    def _macro(self, now: dt.datetime) -> Payload:
        found, wrong = _at_once(
            {name: partial(self._series, about[0], now) for name, about in SERIES.items()}
        )
        if wrong:
            raise SourceError("; ".join(dict.fromkeys(map(str, wrong.values()))))
        series = [
            {"id": name, "name": title, "unit": unit, "kind": kind, "history": found[name]}
            for name, (_, title, unit, kind) in SERIES.items()
        ]
        return {"as_of": now.date().isoformat(), "series": series}

    def _series(self, fred_id: str, now: dt.datetime) -> list[dict[str, Any]]:
        def day(ago: int) -> str:
            return (now - dt.timedelta(days=ago)).date().isoformat()

        url = f"{self.fred_url}?{urllib.parse.urlencode({'id': fred_id, 'cosd': day(2 * HISTORY_DAYS)})}"
        points = self.web.get(url, lambda body: feeds.fred(body, fred_id), MACRO_KEEP_S)
        known = [point for point in points if point["date"] <= day(0)][-HISTORY_DAYS:]
        oldest = day(DEAD_AFTER_DAYS)
        if not known or known[-1]["date"] < oldest:
            raise SourceError(f"FRED {fred_id}: nothing since {oldest}; is the series discontinued?")
        return known

    def _headlines(self, now: dt.datetime) -> Payload:
        asked = dict.fromkeys(self.rss_urls, feeds.rss)
        if self.gdelt_url:
            asked[f"{self.gdelt_url}?{urllib.parse.urlencode(GDELT_QUERY)}"] = feeds.gdelt
        found, wrong = _at_once(
            {url: partial(self.web.get, url, parse, NEWS_KEEP_S) for url, parse in asked.items()}
        )
        missing = [str(problem) for problem in wrong.values()]
        since = now - dt.timedelta(hours=NEWS_HOURS)
        items = [item for feed in found.values() for item in feed if since <= item.published <= now]
        fresh = {item.text.casefold(): item for item in items}
        newest = sorted(fresh.values(), key=lambda item: (item.published, item.text))[-MAX_HEADLINES:]
        if not newest:
            said = "; ".join(missing) or "every feed is older"
            raise SourceError(f"headlines: none of the last {NEWS_HOURS} hours: {said}")
        listed = [
            {"id": f"h{n}", "published": stamp(item.published), "source": item.source, "text": item.text}
            for n, item in enumerate(newest, 1)
        ]
        return {"as_of": stamp(now), "headlines": listed} | ({"missing": missing} if missing else {})

    def _quotes(self, now: dt.datetime) -> Payload:
        make = self.exchange or ccxt_exchange()
        foreign = {symbol.split("/")[1] for symbol in self.symbols} - {"USD"}
        wanted = [*self.symbols, *(pairs := [f"{currency}/USD" for currency in sorted(foreign)])]

        def books_at(venue: str) -> dict[str, feeds.Book]:
            return feeds.books(make(venue), wanted)

        found, wrong = _at_once({venue: partial(books_at, venue) for venue in self.venues})
        missing = [f"{venue}: {type(why).__name__}: {why}"[:300] for venue, why in wrong.items()]
        fx: dict[str, float] = {}
        quotes: list[dict[str, Any]] = []
        for venue, books in found.items():
            for pair in pairs:
                if pair in books:
                    fx.setdefault(pair, (books[pair].bid + books[pair].ask) / 2)
            quotes += [books[symbol].quote(venue, symbol) for symbol in self.symbols if symbol in books]
        priced = {"USD", *(pair.removesuffix("/USD") for pair in fx)}
        usable = [quote for quote in quotes if quote["symbol"].split("/")[1] in priced]
        if len({quote["venue"] for quote in usable}) < 2:
            raise SourceError(f"quotes: fewer than two venues answered: {'; '.join(missing) or 'no books'}")
        as_of = max(self.now(), now)  # the books came in after `now` was read
        payload: Payload = {"as_of": stamp(as_of), "quotes": usable, "fx": fx}
        return payload | ({"missing": missing} if missing else {})


def _at_once(asked: Mapping[str, Callable[[], T]]) -> tuple[dict[str, T], dict[str, BaseException]]:
    """Each in a thread of its own: what came, and what went wrong (ccxt passes on whatever its transport raises)."""
    waiting = {name: start(work) for name, work in asked.items()}
    wrong = {name: why for name, answer in waiting.items() if (why := answer.exception()) is not None}
    return {name: answer.result() for name, answer in waiting.items() if name not in wrong}, wrong


def ccxt_exchange() -> Exchanges:
    """Makes ccxt's exchange objects; without the extra, one line that says what to install."""
    try:
        import ccxt
    except ImportError:
        raise SourceError("quotes: live order books need the extra: pip install -e '.[live]'") from None

    def make(venue: str) -> Any:
        known = getattr(ccxt, venue, None)
        if venue not in ccxt.exchanges or known is None:
            raise SourceError(f"ccxt knows no venue {venue!r}; see RATCHET_VENUES")
        return known({"timeout": BOOK_TIMEOUT_MS, "enableRateLimit": True})

    return make
