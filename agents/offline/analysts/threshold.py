"""The offline judgement for agents without code: a threshold on a number of each record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agents.offline.rules import Rules, names, number, word

KEYS: Final = {
    "list": word("items", "the list of records in the payload", tuned=False),
    "id_field": word("id", "what names a record", tuned=False),
    "only": names("names of the records that count; none: all", tuned=False),
    "field": word("value", "report records by this number"),
    "above": number(0.0, "... from this size on", 1.0),
    "below": number(1e9, "... and below this one", 10.0),
    "up_signal": word("up", "`signal` of a number above 0", tuned=False),
    "down_signal": word("down", "... and of one below", tuned=False),
    "risk_per_unit": number(0.0, "risk_score is the size times this ...", 10),
    "max_risk": number(100.0, "... at most this", 50, whole=True),
}


def answer(rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
    """One item per record whose field is large enough; the schema decides which of its parts are kept."""
    names, only = rules.word("id_field"), rules.terms("only")
    field = rules.word("field")
    items = []
    for row in payload.get(rules.word("list")) or ():
        value = row.get(field) if isinstance(row, dict) else None
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or (only and str(row.get(names)) not in only)
        ):
            continue
        if rules.number("above") <= abs(value) < rules.number("below"):
            items.append(_item(rules, str(row.get(names)), names, field, float(value)))
    return {"items": items}


def _item(rules: Rules, name: str, names: str, field: str, value: float) -> dict[str, Any]:
    risk = min(rules.number("max_risk"), abs(value) * rules.number("risk_per_unit"))
    return {
        names: name,
        field: value,
        "value": value,
        "signal": rules.word("up_signal") if value > 0 else rules.word("down_signal"),
        "risk_score": round(min(100.0, max(0.0, risk)), 1),
        "rationale": f"{name}: {field} is {value:+.4g}",
    }
