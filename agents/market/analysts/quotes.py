"""The offline judgement on venue pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agents.offline.rules import Rules, flag, names, number, word

NO_LIMIT = 1e9
Row = Mapping[str, Any]


KEYS: Final = {
    "profit_basis": word("gross", "profit `net` of fees or `gross`", "net", "gross"),
    "min_profit_pct": number(0.0, "an opportunity earns more than this percentage ...", 0.1),
    "min_notional_usd": number(0.0, "... is worth at least this ...", 500, whole=True),
    "min_profit_usd": number(-NO_LIMIT, "... and earns at least this", 1),
    "max_plausible_profit_pct": number(NO_LIMIT, "beyond this it is a wrong price, not a gift", 5),
    "max_quote_age_s": number(NO_LIMIT, "freshness of the older quote", 30, whole=True),
    "max_age_gap_s": number(NO_LIMIT, "how far apart the two quotes may be", 30, whole=True),
    "max_future_s": number(NO_LIMIT, "how far ahead of the clock a quote may be", 2),
    "allow_fx": flag("pairs across currencies", default=True),
    "fx_haircut_bps": number(0.0, "what conversion costs on top", 5),
    "stablecoin_parity": word(
        "assume", "`assume` a stablecoin without a rate is 1 USD, or `refuse` such pairs", "assume", "refuse"
    ),
    "stablecoin_haircut_bps": number(0.0, "what holding a stablecoin at parity costs on top", 5),
    "reject_crossed": flag("refuse a venue whose bid is above its own ask"),
    "blocked_venues": names("venues never used", tuned=False),
    "best_per_symbol": flag("only the most profitable pair of each symbol: all use the same depth"),
}


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """The candidates worth trading."""
    rows = [row for row in payload.get("candidates") or () if isinstance(row, dict) and _tradable(rules, row)]
    if rules.flag("best_per_symbol"):
        best: dict[str, dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: -_earned(rules, row)):
            best.setdefault(str(row["symbol"]), row)
        rows = list(best.values())
    return {"items": [{"candidate_id": row["id"], "rationale": _rationale(row)} for row in rows]}


def _tradable(rules: Rules, row: Row) -> bool:
    return (
        _earned(rules, row) > rules.number("min_profit_pct")
        and (row.get("profit_usd") or 0.0) >= rules.number("min_profit_usd")
        and (row.get("notional_usd") or 0.0) >= rules.number("min_notional_usd")
        and row["profit_pct"] <= rules.number("max_plausible_profit_pct")
        and row["quote_age_s"] <= rules.number("max_quote_age_s")
        and row["age_gap_s"] <= rules.number("max_age_gap_s")
        and -row["youngest_age_s"] <= rules.number("max_future_s")
        and _convertible(rules, row)
        and not (row["crossed"] and rules.flag("reject_crossed"))
        and not {row["buy_venue"], row["sell_venue"]} & set(rules.terms("blocked_venues"))
    )


def _earned(rules: Rules, row: Row) -> float:
    """Profit in percent on the chosen basis, less what conversion costs."""
    profit = float(row["profit_pct"] if rules.word("profit_basis") == "net" else row["gross_pct"])
    haircut = {"fx": "fx_haircut_bps", "parity": "stablecoin_haircut_bps"}.get(row["conversion"])
    return profit - (rules.number(haircut) / 100 if haircut else 0.0)


def _convertible(rules: Rules, row: Row) -> bool:
    if row["conversion"] == "fx":
        return rules.flag("allow_fx")
    return row["conversion"] != "parity" or rules.word("stablecoin_parity") == "assume"


def _rationale(row: Row) -> str:
    return (
        f"buy at {row['buy_venue']}, sell at {row['sell_venue']}: {row['profit_pct']:.3f} % after fees, "
        f"size {row['size']:g}, oldest quote {row['quote_age_s']:g} s"
    )
