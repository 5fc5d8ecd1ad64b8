"""The cases of arbitrage_finder: order-book tops at a few venues, and by arithmetic what could really be earned.

Labelling rule, by exact arithmetic on the quotes as printed in the case:
1. Prices are compared in USD: a quote in EUR or USDT is converted at the rate in `fx`. A currency with no rate cannot
   be compared, a stablecoin no less: that it stands at par is what one would have to know.
2. Buying costs `ask * (1 + fee)`, selling brings `bid * (1 - fee)`; `profit_pct = (sold / bought - 1) * 100`.
3. The size is the smaller of what the two quotes show, the notional is that size at the ask, in USD.
4. Executable means: profit_pct >= 0.10, notional >= 1,000 USD, and both quotes at most 10 s old at `as_of`.
5. More than 3 % net is not a gift but a broken quote (a misplaced decimal, another instrument); a quote from the future
   or a venue whose bid is above its own ask is broken, too: nothing is reported.
6. A venue that is quoted twice stands by its newer quote; the older one is gone.

Each case has at most one executable pair of venues per asset, so that "all pairs" and "the best pair" agree.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

MIN_PROFIT_PCT = 0.10
MAX_PROFIT_PCT = 3.0
MIN_NOTIONAL_USD = 1_000.0
MAX_AGE_S = 10.0

VENUES = ("alpha", "bravo", "cobalt", "delta", "ember")
ASSETS = {"BTC": 64_000.0, "ETH": 3_100.0, "SOL": 148.0, "XRP": 0.58, "LTC": 82.0, "LINK": 14.2}
FX = {"EUR/USD": 1.08, "GBP/USD": 1.27, "USDT/USD": 0.998}

# name, cases, wanted net profit (percent), currencies of buyer and seller, what is odd about it
PLANS: tuple[tuple[str, int, tuple[float, float], tuple[str, str], str], ...] = (
    ("clear", 40, (0.30, 1.40), ("USD", "USD"), ""),
    ("near-above", 28, (0.11, 0.17), ("USD", "USD"), ""),
    ("near-below", 32, (0.02, 0.09), ("USD", "USD"), ""),
    ("none", 12, (-0.60, -0.10), ("USD", "USD"), ""),
    ("fees-eat-it", 24, (-0.35, -0.03), ("USD", "USD"), "gross"),
    ("thin", 24, (0.30, 1.20), ("USD", "USD"), "thin"),
    ("thick-enough", 16, (0.25, 0.90), ("USD", "USD"), "modest"),
    ("stale", 24, (0.30, 1.50), ("USD", "USD"), "stale"),
    ("fresh-enough", 16, (0.25, 0.90), ("USD", "USD"), "aged"),
    ("too-good", 16, (3.6, 9.0), ("USD", "USD"), ""),
    ("crossed-real", 16, (0.25, 1.10), ("USD", "EUR"), ""),
    ("crossed-mirage", 16, (-0.50, -0.05), ("USD", "EUR"), ""),
    ("tether-real", 12, (0.22, 0.80), ("USDT", "USD"), ""),
    ("tether-mirage", 12, (-0.15, 0.05), ("USD", "USDT"), ""),
    ("no-rate", 8, (0.30, 0.90), ("USD", "JPY"), ""),
    ("tether-no-rate", 16, (0.20, 0.80), ("USD", "USDT"), "unrated"),
    ("crossed-book", 12, (0.30, 1.20), ("USD", "USD"), "crossed"),
    ("future", 8, (0.30, 1.20), ("USD", "USD"), "future"),
    ("superseded", 10, (-0.50, -0.10), ("USD", "USD"), "superseded"),
    ("two-assets", 20, (0.25, 1.20), ("USD", "USD"), "two"),
)


def cases(seed: int = 20261116) -> Iterator[dict[str, Any]]:
    """All cases, in order; the same seed gives the same cases."""
    draw = random.Random(f"quotes/{seed}")
    for name, count, profit, currencies, odd in PLANS:
        for number in range(count):
            while True:
                case = _case(draw, f"arb-{name}-{number + 1:03}", name, profit, currencies, odd)
                if case is not None:
                    break
            yield case


def _case(
    draw: random.Random,
    case_id: str,
    name: str,
    profit: tuple[float, float],
    currencies: tuple[str, str],
    odd: str,
) -> dict[str, Any] | None:
    as_of = dt.datetime(2026, 3, 2, 8, tzinfo=dt.UTC) + dt.timedelta(seconds=draw.randrange(200 * 86_400))
    fx = {pair: round(rate * draw.uniform(0.985, 1.015), 4) for pair, rate in FX.items()}
    fx["USDT/USD"] = round(
        draw.uniform(0.9935, 0.9975), 4
    )  # a tether below par: treating it as a dollar misleads
    quotes = _book(draw, draw.choice(list(ASSETS)), profit, currencies, odd, as_of, fx)
    if odd == "unrated":
        del fx["USDT/USD"]
    if odd == "two":
        other = draw.choice([asset for asset in ASSETS if not quotes[0]["symbol"].startswith(asset)])
        quotes += _book(draw, other, draw.choice([profit, (-0.5, -0.1)]), currencies, "", as_of, fx)
    if odd == "superseded":  # the seller's bid was good enough a few seconds ago
        older = dict(quotes[1], bid=_tick(quotes[1]["bid"] * draw.uniform(1.008, 1.015)))
        older["ask"] = _tick(older["bid"] * 1.0006)
        stamp = dt.datetime.fromisoformat(older["ts"]) - dt.timedelta(seconds=draw.uniform(1, 4))
        quotes.append(older | {"ts": _stamp(stamp)})
    draw.shuffle(quotes)
    found = opportunities(quotes, fx, as_of)
    wanted = {"two": (1, 2)}.get(odd, (1, 1) if name in REAL else (0, 0))
    if not wanted[0] <= len(found) <= wanted[1] or _ambiguous(quotes, fx, as_of):
        return None
    rows = [[o["symbol"], o["buy_venue"], o["sell_venue"]] for o in found]
    expect: list[dict[str, Any]] = [
        {"grader": "set_f1", "path": "*.symbol:buy_venue:sell_venue", "values": rows}
    ]
    for o in found:
        expect += [
            {
                "grader": "numeric",
                "path": f"[symbol={o['symbol']}].profit_pct",
                "value": round(o["profit_pct"], 4),
            }
            | {"abs": 0.01, "weight": 0.5},
            {"grader": "numeric", "path": f"[symbol={o['symbol']}].size", "value": o["size"]}
            | {"rel": 0.001, "weight": 0.5},
        ]
    payload = {"as_of": _stamp(as_of), "quotes": quotes, "fx": fx}
    return {"id": case_id, "input": payload, "expect": expect, "tags": [name]}


REAL = frozenset({"clear", "near-above", "thick-enough", "fresh-enough", "crossed-real", "tether-real"})


def _book(
    draw: random.Random,
    asset: str,
    profit: tuple[float, float],
    currencies: tuple[str, str],
    odd: str,
    as_of: dt.datetime,
    fx: dict[str, float],
) -> list[dict[str, Any]]:
    """Quotes of one asset at 2-4 venues; the first two hold the planted spread, buyer's side first."""
    price = ASSETS[asset] * draw.uniform(0.85, 1.15)
    venues = draw.sample(VENUES, draw.randrange(2, 5))
    target = draw.uniform(*profit)
    fees = [draw.choice((4, 6, 8, 10, 12, 16, 20, 26)) for _ in venues]
    if odd == "gross":  # a spread that looks good until both fees are paid
        fees[0], fees[1] = draw.choice((16, 20, 26)), draw.choice((16, 20, 26))
    gap = (1 + target / 100) * (1 + fees[0] / 1e4) / (1 - fees[1] / 1e4)
    asks, bids = [price, price * gap * draw.uniform(1.0003, 1.0012)], [price * draw.uniform(0.9985, 0.9996)]
    bids.append(price * gap)
    for _ in venues[2:]:  # bystanders inside the spread, dear to buy from and poor to sell to
        middle = price * (1 + (gap - 1) * draw.uniform(0.35, 0.65))
        half = max(abs(gap - 1), 0.002) * draw.uniform(0.6, 0.9)
        asks.append(middle * (1 + half))
        bids.append(middle * (1 - half))
    made = []
    for place, venue in enumerate(venues):
        currency = currencies[place] if place < 2 else "USD"
        rate = fx.get(f"{currency}/USD") or {"USD": 1.0, "JPY": 0.0067, "USDT": 0.996}[currency]
        low, high = {"thin": (40, 850), "modest": (1_150, 2_600)}.get(odd, (3_000, 90_000))
        if place > 1 or (odd == "thin" and draw.random() < 0.5 and place == 0):
            low, high = 3_000, 90_000  # one deep side does not make a thin pair executable
        size, size2 = (float(f"{draw.uniform(low, high) / price:.4g}") for _ in "ba")
        age = draw.uniform(0.2, 4.0)
        if odd == "stale" and place == 0:
            age = draw.choice((draw.uniform(11.5, 25), draw.uniform(30, 900)))
        elif odd == "aged" and place < 2:
            age = draw.uniform(4.5, 9.0)
        elif odd == "future" and place == 1:
            age = -draw.uniform(20, 3600)
        bid = bids[place] if odd != "crossed" or place else asks[place] * draw.uniform(1.001, 1.004)
        made.append(
            {
                "venue": venue,
                "symbol": f"{asset}/{currency}",
                "bid": _tick(bid / rate),
                "ask": _tick(asks[place] / rate),
                "bid_size": size,
                "ask_size": size2,
                "fee_bps": fees[place],
                "ts": _stamp(as_of - dt.timedelta(seconds=age)),
            }
        )
    return made


