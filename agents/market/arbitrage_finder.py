"""Finds where one can buy and sell at a profit: Python prices every venue pair, the model decides which hold.

A candidate is one way to buy a symbol at a venue's ask and sell it at another's bid, both in USD:

| feature | meaning |
|---|---|
| `gross_pct`, `profit_pct` | profit before and after both venues' fees, percent of what is paid |
| `size`, `notional_usd`, `profit_usd` | what both books hold at these prices, what it costs, what is left |
| `quote_age_s`, `age_gap_s` | age of the older quote; time between the two quotes |
| `youngest_age_s` | age of the younger quote: below zero it comes from the future |
| `conversion` | `same` currency; `fx` (a given rate); `parity` (a stablecoin taken as 1 USD, no rate given) |
| `crossed` | one of the two venues shows a bid above its own ask: a broken book |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any, Final

from agents.base import BaseAgent, InputError, Inputs, Item, joined
from agents.model.schema import listed, record, text
from telemetry.edge.records import is_number

STABLECOINS: Final = frozenset({"USDT", "USDC", "DAI", "TUSD", "BUSD", "FDUSD"})
MAX_CANDIDATES = 60  # the most profitable; a prompt is paid for by the line

JUDGEMENT: Final = listed(
    record(
        candidate_id=text(description="the id of a candidate that is worth trading"),
        rationale=text(minLength=1, maxLength=1000),
    )
)

_KEPT = ("symbol", "buy_venue", "sell_venue", "profit_pct", "size", "notional_usd", "quote_age_s")


class ArbitrageFinder(BaseAgent):
    """Executable spreads between venues, net of fees."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """One item per opportunity, the most profitable first."""
        given = payload(inputs)
        if not given["candidates"]:
            return []
        priced = {row["id"]: row for row in given["candidates"]}
        answer = await self.ask(given, JUDGEMENT)
        found = [
            {key: row[key] for key in _KEPT} | {"rationale": item["rationale"]}
            for item, row in joined(answer, "candidate_id", priced)
        ]
        return sorted(found, key=lambda item: -float(item["profit_pct"]))


def payload(inputs: Inputs) -> dict[str, Any]:
    """What the model is asked about: every pair that would earn something before fees."""
    as_of = _time(inputs.get("as_of"), "as_of")
    quotes, unusable = _quotes(inputs, as_of)
    rows = sorted(_candidates(quotes), key=lambda row: -float(row["profit_pct"]))
    for number, row in enumerate(rows, 1):
        row["id"] = f"c{number}"
    return {
        "as_of": inputs["as_of"],
        "candidates": rows[:MAX_CANDIDATES],
        "candidates_left_out": max(0, len(rows) - MAX_CANDIDATES),
        "unusable_quotes": unusable,
    }


def _candidates(quotes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for buy, sell in product(quotes, quotes):
        if buy["base"] != sell["base"] or (buy["venue"], buy["symbol"]) == (sell["venue"], sell["symbol"]):
            continue
        row = _priced(buy, sell)
        if row is not None and row["gross_pct"] > 0:
            yield row


def _priced(buy: Mapping[str, Any], sell: Mapping[str, Any]) -> dict[str, Any] | None:
    same = buy["quote"] == sell["quote"]
    if not same and (buy["usd"] is None or sell["usd"] is None):
        return None  # two currencies and no rate between them
    paid_in, paid_out = (1.0, 1.0) if same else (buy["usd"], sell["usd"])
    ask, bid = buy["ask"] * paid_in, sell["bid"] * paid_out
    cost, proceeds = ask * (1 + buy["fee_bps"] / 1e4), bid * (1 - sell["fee_bps"] / 1e4)
    size = min(buy["ask_size"], sell["bid_size"])
    usd = 1.0 if not same else buy["usd"]
    return {
        "symbol": buy["base"],
        "buy_venue": buy["venue"],
        "sell_venue": sell["venue"],
        "buy_currency": buy["quote"],
        "sell_currency": sell["quote"],
        "gross_pct": round((bid / ask - 1) * 100, 6),
        "profit_pct": round((proceeds / cost - 1) * 100, 6),
        "size": size,
        "notional_usd": None if usd is None else round(size * ask * usd, 2),
        "profit_usd": None if usd is None else round(size * (proceeds - cost) * usd, 2),
        "quote_age_s": round(max(buy["age_s"], sell["age_s"]), 3),
        "youngest_age_s": round(min(buy["age_s"], sell["age_s"]), 3),
        "age_gap_s": round(abs(buy["age_s"] - sell["age_s"]), 3),
        "conversion": "same" if same else "parity" if "parity" in (buy["rate"], sell["rate"]) else "fx",
        "crossed": buy["bid"] > buy["ask"] or sell["bid"] > sell["ask"],
    }


def _quotes(inputs: Inputs, as_of: datetime) -> tuple[list[dict[str, Any]], int]:
    """Usable quotes, and how many were not: no price, no depth, no time."""
    given, fx = inputs.get("quotes"), inputs.get("fx") or {}
    if not isinstance(given, list) or not isinstance(fx, Mapping):
        raise InputError("quotes inputs: quotes must be a list and fx a mapping")
    priced = [_quote(quote, fx, as_of) for quote in given if isinstance(quote, Mapping)]
    usable = [quote for quote in priced if quote is not None]
    return usable, len(given) - len(usable)


def _quote(quote: Mapping[str, Any], fx: Mapping[str, Any], as_of: datetime) -> dict[str, Any] | None:
    base, slash, currency = str(quote.get("symbol", "")).partition("/")
    numbers = {key: quote.get(key) for key in ("bid", "ask", "bid_size", "ask_size")}
    fee = quote.get("fee_bps", 0)
    if not slash or not is_number(fee) or not all(is_number(one) and one > 0 for one in numbers.values()):
        return None
    try:
        age_s = (as_of - _time(quote.get("ts"), "ts")).total_seconds()
    except InputError:
        return None
    rate, usd = _usd(currency, fx)
    known = {
        "venue": str(quote.get("venue")),
        "symbol": f"{base}/{currency}",
        "base": base,
        "quote": currency,
    }
    return {**known, **numbers, "fee_bps": fee, "age_s": age_s, "rate": rate, "usd": usd}


def _usd(currency: str, fx: Mapping[str, Any]) -> tuple[str, float | None]:
    """How many USD one unit is worth, and how we know."""
    if currency == "USD":
        return "same", 1.0
    straight, inverse = fx.get(f"{currency}/USD"), fx.get(f"USD/{currency}")
    if is_number(straight) and straight > 0:
        return "fx", float(straight)
    if is_number(inverse) and inverse > 0:
        return "fx", 1 / float(inverse)
    return ("parity", 1.0) if currency in STABLECOINS else ("unknown", None)


def _time(value: object, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise InputError(f"quotes inputs: {where}: {str(value)[:40]!r} is not a time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
