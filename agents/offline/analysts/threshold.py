"""The offline judgement for agents without code: a threshold on a field; vocabulary in agents/analysts.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.offline.rules import Rules


def answer(rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
    """One item per record whose field is large enough; the schema decides which of its parts are kept."""
    names, only = rules.word("id_field", "series"), rules.terms("only")
    field = rules.word("field", "daily_change")
    items = []
    for row in payload.get(rules.word("list", "series")) or ():
        value = row.get(field) if isinstance(row, dict) else None
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or (only and str(row.get(names)) not in only)
        ):
            continue
        if rules.number("above", 0.0) <= abs(value) < rules.number("below", 1e9):
            items.append(_item(rules, str(row.get(names)), names, field, float(value)))
    return {"items": items}


def _item(rules: Rules, name: str, names: str, field: str, value: float) -> dict[str, Any]:
    risk = min(rules.number("max_risk", 100.0), abs(value) * rules.number("risk_per_unit", 0.0))
    return {
        names: name,
        field: value,
        "value": value,
        "signal": rules.word("up_signal", "up") if value > 0 else rules.word("down_signal", "down"),
        "risk_score": round(min(100.0, max(0.0, risk)), 1),
        "rationale": f"{name}: {field} is {value:+.4g}",
    }
