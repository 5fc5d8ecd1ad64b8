"""The offline judgement on macro features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agents.offline.rules import Rules, flag, names, number, words

UP = {"VIX": "risk_off", "DGS10": "rates_up", "DXY": "dollar_up", "WTI": "oil_up"}
DOWN = {"VIX": "risk_on", "DGS10": "rates_down", "DXY": "dollar_down", "WTI": "oil_down"}

Row = Mapping[str, Any]


KEYS: Final = {
    "z_alert": number(2.0, "report when |z| is at least this ...", 2.0, by_series=True),
    "min_move": number(
        0, "... and |daily_change| of a level at least this fraction ...", 0.02, by_series=True
    ),
    "min_move_pp": number(0, "... or |change_pp| of a rate so many percentage points", 0.05, by_series=True),
    "rates_in_pp": flag("judge rates by `min_move_pp`; else by `min_move`, like levels"),
    "big_move": number(0, "report a move of this size whatever z is; 0: never", 0.1, by_series=True),
    "gap_scaling": flag("use z_gap_adjusted: several days' change is not one day's"),
    "max_stale_days": number(1000, "say nothing about older data", 3, whole=True),
    "min_history": number(0, "say nothing with fewer changes behind the z-score", 20, whole=True),
    "data_error_ratio": number(
        0, "`data_error` when jump_ratio or its inverse reaches this; 0: never", 3.0, by_series=True
    ),
    "positive_only": names("series whose value at or below 0 is a `data_error`"),
    "vix_calm_below": number(
        20, "regime by the VIX level when VIX is given and fresh: calm below this, ...", 20, whole=True
    ),
    "vix_stressed_from": number(30, "... stressed from here on, else normal", 30, whole=True),
    "vol_calm_below": number(
        0.8, "regime without VIX by the series' own vol_ratio: calm below this, ...", 0.8
    ),
    "vol_stressed_from": number(1.5, "... stressed from here on, else normal", 1.5),
    "up_signals": words("series -> signal of a rise", default=UP, tuned=False),
    "down_signals": words("series -> signal of a fall", default=DOWN, tuned=False),
}


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """One item per series that gives a signal."""
    rows = [row for row in payload.get("series") or () if isinstance(row, dict)]
    items = []
    for row in rows:
        signal = _signal(rules, row)
        if signal is not None:
            regime, why = _regime(rules, row, rows), _rationale(signal, row)
            items.append({"series": row["series"], "signal": signal, "regime": regime, "rationale": why})
    return {"items": items}


def _signal(rules: Rules, row: Row) -> str | None:
    name, value, change = row.get("series"), row.get("value"), row.get("daily_change")
    if not isinstance(name, str) or value is None or _stale(rules, row):
        return None
    if _broken(rules, row):
        return "data_error"
    if change is None or row.get("history_n", 0) < rules.number("min_history"):
        return None
    in_points = row.get("kind") == "rate" and rules.flag("rates_in_pp")
    move = abs(row["change_pp"] if in_points else change)
    least = rules.number_for("min_move_pp" if in_points else "min_move", name)
    z = row.get("z_gap_adjusted" if rules.flag("gap_scaling") else "z_score")
    unusual = z is not None and abs(z) >= rules.number_for("z_alert", name) and move >= least
    big = rules.number_for("big_move", name)
    if not unusual and not 0 < big <= move:
        return None
    up, down = rules.words("up_signals"), rules.words("down_signals")
    return (up if change > 0 else down).get(name)


def _stale(rules: Rules, row: Row) -> bool:
    return int(row.get("stale_days") or 0) > rules.number("max_stale_days")


def _broken(rules: Rules, row: Row) -> bool:
    """A value no market made: wrong unit, bad tick, impossible sign."""
    name, jump = str(row["series"]), row.get("jump_ratio")
    if name in rules.terms("positive_only") and row["value"] <= 0:
        return True
    limit = rules.number_for("data_error_ratio", name)
    return limit > 1 and jump is not None and (jump >= limit or jump <= 1 / limit)


def _regime(rules: Rules, row: Row, rows: list[dict[str, Any]]) -> str:
    vix = next((other for other in rows if other.get("series") == "VIX"), None)
    known = vix is not None and vix.get("value") is not None
    if vix and known and not _stale(rules, vix) and not _broken(rules, vix):
        return _between(vix["value"], rules.number("vix_calm_below"), rules.number("vix_stressed_from"))
    return _between(row.get("vol_ratio"), rules.number("vol_calm_below"), rules.number("vol_stressed_from"))


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
