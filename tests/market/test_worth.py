"""What a market run said, as its row names it, and what became of it."""

from __future__ import annotations

from typing import Any

from agents import market as worth
from agents.market import SIGNALS
from meta.worth.evidence import Known
from telemetry.read.field import day_of
from telemetry.reward import items


def test_signals_have_comparable_keys() -> None:
    output = [
        {"series": "VIX", "signal": "risk_off"},
        {"region": "europe", "category": "conflict"},
        {"symbol": "BTC", "buy_venue": "a", "sell_venue": "b", "profit_pct": 0.4},
        {"series": "VIX", "signal": "risk_off"},
        {"note": "?"},
        "text",
    ]
    assert SIGNALS.keys(output) == "VIX:risk_off europe:conflict BTC:a>b"
    assert SIGNALS.figures(items(output)) == {"profit_pct": 0.4}
    assert SIGNALS.keys(None) == "" and SIGNALS.figures(items(3)) == {"profit_pct": None}


def test_what_came_true_and_what_filled_by_hand() -> None:
    outcomes: list[dict[str, Any]] = [
        {"date": f"2026-03-{day:02d}", "series": "VIX", "event": day in (2, 3)} for day in range(2, 12)
    ] + [
        {"date": "2026-03-02", "symbol": "BTC", "buy_venue": "a", "sell_venue": "b", "filled": True},
        {"date": "2026-03-03", "symbol": "BTC", "buy_venue": "a", "sell_venue": "b", "filled": False},
    ]
    alerts = [
        {"agent": "m", "ts": f"2026-03-{day:02d}T06:00:00Z", "signals": "VIX:risk_off BTC:a>b"}
        for day in (2, 3, 4, 5)
    ]
    hit = Known.of(outcomes, worth.came_true).hits(alerts)
    assert hit is not None and (hit.alerts, hit.hit_rate, hit.base_rate) == (4, 0.5, 0.2)
    fill = worth.fills([{**run, "day": day_of(run)} for run in alerts], outcomes)
    assert fill is not None and (fill["named"], fill["fill_rate"]) == (2, 0.5)
