"""Finds all single changes of a prompt's rules that might mend its failures, the likelier ones first. Pure.

A move is a set of new values by key (None: take the key out). Numbers go up and down in steps, flags flip, words take
their other values, terms come and go; new terms are mined from the texts of failing cases. Whether a move is any good
is not decided here: it is tried on the cases.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from agents.offline.rules import BY_SUBJECT, Analyst, Key, found, known_keys, tuned_keys
from meta.offline.term_mining import Mined, why_failed
from meta.proposals.checks import texts_in
from telemetry.edge.frozen import frozen

WEIGHT_FACTORS = (0.5, 0.75, 1.25, 1.5)  # of terms that failing cases hold
FACTORS = (0.25, 0.5, 0.67, 0.8, 0.9, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
PAIRS = 600  # of a word or flag with a number, tried when there are not many moves otherwise
FEW = 250

_EXPECTED = re.compile(r'expected "([^"\\]{1,80})"')

Values = Mapping[str, Any]


@frozen
class Move:
    """New values by key; None takes the key out."""

    values: tuple[tuple[str, Any], ...]
    told: str  # in words


def moves(
    values: Values,
    analysts: Mapping[str, Analyst],
    failing: Sequence[Mapping[str, Any]],
    mined: Sequence[Mined],
    draw: random.Random,
) -> list[Move]:
    """Every move, each once: first those on what is set, then keys not set yet and mined terms by their worth."""
    analyst = analysts.get(str(values.get("analyst", "")))
    keys = tuned_keys(analyst) or known_keys(analysts, values)
    reasons = [why_failed(case) for case in failing]
    labels = tuple(dict.fromkeys(label for case in reasons for label in _expected(case)))
    keys = {name: replace(key, choices=labels) if key.labels else key for name, key in keys.items()}
    subjects = sorted(_subjects([analyst] if analyst else analysts.values(), failing))
    texts = "\n".join(text for case in failing for text in texts_in(case.get("input"), words=2))
    simple = [
        move
        for name, key in keys.items()
        if _may_mend(key, reasons, share=0.0)
        for move in _of_key(name, key, values, subjects, texts)
    ]
    wordy = [move for one in mined for move in _with_term(one, keys, values)]
    draw.shuffle(simple)
    in_turn = chain.from_iterable(zip_longest(simple, wordy))  # so that a small budget sees the best of each
    every = [move for move in in_turn if move is not None]
    if len(every) < FEW:
        every += _pairs(simple, keys, values, draw)
    return list({repr(move.values): move for move in every}.values())


def _of_key(name: str, key: Key, values: Values, subjects: Sequence[str], texts: str) -> Iterator[Move]:
    """Another value, or an entry more, less or changed; only entries that the texts hold, where it is for texts."""
    now = values.get(name)
    if key.kind in ("number", "flag", "word"):
        for value in _others(now, key):
            yield _set(name, value, now)
    elif key.kind in ("numbers", "weights", "words"):
        entries = now if isinstance(now, dict) else {}
        for entry, value in entries.items():
            if key.in_text and not found((str(entry),), texts):
                continue
            for other in _others(value, key):
                yield _one(name, {**entries, entry: other}, f"{name}: {entry} {value} -> {_short(other)}")
            if (key.kind != "words" or key.labels) and len(entries) > 1:
                rest = {one: other for one, other in entries.items() if one != entry}
                yield _one(name, rest, f"{name} without {entry!r}")
        for entry in subjects if key.by_series else ():
            if entry not in entries:
                for value in _steps(values.get(name.removesuffix(BY_SUBJECT)), key):
                    yield _one(name, {**entries, entry: value}, f"{name}: {entry} {_short(value)}")
    elif isinstance(now, list):
        for term in (one for one in now if not key.in_text or found((str(one),), texts)):
            yield _one(name, [one for one in now if one != term], f"{name} without {term!r}")
    if now is not None and key.kind in ("number", "numbers"):
        yield _one(name, None, f"no {name}")


def _others(now: Any, key: Key) -> Sequence[Any]:
    """What could stand for a single value instead, by the kind of its key."""
    if key.kind == "flag":
        return [flag == "yes" for flag in ("yes", "no") if str(now).lower() != flag]
    if key.kind in ("word", "words"):
        return [word for word in key.choices if word != now]
    if key.kind == "weights":
        return [_two_digits((_number(now) or 0.0) * factor) for factor in WEIGHT_FACTORS]
    return _steps(now, key)


def _with_term(mined: Mined, keys: Mapping[str, Key], values: Values) -> Iterator[Move]:
    """The term added to every list and map that could mend the cases it was found in."""
    for name, key in keys.items():
        if not key.in_text or not _may_mend(key, mined.reasons):
            continue
        now = values.get(name)
        if key.kind == "terms":
            terms = now if isinstance(now, list) else []
            if mined.term not in terms:
                yield _one(name, [*terms, mined.term], f"{name} with {mined.term!r}")
        elif key.kind == "weights":
            weights = now if isinstance(now, dict) else {}
            if mined.term not in weights:
                for value in _usual(weights):
                    told = f"{name} with {mined.term!r}: {_short(value)}"
                    yield _one(name, {**weights, mined.term: value}, told)
        elif key.kind == "words" and key.labels:
            entries = now if isinstance(now, dict) else {}
            due = Counter(label for case in mined.reasons for label in _expected(case))
            if due and mined.term not in entries:
                label = due.most_common(1)[0][0]
                yield _one(name, {**entries, mined.term: label}, f"{name} with {mined.term!r}: {label}")


def _expected(reasons: Sequence[str]) -> list[str]:
    """The labels that the graders would have liked to see."""
    return [label for why in reasons for label in _EXPECTED.findall(why)]


def _may_mend(key: Key, reasons: Sequence[Sequence[str]], share: float = 0.5) -> bool:
    """Do the failures, or at least this share of them, look like what the key is for?"""
    if not key.mends:
        return True
    alike = sum(any(word in why for why in case for word in key.mends) for case in reasons)
    return alike > 0 and alike >= share * len(reasons)


def _one(name: str, value: Any, told: str) -> Move:
    return Move(((name, value),), told)


def _set(name: str, value: Any, before: Any) -> Move:
    was = "not set" if before is None else _short(before)
    return _one(name, value, f"{name} {was} -> {_short(value)}")


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _steps(now: Any, key: Key) -> list[float]:
    """Values around the present one; around a usual one when there is none."""
    base = _number(now)
    size, factors = (abs(base), FACTORS) if base else (key.scale, (0.1, *FACTORS, 1.0))
    around = [size * factor for factor in factors]
    around += [0.0, *((base + 1, base - 1) if base is not None and (key.whole or base >= 5) else ())]
    rounded = [float(round(value)) if key.whole else _two_digits(value) for value in around if value >= 0]
    return [value for value in dict.fromkeys(rounded) if value != base]


def _usual(weights: Mapping[str, Any]) -> list[float]:
    """A light, a middling and a heavy weight of those in use."""
    known = sorted(number for value in weights.values() if (number := _number(value)) is not None)
    known = known or [20.0, 60.0]
    return list(dict.fromkeys([known[0], known[len(known) // 2], known[-1]]))


def _two_digits(value: float) -> float:
    return 0.0 if value == 0 else round(value, 1 - math.floor(math.log10(abs(value))))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _pairs(
    simple: Sequence[Move], keys: Mapping[str, Key], values: Values, draw: random.Random
) -> list[Move]:
    """A word or flag together with a number: a threshold on another field needs another size at once."""
    switches = [move for move in simple if keys[move.values[0][0]].kind in ("word", "flag")]
    sizes = [
        _set(name, value, values.get(name))
        for name, key in keys.items()
        if key.kind == "number"
        for value in dict.fromkeys([*_steps(values.get(name), key), *_steps(None, key), key.scale * 2.5])
    ]
    both = [Move(one.values + two.values, f"{one.told}, {two.told}") for one in switches for two in sizes]
    return draw.sample(both, min(PAIRS, len(both)))


def _subjects(analysts: Iterable[Analyst], cases: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names of what the cases are about, from the lists that these analysts look at."""
    lists = {one.subject[:2] for one in analysts if one.subject}
    inputs = [case["input"] for case in cases if isinstance(case.get("input"), Mapping)]
    listed = [(given.get(name), called) for given in inputs for name, called in lists]
    rows = [(row, called) for value, called in listed if isinstance(value, list) for row in value]
    named = [row.get(called, row.get("id")) for row, called in rows if isinstance(row, Mapping)]
    return {name for name in named if isinstance(name, str)}