def opportunities(
    quotes: list[dict[str, Any]], fx: dict[str, float], as_of: dt.datetime
) -> list[dict[str, Any]]:
    """The labelling rule, word for word."""
    return [pair for pair in _pairs(quotes, fx, as_of) if _executable(pair)]


def _executable(pair: dict[str, Any]) -> bool:
    return bool(
        MIN_PROFIT_PCT <= pair["profit_pct"] <= MAX_PROFIT_PCT
        and pair["notional_usd"] >= MIN_NOTIONAL_USD
        and pair["quote_age_s"] <= MAX_AGE_S
        and not pair["broken"]
    )


def _pairs(
    quotes: list[dict[str, Any]], fx: dict[str, float], as_of: dt.datetime
) -> Iterator[dict[str, Any]]:
    newest: dict[tuple[str, str], str] = {}
    for quote in quotes:
        place = (quote["venue"], quote["symbol"])
        newest[place] = max(newest.get(place, ""), quote["ts"])
    standing = [quote for quote in quotes if quote["ts"] == newest[quote["venue"], quote["symbol"]]]
    for buy in standing:
        for sell in standing:
            (asset, paid), (other, got) = buy["symbol"].split("/"), sell["symbol"].split("/")
            rates = [1.0 if currency == "USD" else fx.get(f"{currency}/USD") for currency in (paid, got)]
            if asset != other or buy["venue"] == sell["venue"] or rates[0] is None or rates[1] is None:
                continue
            bought = buy["ask"] * rates[0] * (1 + buy["fee_bps"] / 1e4)
            sold = sell["bid"] * rates[1] * (1 - sell["fee_bps"] / 1e4)
            size = min(buy["ask_size"], sell["bid_size"])
            ages = [(as_of - dt.datetime.fromisoformat(q["ts"])).total_seconds() for q in (buy, sell)]
            yield {
                "symbol": asset,
                "buy_venue": buy["venue"],
                "sell_venue": sell["venue"],
                "profit_pct": (sold / bought - 1) * 100,
                "size": size,
                "notional_usd": size * buy["ask"] * rates[0],
                "quote_age_s": max(ages),
                "broken": min(ages) < 0 or buy["bid"] > buy["ask"] or sell["bid"] > sell["ask"],
            }


def _ambiguous(quotes: list[dict[str, Any]], fx: dict[str, float], as_of: dt.datetime) -> bool:
    """Two profitable pairs of one asset, or a pair so near a limit that rounding could decide."""
    gains = [pair for pair in _pairs(quotes, fx, as_of) if pair["profit_pct"] >= MIN_PROFIT_PCT - 0.06]
    near = any(
        abs(pair["profit_pct"] - MIN_PROFIT_PCT) < 0.006
        or abs(pair["notional_usd"] / MIN_NOTIONAL_USD - 1) < 0.05
        or abs(pair["quote_age_s"] - MAX_AGE_S) < 0.5
        for pair in gains
    )
    return near or len(gains) != len({pair["symbol"] for pair in gains})


def _tick(price: float) -> float:
    return float(f"{price:.7g}")


def _stamp(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
