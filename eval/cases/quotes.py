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
from dataclasses import dataclass, replace
from itertools import permutations

from eval.cases import Row, case, content, family_of, generator, wanted

MIN_PROFIT_PCT = 0.10
MAX_PROFIT_PCT = 3.0
MIN_NOTIONAL_USD = 1_000.0
MAX_AGE_S = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One group of cases: the net profit wanted, between whom, how many pairs are found, and what is odd about it."""

    name: str
    count: int
    profit: tuple[float, float]  # percent
    currencies: tuple[str, str] = ("USD", "USD")  # of buyer and seller
    odd: str = ""
    found: tuple[int, int] = (0, 0)  # least, most


GIVEN = content(__file__)
ASSETS: dict[str, float] = GIVEN["assets"]


def cases() -> Iterator[Row]:
    """All cases, in order."""
    draw = generator("quotes")
    for plan in (Plan(**given) for given in GIVEN["plans"]):
        for number in range(plan.count):
            made = None
            while made is None:
                made = _case(draw, f"arb-{plan.name}-{number + 1:03}", plan)
            yield made


def _case(draw: random.Random, case_id: str, plan: Plan) -> Row | None:
    """A case, or None if its label is not what was planned, or not clear."""
    as_of = dt.datetime(2026, 3, 2, 8, tzinfo=dt.UTC) + dt.timedelta(seconds=draw.randrange(200 * 86_400))
    fx = {pair: round(rate * draw.uniform(0.985, 1.015), 4) for pair, rate in GIVEN["fx"].items()}
    fx["USDT/USD"] = round(draw.uniform(0.9935, 0.9975), 4)  # below par: treating it as a dollar misleads
    asset = draw.choice(list(ASSETS))
    quotes = _book(draw, asset, plan, as_of, fx)
    if plan.odd == "unrated":
        del fx["USDT/USD"]
    if plan.odd == "two":
        other = draw.choice([one for one in ASSETS if one != asset])
        profit = draw.choice([plan.profit, (-0.5, -0.1)])
        quotes += _book(draw, other, replace(plan, profit=profit, odd=""), as_of, fx)
    if plan.odd == "superseded":  # the seller's bid was good enough a few seconds ago
        older = dict(quotes[1], bid=_tick(quotes[1]["bid"] * draw.uniform(1.008, 1.015)))
        older["ask"] = _tick(older["bid"] * 1.0006)
        stamp = dt.datetime.fromisoformat(older["ts"]) - dt.timedelta(seconds=draw.uniform(1, 4))
        quotes.append(older | {"ts": _stamp(stamp)})
    draw.shuffle(quotes)
    pairs = list(_pairs(quotes, fx, as_of))
    found = [pair for pair in pairs if _executable(pair)]
    if not plan.found[0] <= len(found) <= plan.found[1] or _ambiguous(pairs):
        return None
    places = [[pair["symbol"], pair["buy_venue"], pair["sell_venue"]] for pair in found]
    expect = [wanted("set_f1", "*.symbol:buy_venue:sell_venue", values=places)]
    for pair in found:
        item, profit_pct = f"[symbol={pair['symbol']}]", round(pair["profit_pct"], 4)
        expect.append(wanted("numeric", f"{item}.profit_pct", value=profit_pct, abs=0.01, weight=0.5))
        expect.append(wanted("numeric", f"{item}.size", value=pair["size"], rel=0.001, weight=0.5))
    payload = {"as_of": _stamp(as_of), "quotes": quotes, "fx": fx}
    return case(case_id, family_of("spread", plan.name, asset), payload, expect, [plan.name])


def _book(draw: random.Random, asset: str, plan: Plan, as_of: dt.datetime, fx: dict[str, float]) -> list[Row]:
    """Quotes of one asset at 2-4 venues; the first two hold the planted spread, buyer's side first."""
    odd = plan.odd
    price = ASSETS[asset] * draw.uniform(0.85, 1.15)
    venues = draw.sample(GIVEN["venues"], draw.randrange(2, 5))
    target = draw.uniform(*plan.profit)
    fees = [draw.choice(GIVEN["fees"]) for _ in venues]
    if odd == "gross":  # a spread that looks good until both fees are paid
        fees[:2] = draw.choice(GIVEN["dear"]), draw.choice(GIVEN["dear"])
    gap = (1 + target / 100) * (1 + fees[0] / 1e4) / (1 - fees[1] / 1e4)
    asks = [price, price * gap * draw.uniform(1.0003, 1.0012)]
    bids = [price * draw.uniform(0.9985, 0.9996), price * gap]
    for _ in venues[2:]:  # bystanders inside the spread, dear to buy from and poor to sell to
        middle = price * (1 + (gap - 1) * draw.uniform(0.35, 0.65))
        half = max(abs(gap - 1), 0.002) * draw.uniform(0.6, 0.9)
        asks.append(middle * (1 + half))
        bids.append(middle * (1 - half))
    made = []
    for place, venue in enumerate(venues):
        currency = plan.currencies[place] if place < 2 else "USD"
        rate = fx.get(f"{currency}/USD") or GIVEN["unrated"][currency]
        depth = odd if odd in GIVEN["depth"] else "deep"
        if place > 1 or (odd == "thin" and draw.random() < 0.5 and place == 0):
            depth = "deep"  # one deep side does not make a thin pair executable
        sizes = [float(f"{draw.uniform(*GIVEN['depth'][depth]) / price:.4g}") for _ in "ba"]
        age = draw.uniform(0.2, 4.0)
        if odd == "stale" and place == 0:
            age = draw.choice((draw.uniform(11.5, 25), draw.uniform(30, 900)))
        elif odd == "aged" and place < 2:
            age = draw.uniform(4.5, 9.0)
        elif odd == "future" and place == 1:
            age = -draw.uniform(20, 3600)
        bid = bids[place] if odd != "crossed" or place else asks[place] * draw.uniform(1.001, 1.004)
        quote = {"venue": venue, "symbol": f"{asset}/{currency}"}
        quote |= {"bid": _tick(bid / rate), "ask": _tick(asks[place] / rate)}
        quote |= {"bid_size": sizes[0], "ask_size": sizes[1], "fee_bps": fees[place]}
        made.append(quote | {"ts": _stamp(as_of - dt.timedelta(seconds=age))})
    return made


