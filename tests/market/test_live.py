"""Live sources against a loopback server that speaks the documented formats, and what goes wrong with them."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.domain import SourceError
from agents.market import feeds, open_source
from agents.market.live import SERIES, Live
from agents.sources.web import USER_AGENT, Web
from tests.worlds.loopback import Loopback, Reply, Request

NOW = dt.datetime(2026, 11, 13, 15, 0, tzinfo=dt.UTC)
HTML = b"<!DOCTYPE html><html><head><title>Sorry</title></head><body>We'll be back soon</body></html>"


def csv(series: str, header: str = "observation_date") -> bytes:
    days = [NOW.date() - dt.timedelta(days=n) for n in range(150, -1, -1)]
    rows = [f"{day},{'.' if day.day == 25 else '' if day.day == 26 else 15 + day.day / 10}" for day in days]
    return "\n".join([f"{header},{series}", *rows, ""]).encode()


def fred(request: Request) -> Reply:
    return Reply(
        body=csv(parse_qs(urlsplit(request.path).query)["id"][0]), headers={"Content-Type": "text/csv"}
    )


def rss(*titles: str, hours_ago: float = 2, head: str = '<?xml version="1.0" encoding="UTF-8"?>') -> bytes:
    when = (NOW - dt.timedelta(hours=hours_ago)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    items = "".join(f"<item><title>{title}</title><pubDate>{when}</pubDate></item>" for title in titles)
    return f'{head}<rss version="2.0"><channel><title>World news</title>{items}</channel></rss>'.encode()


def gdelt(*titles: str) -> bytes:
    seen = (NOW - dt.timedelta(hours=1)).strftime("%Y%m%dT%H%M%SZ")
    articles = [
        {"url": "https://a.example/", "title": t, "seendate": seen, "domain": "a.example"} for t in titles
    ]
    return json.dumps({"articles": articles}).encode()


def live(server: Loopback, root: Path, **changed: Any) -> Live:
    settings: dict[str, Any] = {
        "web": Web(root / ".ratchet/cache", timeout_s=20.0, max_bytes=200_000, pause_s=0.01),
        "fred_url": f"{server.origin}/fredgraph.csv",
        "gdelt_url": f"{server.origin}/gdelt",
        "rss_urls": [f"{server.origin}/rss"],
        "now": lambda: NOW,
    }
    return Live(**(settings | changed))


def news(
    rss_body: bytes = rss("Talks resume"), gdelt_body: bytes = gdelt("Port reopens")
) -> Callable[[Request], Reply]:
    return lambda request: Reply(body=gdelt_body if request.path.startswith("/gdelt") else rss_body)


def test_macro_from_fred(root: Path) -> None:
    with Loopback(fred) as server:
        payload = live(server, root).load("macro")
    assert [series["id"] for series in payload["series"]] == list(SERIES)
    assert payload["as_of"] == "2026-11-13"
    assert payload["synthetic"] is False
    history = payload["series"][0]["history"]
    assert len(history) == 90
    assert history[-1] == {"date": "2026-11-13", "value": 16.3}
    assert not {point["date"][-2:] for point in history} & {"25", "26"}
    assert server.requests[0].headers["user-agent"] == USER_AGENT
    assert "cosd=2026-05-17" in server.requests[0].path


def test_the_older_header_of_fred_is_read_too() -> None:
    assert feeds.fred(csv("DGS10", "DATE"), "DGS10")


def test_a_second_run_asks_nobody(root: Path) -> None:
    with Loopback(fred) as server:
        first = live(server, root).load("macro")
        assert live(server, root).load("macro") == first
        assert len(server.requests) == len(SERIES)


def test_a_spoilt_cache_is_asked_for_again(root: Path) -> None:
    with Loopback(fred) as server:
        first = live(server, root).load("macro")
        for file in (root / ".ratchet/cache").iterdir():
            file.write_bytes(file.read_bytes()[:-3])
        assert live(server, root).load("macro") == first


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(body=HTML), "HTML page instead of CSV"),
        (Reply(429), "HTTP 429 Too Many Requests"),
        (Reply(429, headers={"Retry-After": "3600"}), "HTTP 429"),
        (Reply(500, HTML), "HTTP 500"),
        (Reply(404, HTML), "HTTP 404"),
        (Reply(), "empty answer"),
        (Reply(body=csv("VIXCLS"), fault="cut"), "cut off after"),
        (Reply(body=csv("VIXCLS")[:-4]), "cut off in the middle"),
        (Reply(body=csv("SP500")), "expected the header observation_date,"),
        (
            Reply(body=b"observation_date,VIXCLS\n2026-11-12,about 15\n"),
            "header|line 2: expected a date and a number",
        ),
        (Reply(body=b"x" * 300_000), "more than 200,000 bytes"),
        (Reply(body=csv("VIXCLS"), headers={"Content-Encoding": "gzip"}), "answered in 'gzip'"),
        (Reply(body=csv("VIXCLS"), fault="reset"), "Error"),
        (Reply(302, headers={"Location": "file:///etc/passwd"}), "HTTP 302|redirect"),
    ],
)
def test_what_fred_may_answer_instead(root: Path, reply: Reply, said: str) -> None:
    with Loopback([reply]) as server, pytest.raises(SourceError, match=said) as caught:
        live(server, root).load("macro")
    assert "127.0.0.1" in str(caught.value)
    assert "?" not in str(caught.value).split(": ")[0], "the query stays out of messages"
    assert not list((root / ".ratchet").rglob("*")), "an error page must not be remembered"


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_server_that_takes_for_ever_is_given_up_on(root: Path, fault: str) -> None:
    with Loopback([Reply(body=csv("VIXCLS"), fault=fault)]) as server:
        start = time.monotonic()
        with pytest.raises(SourceError, match=r"no whole answer within 0\.3 s"):
            live(server, root, web=Web(root / "cache", timeout_s=0.3)).load("macro")
        assert time.monotonic() - start < 5


def test_an_unreachable_host_is_a_source_error(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Loopback([Reply()]) as server, pytest.raises(SourceError, match="refused"):
        live(server, root, fred_url=f"http://127.0.0.1:{port}/").load("macro")


def test_a_server_that_stumbles_once_is_asked_again(root: Path) -> None:
    asked: list[str] = []

    def stumble(request: Request) -> Reply:
        asked.append(request.path)
        return Reply(503, headers={"Retry-After": "0"}) if asked.count(request.path) == 1 else fred(request)

    with Loopback(stumble) as server:
        assert live(server, root).load("macro")
    assert len(asked) == 2 * len(SERIES)


def test_a_discontinued_series_is_a_source_error_that_names_it(root: Path) -> None:
    def old(request: Request) -> Reply:
        return (
            Reply(body=b"observation_date,DGS10\n2026-09-01,4.2\n")
            if "DGS10" in request.path
            else fred(request)
        )

    with Loopback(old) as server, pytest.raises(SourceError, match="FRED DGS10: nothing since 2026-10-14"):
        live(server, root).load("macro")


def test_headlines_from_rss_and_gdelt(root: Path) -> None:
    with Loopback(
        news(rss("Talks &amp; tea", "TALKS &amp;amp; TEA", "&lt;b&gt;Bold&lt;/b&gt; move"))
    ) as server:
        payload = live(server, root).load("headlines")
    assert sorted(item["text"] for item in payload["headlines"]) == [
        "Bold move",
        "Port reopens",
        "TALKS & TEA",
    ]
    assert payload["headlines"][0]["published"] == "2026-11-13T13:00:00Z"
    assert payload["headlines"][-1]["source"] == "a.example"
    assert [item["id"] for item in payload["headlines"]] == ["h1", "h2", "h3"]
    assert "missing" not in payload


def test_atom_is_read_too() -> None:
    atom = (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><title>Desk</title><entry><title type="html"><![CDATA[<i>One</i>]]>'
        b"</title><updated>2026-11-13T10:00:00+02:00</updated><author><name>N</name></author></entry></feed>"
    )
    assert feeds.rss(atom) == [feeds.Item(dt.datetime(2026, 11, 13, 8, tzinfo=dt.UTC), "Desk", "One")]


BOMB = '<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaa"><!ENTITY c "&a;&a;">]>'
OUTSIDE = '<?xml version="1.0"?><!DOCTYPE b SYSTEM "http://169.254.0.1/x">'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (HTML, "HTML page instead of RSS"),
        (rss("x")[:-20], "not well-formed"),
        (b"", "empty answer"),
        (rss(), "no item with title and date"),
        (b"<rss><channel><item><title>No date</title></item></channel></rss>", "no item"),
        (rss("&c;", head=BOMB), "document type or entity"),
        (rss("x", head=OUTSIDE), "document type or entity"),
        (b"<a>" * 100_000, "nested deeper"),
        (rss("old", hours_ago=100), "none of the last 36 hours"),
        (rss("from tomorrow", hours_ago=-20), "none of the last 36 hours"),
    ],
)
def test_what_a_feed_may_answer_instead(root: Path, body: bytes, said: str) -> None:
    with Loopback(news(body)) as server, pytest.raises(SourceError, match=said):
        live(server, root, gdelt_url="", web=Web(root / "cache", timeout_s=9, pause_s=0.01)).load("headlines")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"Your query was too short or too long.", "expected JSON with articles, got 'Your query was too"),
        (b"{}", "no article"),
        (b"[]", "expected JSON"),
        (b'{"articles": [{"title": "cut', "expected JSON"),
        (b'{"articles": [{"title": "no date"}, 3, {"seendate": "20261113T140000Z"}]}', "no article"),
        (HTML, "HTML page instead of JSON"),
    ],
)
def test_what_gdelt_may_answer_instead(body: bytes, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        feeds.gdelt(body)


def test_one_dead_feed_is_named_and_the_others_count(root: Path) -> None:
    with Loopback(news(gdelt_body=b"Please limit requests to one every 5 seconds")) as server:
        payload = live(server, root).load("headlines")
    assert [item["text"] for item in payload["headlines"]] == ["Talks resume"]
    assert len(payload["missing"]) == 1
    assert "Please limit requests" in payload["missing"][0]


@given(st.binary(max_size=300))
def test_no_bytes_crash_a_parser(body: bytes) -> None:
    for parse in (feeds.rss, feeds.gdelt, lambda text: feeds.fred(text, "VIXCLS")):
        for document in (body, b"<rss><channel><item>" + body, b"observation_date,VIXCLS\n" + body + b"\n"):
            try:
                parse(document)
            except SourceError as problem:
                assert str(problem)


class FakeExchange:
    """A venue with the two ccxt methods that are used."""

    def __init__(self, books: dict[str, Any], problem: Exception | None = None) -> None:
        self.books, self.problem = books, problem

    def load_markets(self) -> dict[str, Any]:
        return {symbol: {"taker": 0.0026} for symbol in self.books}

    def fetch_order_book(self, symbol: str, limit: int) -> Any:
        if self.problem:
            raise self.problem
        return self.books[symbol]


def book(bid: float, ask: float, timestamp: int | None = 1_700_000_000_000) -> dict[str, Any]:
    return {"bids": [[bid, 2.0], [bid - 1, 9.0]], "asks": [[ask, 1.5, 0]], "timestamp": timestamp}


def quotes(venues: dict[str, FakeExchange], root: Path) -> dict[str, Any]:
    web = Web(root / "cache")
    return Live(web, venues=list(venues), exchange=venues.__getitem__).load("quotes")


def test_order_books_become_quotes_with_fees_and_exchange_rates(root: Path) -> None:
    venues = {
        "kraken": FakeExchange(
            {"BTC/USD": book(100, 101), "BTC/EUR": book(90, 91, None), "EUR/USD": book(1.0, 1.2)}
        ),
        "bitstamp": FakeExchange({"BTC/USD": book(102, 103)}),
    }
    payload = quotes(venues, root)
    assert payload["fx"] == {"EUR/USD": 1.1}
    assert [(q["venue"], q["symbol"]) for q in payload["quotes"]] == [
        ("kraken", "BTC/USD"),
        ("kraken", "BTC/EUR"),
        ("bitstamp", "BTC/USD"),
    ]
    first = payload["quotes"][0]
    assert (first["bid"], first["ask"], first["bid_size"], first["ask_size"]) == (100, 101, 2.0, 1.5)
    assert first["fee_bps"] == 26
    assert first["ts"] == "2023-11-14T22:13:20Z", "an old book keeps its age"


def test_a_quote_without_an_exchange_rate_is_left_out(root: Path) -> None:
    venues = {name: FakeExchange({"BTC/USD": book(1, 2), "BTC/EUR": book(1, 2)}) for name in ("a", "b")}
    assert {quote["symbol"] for quote in quotes(venues, root)["quotes"]} == {"BTC/USD"}


def test_a_failing_venue_is_named_and_two_are_enough(root: Path) -> None:
    good = {"BTC/USD": book(1, 2)}
    venues = {
        "a": FakeExchange(good),
        "b": FakeExchange(good, RuntimeError("429 slow down")),
        "c": FakeExchange(good),
    }
    assert quotes(venues, root)["missing"] == ["b: RuntimeError: 429 slow down"]


@pytest.mark.parametrize(
    "broken",
    [
        {"bids": [], "asks": []},
        {},
        {"bids": [[2, 1]], "asks": [[1, 1]]},
        {"bids": [[0, 1]], "asks": [[1, 1]]},
        None,
    ],
)
def test_fewer_than_two_venues_is_a_source_error(root: Path, broken: Any) -> None:
    venues = {"a": FakeExchange({"BTC/USD": book(1, 2)}), "b": FakeExchange({"BTC/USD": broken})}
    with pytest.raises(SourceError, match="fewer than two venues answered: b: "):
        quotes(venues, root)


def test_without_the_extra_one_line_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ccxt", None)
    with pytest.raises(SourceError, match=r"pip install -e '\.\[live\]'"):
        Live(Web(root / "cache")).load("quotes")


def test_ccxt_really_has_the_venues_and_methods(root: Path) -> None:
    pytest.importorskip("ccxt")
    from agents.market.live import VENUES, ccxt_exchange

    for venue in VENUES:
        exchange = ccxt_exchange()(venue)
        assert callable(exchange.load_markets)
        assert callable(exchange.fetch_order_book)
    with pytest.raises(SourceError, match="RATCHET_VENUES"):
        ccxt_exchange()("nowhere")


def test_the_environment_changes_the_addresses(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(fred) as server:
        monkeypatch.setenv("RATCHET_FRED_URL", f"{server.origin}/other.csv")
        monkeypatch.setenv("RATCHET_RSS_URLS", "http://a.example/1 http://a.example/2")
        monkeypatch.setenv("RATCHET_VENUES", "x, y")
        source = open_source("live", root)
        assert isinstance(source, Live)
        assert source.rss_urls == ["http://a.example/1", "http://a.example/2"]
        assert source.venues == ["x", "y"]
        with contextlib.suppress(SourceError):  # the loopback's dates need not be near today's
            source.load("macro")
        assert server.requests[0].path.startswith("/other.csv?id=")


@pytest.mark.parametrize(
    ("kind", "as_of", "said"), [("macro", "2026-01-02", "only today"), ("tea", None, "no input")]
)
def test_what_live_cannot_answer(root: Path, kind: str, as_of: str | None, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        Live(Web(root / "cache"), now=lambda: NOW).load(kind, as_of)
