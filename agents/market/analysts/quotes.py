"""The offline judgement on venue pairs; vocabulary in agents/analysts.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.offline.rules import Rules

NO_LIMIT = 1e9
Row = Mapping[str, Any]


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """The candidates worth trading."""
    rows = [row for row in payload.get("candidates") or () if isinstance(row, dict) and _tradable(rules, row)]
    if rules.flag("best_per_symbol", False):
        best: dict[str, dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: -_earned(rules, row)):
            best.setdefault(str(row["symbol"]), row)
        rows = list(best.values())
    return {"items": [{"candidate_id": row["id"], "rationale": _rationale(row)} for row in rows]}


def _tradable(rules: Rules, row: Row) -> bool:
    return (
        _earned(rules, row) > rules.number("min_profit_pct", 0.0)
        and (row.get("profit_usd") or 0.0) >= rules.number("min_profit_usd", -NO_LIMIT)
        and (row.get("notional_usd") or 0.0) >= rules.number("min_notional_usd", 0.0)
        and row["profit_pct"] <= rules.number("max_plausible_profit_pct", NO_LIMIT)
        and row["quote_age_s"] <= rules.number("max_quote_age_s", NO_LIMIT)
        and row["age_gap_s"] <= rules.number("max_age_gap_s", NO_LIMIT)
        and -row["youngest_age_s"] <= rules.number("max_future_s", NO_LIMIT)
        and _convertible(rules, row)
        and not (row["crossed"] and rules.flag("reject_crossed", False))
        and not {row["buy_venue"], row["sell_venue"]} & set(rules.terms("blocked_venues"))
    )


def _earned(rules: Rules, row: Row) -> float:
    """Profit in percent on the chosen basis, less what conversion costs."""
    profit = float(row["profit_pct"] if rules.word("profit_basis", "gross") == "net" else row["gross_pct"])
    haircut = {"fx": "fx_haircut_bps", "parity": "stablecoin_haircut_bps"}.get(row["conversion"])
    return profit - (rules.number(haircut, 0.0) / 100 if haircut else 0.0)


def _convertible(rules: Rules, row: Row) -> bool:
    if row["conversion"] == "fx":
        return rules.flag("allow_fx", True)
    return row["conversion"] != "parity" or rules.word("stablecoin_parity", "assume") == "assume"


def _rationale(row: Row) -> str:
    return (
        f"buy at {row['buy_venue']}, sell at {row['sell_venue']}: {row['profit_pct']:.3f} % after fees, "
        f"size {row['size']:g}, oldest quote {row['quote_age_s']:g} s"
    )
