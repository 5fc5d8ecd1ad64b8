"""The quotes that the venues of the sample market show: mostly none that cross; sometimes one that looks as if.

Four planted situations: a spread that is real net of fees, one that fees eat, one against a stale quote, and one
that is real but a few dollars deep. Every crossed pair comes with what an order would have met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agents.market.sample.planted import Dice

FEE_BPS: Final = {"alpha": 10.0, "bravo": 8.0, "charlie": 20.0, "delta": 26.0}
LISTED: Final = {
    "BTC": (("alpha", "BTC/USD"), ("bravo", "BTC/USD"), ("charlie", "BTC/EUR"), ("delta", "BTC/USD")),
    "ETH": (("alpha", "ETH/USD"), ("bravo", "ETH/USDT"), ("delta", "ETH/USD")),
    "SOL": (("alpha", "SOL/USD"), ("bravo", "SOL/USD"), ("charlie", "SOL/EUR")),
}
OPENING_USD: Final = {"BTC": 68000.0, "ETH": 3400.0, "SOL": 150.0}

# situation -> how often a day has one, outside the quiet stretches
FREQUENCY: Final = {"real": 0.42, "fees": 0.45, "stale": 0.22, "thin": 0.16}
QUIET_FREQUENCY: Final = {"real": 0.10, "fees": 0.30, "stale": 0.10, "thin": 0.05}
LAST_FREQUENCY: Final = {"real": 1.0, "fees": 1.0}  # so that a first run has something to say
FRESH_FILLED: Final = (
    0.86  # chance that an order still meets fresh quotes; none once one is older than STALE_S
)
STALE_S: Final = 60.0
THIN_USD: Final = 100.0  # below this, somebody else is often there first
THIN_FILLED: Final = 0.5


class Books:
    """The venues' best quotes, day by day."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.price = dict(OPENING_USD)
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
        dice, listed = self.dice, LISTED[base]
        half = [dice.between(0.0002, 0.0006) for _ in listed]  # half the spread
        shift = [dice.between(-0.0001, 0.0001) for _ in listed]
        age = [round(dice.between(0.4, 7.5), 1) for _ in listed]
        depth = [[dice.between(4e3, 8e4), dice.between(4e3, 8e4)] for _ in listed]  # USD at bid, at ask
        buy = sell = 0
        if situation:
            buy = int(dice.between(0, len(listed)))
            sell = (buy + 1 + int(dice.between(0, len(listed) - 1))) % len(listed)
            fees = (FEE_BPS[listed[buy][0]] + FEE_BPS[listed[sell][0]]) / 1e4
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
        for n, (venue, symbol) in enumerate(listed):
            rate = fx.get(f"{symbol.split('/')[1]}/USD", 1.0)
            mid = self.price[base] * (1 + shift[n]) / rate
            sizes = [round(usd / self.price[base], 5) for usd in depth[n]]
            rows.append(
                [venue, symbol, round(mid * (1 - half[n]), 2), round(mid * (1 + half[n]), 2), *sizes, age[n]]
            )
        return rows

    def _fills(self, base: str, rows: list[list[Any]], fx: dict[str, float]) -> list[dict[str, Any]]:
        """What an order would have met, for every pair of venues whose quotes cross before fees."""
        fills: list[dict[str, Any]] = []
        for buy in rows:
            for sell in rows:
                if _usd(sell, sell[2], fx) <= _usd(buy, buy[3], fx):
                    continue
                chance = FRESH_FILLED if max(buy[6], sell[6]) < STALE_S else 0.0
                if min(buy[5], sell[4]) * self.price[base] < THIN_USD:
                    chance *= THIN_FILLED
                pair = {"symbol": base, "buy_venue": buy[0], "sell_venue": sell[0]}
                filled = self.dice.chance(chance)
                profit = _net_pct(buy, sell, fx) if filled else None
                fills.append(pair | {"filled": filled, "realised_pct": profit})
        return fills


def _usd(row: list[Any], price: float, fx: dict[str, float]) -> float:
    return float(price) * fx.get(f"{row[1].split('/')[1]}/USD", 1.0)


def _net_pct(buy: list[Any], sell: list[Any], fx: dict[str, float]) -> float:
    """Profit of buying at one ask and selling at the other bid, net of both fees, in percent."""
    paid = _usd(buy, buy[3], fx) * (1 + FEE_BPS[buy[0]] / 1e4)
    got = _usd(sell, sell[2], fx) * (1 - FEE_BPS[sell[0]] / 1e4)
    return round((got / paid - 1) * 100, 4)
