"""The quotes that the venues of the sample market show: mostly none that cross; sometimes one that looks as if.

Four planted situations: a spread that is real net of fees, one that fees eat, one against a stale quote, and one
that is real but a few dollars deep. Every crossed pair comes with what an order would have met.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any, Final

from agents.market.sample.planted import PLAN, Dice

FEE_BPS: Final[dict[str, float]] = PLAN["venues"]
LISTED: Final[dict[str, dict[str, str]]] = PLAN["listed"]
# The chance that an order still meets fresh quotes; there is none once one is older than STALE_S.
FRESH_FILLED: Final = 0.86
STALE_S: Final = 60.0
THIN_USD: Final = 100.0  # below this, somebody else is often there first
THIN_FILLED: Final = 0.5


class Books:
    """The venues' best quotes, day by day."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.price = dict(PLAN["opening_usd"])
        self.eur = 1.09

    def next_day(
        self, frequency: Mapping[str, float]
    ) -> tuple[dict[str, float], list[list[Any]], list[dict[str, Any]]]:
        """Exchange rates, quotes as [venue, symbol, bid, ask, bid_size, ask_size, age_s], and the fills."""
        dice = self.dice
        self.eur *= 1 + 0.003 * dice.noise()
        fx = {"EUR/USD": round(self.eur, 4), "USDT/USD": round(dice.between(0.9990, 1.0008), 4)}
        free = list(LISTED)
        planted: dict[str, str] = {}
        for situation, share in frequency.items():
            if free and dice.chance(share):
                base = dice.pick(free)
                free.remove(base)
                planted[base] = situation
        quotes: list[list[Any]] = []
        fills: list[dict[str, Any]] = []
        for base in LISTED:
            self.price[base] *= 1 + 0.022 * dice.noise()
            rows = self._book(base, planted.get(base), fx)
            quotes += rows
            fills += self._fills(base, rows, fx)
        return fx, quotes, fills

    def _book(self, base: str, situation: str | None, fx: dict[str, float]) -> list[list[Any]]:
        dice, venues = self.dice, list(LISTED[base])
        half = [dice.between(0.0002, 0.0006) for _ in venues]  # half the spread
        shift = [dice.between(-0.0001, 0.0001) for _ in venues]
        age = [round(dice.between(0.4, 7.5), 1) for _ in venues]
        depth = [[dice.between(4e3, 8e4), dice.between(4e3, 8e4)] for _ in venues]  # USD at bid, at ask
        if situation:
            buy = int(dice.between(0, len(venues)))
            sell = (buy + 1 + int(dice.between(0, len(venues) - 1))) % len(venues)
            fees = (FEE_BPS[venues[buy]] + FEE_BPS[venues[sell]]) / 1e4
            gross = {
                "real": fees + dice.between(0.0018, 0.0150),
                "fees": fees * dice.between(0.25, 0.85),
                "stale": fees + dice.between(0.0040, 0.0240),
                "thin": fees + dice.between(0.0030, 0.0120),
            }[situation]
            shift[buy] = 0.0
            shift[sell] = gross + half[buy] + half[sell]
            if situation == "stale":
                old = dice.pick((buy, sell))
                age[old] = round(dice.between(95, 1400), 1)
            if situation == "thin":
                depth[buy][1] = dice.between(8, 60)
        rows = []
        for n, (venue, currency) in enumerate(LISTED[base].items()):
            mid = self.price[base] * (1 + shift[n]) / fx.get(f"{currency}/USD", 1.0)
            prices = [round(mid * (1 - half[n]), 2), round(mid * (1 + half[n]), 2)]
            sizes = [round(usd / self.price[base], 5) for usd in depth[n]]
            rows.append([venue, f"{base}/{currency}", *prices, *sizes, age[n]])
        return rows

    def _fills(self, base: str, rows: list[list[Any]], fx: dict[str, float]) -> list[dict[str, Any]]:
        """What an order would have met, for every pair of venues whose quotes cross before fees."""
        fills: list[dict[str, Any]] = []
        for buy, sell in permutations(rows, 2):
            paid, got = (
                price * fx.get(f"{symbol.split('/')[1]}/USD", 1.0)
                for symbol, price in ((buy[1], buy[3]), (sell[1], sell[2]))
            )
            if got <= paid:
                continue
            chance = FRESH_FILLED if max(buy[6], sell[6]) < STALE_S else 0.0
            if min(buy[5], sell[4]) * self.price[base] < THIN_USD:
                chance *= THIN_FILLED
            filled = self.dice.chance(chance)
            net = got * (1 - FEE_BPS[sell[0]] / 1e4) / (paid * (1 + FEE_BPS[buy[0]] / 1e4)) - 1
            pair = {"symbol": base, "buy_venue": buy[0], "sell_venue": sell[0]}
            fills.append(pair | {"filled": filled, "realised_pct": round(net * 100, 4) if filled else None})
        return fills
