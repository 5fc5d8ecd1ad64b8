"""The offline judgement on macro features; vocabulary in agents/analysts.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.offline.rules import Rules

UP = {"VIX": "risk_off", "DGS10": "rates_up", "DXY": "dollar_up", "WTI": "oil_up"}
DOWN = {"VIX": "risk_on", "DGS10": "rates_down", "DXY": "dollar_down", "WTI": "oil_down"}

Row = Mapping[str, Any]


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """One item per series that gives a signal."""
    rows = [row for row in payload.get("series") or () if isinstance(row, dict)]
    items = []
    for row in rows:
        signal = _signal(rules, row)
        if signal is not None:
            items.append(
                {
                    "series": row["series"],
                    "signal": signal,
                    "regime": _regime(rules, row, rows),
                    "rationale": _rationale(signal, row),
                }
            )
    return {"items": items}


def _signal(rules: Rules, row: Row) -> str | None:
    name, value, change = row.get("series"), row.get("value"), row.get("daily_change")
    if not isinstance(name, str) or value is None or _stale(rules, row):
        return None
    if _broken(rules, row):
        return "data_error"
    if change is None or row.get("history_n", 0) < rules.number("min_history", 0):
        return None
    in_points = row.get("kind") == "rate" and rules.flag("rates_in_pp", False)
    move = abs(row["change_pp"] if in_points else change)
    least = rules.number_for("min_move_pp" if in_points else "min_move", name, 0.0)
    z = row.get("z_gap_adjusted" if rules.flag("gap_scaling", False) else "z_score")
    unusual = z is not None and abs(z) >= rules.number_for("z_alert", name, 2.0) and move >= least
    big = rules.number_for("big_move", name, 0.0)
    if not unusual and not 0 < big <= move:
        return None
    up, down = rules.words("up_signals", UP), rules.words("down_signals", DOWN)
    return (up if change > 0 else down).get(name)


def _stale(rules: Rules, row: Row) -> bool:
    return int(row.get("stale_days") or 0) > rules.number("max_stale_days", 1000)


def _broken(rules: Rules, row: Row) -> bool:
    """A value no market made: wrong unit, bad tick, impossible sign."""
    name, jump = str(row["series"]), row.get("jump_ratio")
    if name in rules.terms("positive_only") and row["value"] <= 0:
        return True
    limit = rules.number_for("data_error_ratio", name, 0.0)
    return limit > 1 and jump is not None and (jump >= limit or jump <= 1 / limit)


def _regime(rules: Rules, row: Row, rows: list[dict[str, Any]]) -> str:
    vix = next((other for other in rows if other.get("series") == "VIX"), None)
    if (
        vix is not None
        and vix.get("value") is not None
        and not _stale(rules, vix)
        and not _broken(rules, vix)
    ):
        return _between(
            vix["value"], rules.number("vix_calm_below", 20), rules.number("vix_stressed_from", 30)
        )
    return _between(
        row.get("vol_ratio"), rules.number("vol_calm_below", 0.8), rules.number("vol_stressed_from", 1.5)
    )


def _between(value: float | None, calm_below: float, stressed_from: float) -> str:
    if value is None:
        return "normal"
    return "calm" if value < calm_below else "stressed" if value >= stressed_from else "normal"


def _rationale(signal: str, row: Row) -> str:
    """Only numbers that the output itself holds: a reader can check each of them."""
    if signal == "data_error":
        return f"{row['series']} reads {row['value']:g}: no market moves like that, the feed looks wrong"
    moved = f"{row['change_pp']:+.2f} points" if row.get("kind") == "rate" else f"{row['daily_change']:+.2%}"
    z = "" if row.get("z_score") is None else f", z-score {row['z_score']:.1f}"
    return f"{row['series']} moved {moved} to {row['value']:g}{z}"
