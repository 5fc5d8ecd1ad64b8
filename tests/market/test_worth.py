"""What a market run said, as its row names it."""

from __future__ import annotations

from agents.market.worth import SIGNALS
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