def _executable(pair: Row) -> bool:
    """The labelling rule, word for word."""
    return bool(
        MIN_PROFIT_PCT <= pair["profit_pct"] <= MAX_PROFIT_PCT
        and pair["notional_usd"] >= MIN_NOTIONAL_USD
        and pair["quote_age_s"] <= MAX_AGE_S
        and not pair["broken"]
    )


def _pairs(quotes: list[Row], fx: dict[str, float], as_of: dt.datetime) -> Iterator[Row]:
    """Every way to buy at one venue and sell at another, in USD and net of fees."""
    newest: dict[tuple[str, str], str] = {}
    for quote in quotes:
        place = (quote["venue"], quote["symbol"])
        newest[place] = max(newest.get(place, ""), quote["ts"])
    standing = [quote for quote in quotes if quote["ts"] == newest[quote["venue"], quote["symbol"]]]
    known = {"USD/USD": 1.0} | fx
    for buy, sell in permutations(standing, 2):
        (asset, paid), (other, got) = buy["symbol"].split("/"), sell["symbol"].split("/")
        rates = known.get(f"{paid}/USD"), known.get(f"{got}/USD")
        if asset != other or buy["venue"] == sell["venue"] or rates[0] is None or rates[1] is None:
            continue
        bought = buy["ask"] * rates[0] * (1 + buy["fee_bps"] / 1e4)
        sold = sell["bid"] * rates[1] * (1 - sell["fee_bps"] / 1e4)
        size = min(buy["ask_size"], sell["bid_size"])
        ages = [(as_of - dt.datetime.fromisoformat(quote["ts"])).total_seconds() for quote in (buy, sell)]
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


def _ambiguous(pairs: list[Row]) -> bool:
    """Two profitable pairs of one asset, or a pair so near a limit that rounding could decide."""
    gains = [pair for pair in pairs if pair["profit_pct"] >= MIN_PROFIT_PCT - 0.06]
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
