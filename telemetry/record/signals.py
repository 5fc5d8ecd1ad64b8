"""What did a run say, in a form that two agents' runs can be compared by?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 50  # signals kept per row: a row stays small whatever an agent returns


def signal_keys(output: object) -> str:
    """The distinct signals, parted by spaces: `VIX:risk_off europe:conflict BTC:alpha>beta`; order kept."""
    items = output if isinstance(output, list | tuple) else (output,)
    keys = dict.fromkeys(_key(item) for item in items if isinstance(item, Mapping))
    return " ".join([key for key in keys if key][:MOST])


def best_profit_pct(output: object) -> float | None:
    """The best net profit among an output's opportunities, in percent."""
    items = output if isinstance(output, list | tuple) else (output,)
    found = [item.get("profit_pct") for item in items if isinstance(item, Mapping)]
    numbers = [float(value) for value in found if isinstance(value, int | float) and value == value]
    return max(numbers, default=None)


def _key(item: Mapping[Any, Any]) -> str:
    if item.get("buy_venue"):
        return _word(f"{item.get('symbol')}:{item['buy_venue']}>{item.get('sell_venue')}")
    subject = item.get("series") or item.get("region")
    what = item.get("signal") or item.get("category")
    return _word(f"{subject}:{what}") if subject and what else ""


def _word(text: str) -> str:
    return "_".join(text.split())[:80]
