"""What did a run say, in a form that two agents' runs can be compared by?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 50  # signals kept per row: a row stays small whatever an agent returns


def signal_keys(output: object) -> list[str]:
    """One key per distinct signal: `VIX:risk_off`, `europe:conflict`, `BTC:alpha>beta`; order kept."""
    items = output if isinstance(output, list | tuple) else (output,)
    keys = dict.fromkeys(_key(item) for item in items if isinstance(item, Mapping))
    return [key for key in keys if key][:MOST]


def best_profit_pct(output: object) -> float | None:
    """The best net profit among an output's opportunities, in percent."""
    items = output if isinstance(output, list | tuple) else (output,)
    found = [item.get("profit_pct") for item in items if isinstance(item, Mapping)]
    numbers = [float(value) for value in found if isinstance(value, int | float) and value == value]
    return max(numbers, default=None)


def _key(item: Mapping[Any, Any]) -> str:
    if item.get("buy_venue"):
        return f"{item.get('symbol')}:{item['buy_venue']}>{item.get('sell_venue')}"
    subject = item.get("series") or item.get("region")
    what = item.get("signal") or item.get("category")
    return f"{subject}:{what}"[:80] if subject and what else ""
