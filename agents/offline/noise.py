"""Errors of the offline model: of a defined kind, at a known rate, the same again for the same question.

One call errs with probability `rate`. Then one of these happens to its list of items, each as likely as the
others that are possible: an item is dropped; a judgement in an item is altered (a word becomes another allowed
word, a score moves by 25..60 points of its range's hundred); an item is invented about something the answer left out.
An answer in which none of these is possible (no items, nothing left out) stays as it is.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from typing import Any

Item = dict[str, Any]
Json = Mapping[str, Any]
# What an invented item may be about: a list of the payload, its id field, the answer's id field.
Subject = tuple[str, str, str]


def generator(*parts: str) -> random.Random:
    """Randomness that depends on these texts and nothing else."""
    digest = hashlib.sha256("\x1f".join(parts).encode()).digest()
    return random.Random(int.from_bytes(digest[:16], "big"))


def perturbed(
    answer: Item,
    payload: Json,
    schema: Json | None,
    rate: float,
    draw: random.Random,
    subjects: Iterable[Subject] = (),
) -> Item:
    """The answer, or with probability `rate` one with an error in it."""
    items = answer.get("items")
    if not isinstance(items, list) or draw.random() >= rate:
        return answer
    shape = _item_schema(schema)
    left_out = _left_out(items, payload, shape, subjects)
    alterable = [(index, field) for index, item in enumerate(items) for field in _judgements(item, shape)]
    per_item = "findings" in payload  # one answer per finding is due: dropping one would be another error
    options = (
        ["drop"] * bool(items and not per_item) + ["alter"] * bool(alterable) + ["invent"] * bool(left_out)
    )
    if not options:
        return answer
    items = [dict(item) for item in items]
    kind = draw.choice(options)
    if kind == "drop":
        items.pop(draw.randrange(len(items)))
    elif kind == "alter":
        index, field = draw.choice(alterable)
        items[index][field] = _other(items[index][field], shape["properties"][field], draw)
    else:
        items.append(_invented(left_out, shape, draw))
    return {**answer, "items": items}


def _item_schema(schema: Json | None) -> Json:
    items = ((schema or {}).get("properties") or {}).get("items") or {}
    shape = items.get("items") or {}
    known = isinstance(shape, Mapping) and isinstance(shape.get("properties"), Mapping)
    return shape if known else {"properties": {}}


def _judgements(item: Item, shape: Json) -> list[str]:
    def judged(rule: Json) -> bool:
        ranged = rule.get("type") == "number" and "maximum" in rule and "minimum" in rule
        return ranged or len(rule.get("enum") or ()) > 1

    return [field for field, rule in shape["properties"].items() if field in item and judged(rule)]


def _left_out(
    items: list[Item], payload: Json, shape: Json, subjects: Iterable[Subject]
) -> list[tuple[str, Any]]:
    for key, name, asked in subjects:
        rows = payload.get(key)
        if isinstance(rows, list) and asked in shape["properties"]:
            taken = {item.get(asked) for item in items}
            allowed = shape["properties"][asked].get("enum")
            found = [row.get(name) for row in rows if isinstance(row, dict) and row.get(name) not in taken]
            return [(asked, value) for value in found if not allowed or value in allowed]
    return []


def _other(value: Any, rule: Json, draw: random.Random) -> Any:
    if rule.get("enum"):
        return draw.choice([word for word in rule["enum"] if word != value])
    low, high = float(rule["minimum"]), float(rule["maximum"])
    step = draw.uniform(0.25, 0.60) * (high - low)
    up = value + step <= high and (value - step < low or draw.random() < 0.5)
    return round(min(high, max(low, value + step if up else value - step)), 1)


def _invented(left_out: list[tuple[str, Any]], shape: Json, draw: random.Random) -> Item:
    asked, subject = draw.choice(left_out)
    item: Item = {}
    for field, rule in shape["properties"].items():
        if field == asked:
            item[field] = subject
        elif rule.get("enum"):
            item[field] = draw.choice(rule["enum"])
        elif rule.get("type") == "number":
            item[field] = round(draw.uniform(float(rule.get("minimum", 0)), float(rule.get("maximum", 1))), 1)
        elif rule.get("type") == "string":
            item[field] = "on reflection this one as well"
    return item
