"""Reads texts by rules, in any domain: `classify` says which label a record deserves, `extract` which fields it holds.

A record is the question itself, or each entry of the list that `list` names. Of a record every text is read, or those
of `fields`. What a record is called (`id_field`) goes into the answer where it has such a name.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agents.offline.rules import Rules, pattern
from telemetry.edge.records import is_number

MAX_DEPTH: Final = 6  # of the lists and objects of a record in which texts are looked for
_TEST: Final = re.compile(r"(.+?)(<=|>=|=|<|>)(.*)")
_DIGITS: Final = r"\d[\d.,]*(?<![.,])"  # 1,234.50, but not the full stop behind it

Row = Mapping[str, Any]


def classify(rules: Rules, payload: Row) -> dict[str, Any]:
    """One label per record: by the first field rule that holds, else by the most hits of terms, else the default."""
    field = rules.word("label_field")
    return {"items": [{**name, field: _label(rules, row)} for name, row in _records(rules, payload)]}


def extract(rules: Rules, payload: Row) -> dict[str, Any]:
    """One item per record: what has a field's shape, or stands behind its words; null where there is nothing."""
    return {"items": [{**name, **_fields(rules, row)} for name, row in _records(rules, payload)]}


def _records(rules: Rules, payload: Row) -> Iterator[tuple[Row, Row]]:
    """Each record with what names it."""
    where, names = rules.word("list"), rules.word("id_field")
    given = payload.get(where) if where else [payload]
    for row in given if isinstance(given, list) else ():
        if isinstance(row, Mapping):
            yield ({names: row[names]} if names in row else {}), row


def _label(rules: Rules, row: Row) -> str:
    for test, label in rules.words("field_labels").items():
        if _holds(test, row):
            return label
    by_term = rules.words("label_terms")
    text = _text(rules, row)
    hits = Counter(label for term, label in by_term.items() if pattern((term,)).search(text))
    # Of as many hits the label named first: the order of the rules is the author's.
    return max(hits, key=lambda label: hits[label]) if hits else rules.word("default_label")


def _holds(test: str, row: Row) -> bool:
    """`channel=phone`, `amount>=100`: compared as numbers where both are, else only for equality."""
    if not (parts := _TEST.fullmatch(test)):
        return False
    found, sign, wanted = row.get(parts[1].strip()), parts[2], parts[3].strip()
    try:
        limit, value = float(wanted), float(found) if is_number(found) or isinstance(found, str) else None
    except ValueError:
        limit, value = 0.0, None
    if value is None:
        return sign == "=" and str(found).lower() == wanted.lower()
    return {"=": value == limit, ">": value > limit, "<": value < limit, ">=": value >= limit}.get(
        sign, value <= limit
    )


def _fields(rules: Rules, row: Row) -> dict[str, str | None]:
    text = _text(rules, row)
    shaped = {name: _first(_shape(shape), text) for name, shape in rules.words("shapes").items()}
    behind = {name: _first(_behind(words), text) for name, words in rules.words("after").items()}
    return {name: shaped.get(name) or behind.get(name) for name in (*shaped, *behind)}


def _first(finder: re.Pattern[str], text: str) -> str | None:
    hit = finder.search(text)
    return hit[1].strip() if hit else None


@functools.lru_cache(maxsize=256)
def _shape(shape: str) -> re.Pattern[str]:
    """`ORD-####`: `#` is a digit, `#+` a number, `*` anything up to the next space; the rest stands for itself."""
    tokens = {"#+": _DIGITS, "#": r"\d", "*": r"[^\s,;]+"}
    parts = re.findall(r"#\+|#|\*|[^#*]+", shape)
    body = "".join(tokens.get(part) or re.escape(part) for part in parts)
    return re.compile(rf"(?<!\w)({body})(?!\w)")


@functools.lru_cache(maxsize=256)
def _behind(words: str) -> re.Pattern[str]:
    """The rest of the line behind some words, up to a comma or semicolon."""
    return re.compile(rf"(?i:{re.escape(words)})[ \t:]*([^\n,;]+)")


def _text(rules: Rules, row: Row) -> str:
    """What is read of a record; the name of the task is no part of it."""
    chosen = rules.terms("fields")
    parts = [row[name] for name in chosen if name in row] or [
        value for name, value in row.items() if name != "task"
    ]
    return "\n".join(text for part in parts for text in _texts(part))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value.replace("’", "'")
    elif isinstance(value, Mapping | list) and depth < MAX_DEPTH:
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner, depth + 1)
    elif is_number(value):
        yield str(value)
