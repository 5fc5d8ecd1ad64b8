"""Grades an output: small pure graders, each a score in 0..1 with its reason.

A case carries `expect`: a list of `{"grader": NAME, "path": PATH, "weight": 1.0, ...parameters}`. The score of
a case is the weighted mean of its parts; it is `ok` at its threshold (default 1.0: every part fully right).

| grader | parameters | 1.0 when |
|---|---|---|
| `exact` | `value`, or `any_of: [...]` | the value at the path equals it (or one of them) |
| `set_f1` | `values: [...]` | the list holds just these, in any order; else F1, a repeat is a false alarm |
| `numeric` | `value`, `abs`, `rel` | within the larger tolerance; falls linearly to 0 at twice that |
| `band` | `low`, `high` (or one) | the number lies in [low, high]; with `*`, the share that does |
| `contains` | `all: [...]`, `any: [...]` | all of `all` and one of `any` are in the text, case ignored |
| `absent` | `terms: [...]`, or nothing | none of the terms is in the text; or: nothing is at the path |
| `json_schema` | `schema` | the value at the path is valid |
| `ordering` | `values: [...]` or `sort: "asc"` / `"desc"` | all pairs stand so; else the share that do |
| `regex` | `pattern` (as Python's `re` has it) | the pattern is found in the text |
| `my_pkg.mod:function` | its own | it says so (own.py): a pure function of yours, pinned with the suite |
| `llm_judge` | `rubric` | a model finds that it meets the rubric |
| `llm_judge` | `rubric`, `reference` | a model finds it at least as good as the reference, blinded and both ways |

Paths are dotted, from the output: `0.region` (index, key), `*.series` (of every item), `[series=VIX].signal`
(the first item whose field reads so; `[a=1,b=2]` for several fields), `*.series:signal` (fields joined: each value is
a list), and `""` for the whole output. What is not there is *missing*: a failed part with a reason, never an exception.
`read: json` takes the text at the path for JSON, `read: json_in_text` for a list of all JSON objects and arrays in it.
Case is ignored by `contains` and `absent` unless they say `case: true`.
`not: true` turns any grader round: 1.0 where it would not have been fully right.
"""

from __future__ import annotations

import functools
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.model.schema import faults
from eval.grading import own
from telemetry.edge.frozen import frozen
from telemetry.edge.records import is_number

PASS = 1.0  # default threshold of a case
_CLOSE = 1e-9  # a weighted mean of ones may come out as 0.9999999999999999
MAX_TEXT = 100_000  # characters of an answer that a pattern or a parser is let loose on
MAX_PIECES = 1_000  # places at which JSON is looked for in one text
_JSON_START = re.compile(r"[{\[]")
_SEGMENT = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_as_text = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would make one each time

Scored = tuple[float, str]
Segments = tuple[str | tuple[tuple[str, str], ...], ...]


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


@frozen
class Part:
    """One grader's finding."""

    grader: str
    path: str
    score: float
    weight: float
    reason: str


@frozen
class Grade:
    """What a case scored; `reasons` tells only what went wrong."""

    score: float
    ok: bool
    reasons: tuple[str, ...]
    parts: tuple[Part, ...]


def grade(
    expect: Sequence[Mapping[str, Any]],
    output: Any,
    threshold: float = PASS,
    judged: Mapping[int, Part] | None = None,
) -> Grade:
    """Grade an output; `judged` holds the parts of `llm_judge` by position in `expect` (see `judge.py`)."""
    given = judged or {}
    return combine([given.get(at) or grade_part(one, output) for at, one in enumerate(expect)], threshold)


def passes(expect: Sequence[Mapping[str, Any]], output: Any, threshold: float = PASS) -> bool:
    """Whether this answer passes, of which nobody knows what it is worth. No judge is asked: it convinces none."""
    try:
        return grade_unjudged(expect, output, threshold).ok
    except own.GraderError:  # one that was made for something passes nothing
        return False


def grade_unjudged(expect: Sequence[Mapping[str, Any]], output: Any, threshold: float = PASS) -> Grade:
    """Grade an output without asking a judge: it is taken as not convinced."""
    judged = {
        at: Part("llm_judge", one.get("path", ""), 0.0, float(one.get("weight", 1.0)), "not asked")
        for at, one in enumerate(expect)
        if one["grader"] == "llm_judge"
    }
    return grade(expect, output, threshold, judged)


def grade_part(wanted: Mapping[str, Any], output: Any) -> Part:
    """Apply one grader."""
    name, path = wanted["grader"], wanted.get("path", "")
    grader = GRADERS.get(name) or (_by_code if own.is_own(name) else None)
    if grader is None:
        raise ValueError(f"unknown grader {name!r} (known: {', '.join([*GRADERS, 'llm_judge'])})")
    try:
        found = find(output, path)
        if how := wanted.get("read"):
            found = READERS[how](found)
        score, reason = turned(wanted, *grader(found, wanted))
    except RecursionError:
        score, reason = 0.0, "nested too deeply to be read"
    return Part(name, path, score, float(wanted.get("weight", 1.0)), reason)


def turned(wanted: Mapping[str, Any], score: float, reason: str) -> Scored:
    """What a grader found, turned round if that is wanted."""
    if not wanted.get("not"):
        return score, reason
    return (0.0, f"must not be so: {reason}") if score == 1.0 else (1.0, reason)


def _by_code(found: Any, wanted: Mapping[str, Any]) -> Scored:
    """A grader of one's own; what is not there is missing to it too, and None where an item of a list lacks it."""
    if found is MISSING:
        return 0.0, "missing"
    return own.graded(wanted["grader"], _without_missing(found), wanted)


def _without_missing(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_missing(one) for one in value]
    return None if value is MISSING else value


def combine(parts: Sequence[Part], threshold: float = PASS) -> Grade:
    """Weighted mean of the parts; a case without weight would be right whatever happens, so it is refused."""
    total = math.fsum([part.weight for part in parts])
    if total <= 0:
        raise ValueError("a case needs at least one grader with a weight above 0")
    score = min(1.0, math.fsum([part.score * part.weight for part in parts]) / total)
    wrong = [f"{part.grader} {part.path}: {part.reason}" for part in parts if part.score < 1.0]
    return Grade(round(score, 9), score >= threshold - _CLOSE, tuple(wrong), tuple(parts))


def find(value: Any, path: str) -> Any:
    """The value at a path, or MISSING; a `*` gives a list (with MISSING where an item lacks the rest)."""
    return _walk(value, segments(path))


@functools.lru_cache(maxsize=4096)
def segments(path: str) -> Segments:
    """The steps of a path: keys, indexes and `*` as they are, a selector as pairs."""
    return tuple(match[2] or _selector(match[1]) for match in _SEGMENT.finditer(path))


def _selector(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return tuple((key.strip(), wanted.strip()) for key, _, wanted in pairs)


def _walk(value: Any, path: Segments) -> Any:
    for position, segment in enumerate(path):
        if isinstance(segment, tuple):
            items = value if isinstance(value, list) else []
            value = next((item for item in items if _selected(item, segment)), MISSING)
        elif segment == "*":
            if not isinstance(value, list):
                return MISSING
            return [_walk(item, path[position + 1 :]) for item in value]
        elif ":" in segment:
            joined = [_step(value, key) for key in segment.split(":")]
            return MISSING if all(field is MISSING for field in joined) else joined
        else:
            value = _step(value, segment)
        if value is MISSING:
            return MISSING
    return value


def _step(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key, MISSING)
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    return MISSING


def _selected(item: Any, pairs: tuple[tuple[str, str], ...]) -> bool:
    return isinstance(item, dict) and all(str(item.get(key, MISSING)) == wanted for key, wanted in pairs)


def exact(found: Any, wanted: Mapping[str, Any]) -> Scored:
    allowed = wanted["any_of"] if "any_of" in wanted else [wanted["value"]]
    if _key(found) in map(_key, allowed):
        return 1.0, "equal"
    return 0.0, f"{_show(found)}, expected {' or '.join(_show(value) for value in allowed)}"


def set_f1(found: Any, wanted: Mapping[str, Any]) -> Scored:
    if not isinstance(found, list):
        return 0.0, f"{_show(found)}, expected a list"
    got = Counter(_key(value) for value in found)
    due = Counter(_key(value) for value in wanted["values"])
    hits = (got & due).total()
    if hits == got.total() == due.total():
        return 1.0, "equal sets"
    wrong = {"missed": list((due - got).elements()), "false alarm": list((got - due).elements())}
    told = [f"{word} {', '.join(keys)}" for word, keys in wrong.items() if keys]
    return 2 * hits / (got.total() + due.total()), "; ".join(told)


def numeric(found: Any, wanted: Mapping[str, Any]) -> Scored:
    if not is_number(found):
        return 0.0, f"{_show(found)}, expected a number"
    value = float(wanted["value"])
    tolerance = max(float(wanted.get("abs", 0.0)), float(wanted.get("rel", 0.0)) * abs(value))
    off = abs(found - value)
    if off <= tolerance * (1 + _CLOSE):
        return 1.0, "within tolerance"
    reason = f"{found:g}, expected {value:g} +- {tolerance:g}"
    return (max(0.0, 2.0 - off / tolerance) if tolerance > 0 else 0.0), reason


def band(found: Any, wanted: Mapping[str, Any]) -> Scored:
    low, high = wanted.get("low", -math.inf), wanted.get("high", math.inf)
    values = found if isinstance(found, list) else [found]
    if not values:
        return 0.0, f"nothing there, expected a number in [{low:g}, {high:g}]"
    inside = [is_number(value) and low <= value <= high for value in values]
    if all(inside):
        return 1.0, "inside"
    outside = ", ".join(_show(value) for value, good in zip(values, inside, strict=True) if not good)
    return sum(inside) / len(inside), f"{outside}, expected [{low:g}, {high:g}]"


def contains(found: Any, wanted: Mapping[str, Any]) -> Scored:
    if found is MISSING:
        return 0.0, "missing"
    every, some = wanted.get("all", []), wanted.get("any", [])
    held = _held(every, found, wanted)
    checks = len(every) + bool(some)
    score = (len(held) + bool(_held(some, found, wanted))) / checks
    return (1.0, "found") if score == 1.0 else (score, f"lacks {[t for t in every if t not in held] or some}")


def absent(found: Any, wanted: Mapping[str, Any]) -> Scored:
    terms = wanted.get("terms")
    if terms is None:
        empty = found is MISSING or found is None or found == [] or found == {} or found == ""
        return (1.0, "absent") if empty else (0.0, f"{_show(found)}, expected nothing")
    present = [] if found is MISSING else _held(terms, found, wanted)
    return (0.0, f"holds {present}") if present else (1.0, "absent")


def _held(terms: Sequence[str], found: Any, wanted: Mapping[str, Any]) -> list[str]:
    """The terms that the text holds."""
    if wanted.get("case"):
        text = _text(found)
        return [term for term in terms if term in text]
    text = _text(found).lower()
    return [term for term in terms if term.lower() in text]


def regex(found: Any, wanted: Mapping[str, Any]) -> Scored:
    if found is MISSING:
        return 0.0, "missing"
    with own.limited(f"pattern {wanted['pattern']}"):
        hit = compiled(wanted["pattern"]).search(_text(found)[:MAX_TEXT])
    return (1.0, "found") if hit else (0.0, f"{_show(found)} does not match {wanted['pattern']}")


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as it is meant now, without a word on what it may mean one day."""
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        return re.compile(pattern)


def json_schema(found: Any, wanted: Mapping[str, Any]) -> Scored:
    if found is MISSING:
        return 0.0, "missing"
    fault = next(faults(wanted["schema"], found), None)
    return (1.0, "valid") if fault is None else (0.0, f"{fault.at('answer')}: {fault.said[:200]}")


def ordering(found: Any, wanted: Mapping[str, Any]) -> Scored:
    """Share of pairs that stand in the wanted order; a value that should be ranked but is missing loses its pairs."""
    if not isinstance(found, list):
        return 0.0, f"{_show(found)}, expected a list"
    if "sort" in wanted:
        sign = -1.0 if wanted["sort"] == "desc" else 1.0
        ranks: list[float | None] = [sign * value if is_number(value) else None for value in found]
    else:
        places: dict[str, float] = {}
        for place, value in enumerate(found):
            places.setdefault(_key(value), float(place))
        ranks = [places.get(_key(value)) for value in wanted["values"]]
    pairs = [(a, b) for i, a in enumerate(ranks) for b in ranks[i + 1 :]]
    right = sum(a is not None and b is not None and a <= b for a, b in pairs)
    if right == len(pairs) and None not in ranks:
        return 1.0, "in order"
    return (right / len(pairs) if pairs else 0.0), f"{right} of {len(pairs)} pairs in order"


def _as_json(found: Any) -> Any:
    """A text as the JSON it is; what is no text is that already."""
    if not isinstance(found, str):
        return found
    try:
        return json.loads(found[:MAX_TEXT])
    except (ValueError, RecursionError):
        return MISSING


def _json_in_text(found: Any) -> Any:
    """Every object and array that stands in a text, the outermost ones, in order."""
    if not isinstance(found, str):
        return found
    text, at, pieces, decode = found[:MAX_TEXT], 0, list[Any](), json.JSONDecoder().raw_decode
    for _ in range(MAX_PIECES):
        start = _JSON_START.search(text, at)
        if start is None:
            break
        try:
            piece, at = decode(text, start.start())
            pieces.append(piece)
        except (ValueError, RecursionError):
            at = start.start() + 1
    return pieces


READERS: Mapping[str, Callable[[Any], Any]] = {"json": _as_json, "json_in_text": _json_in_text}
_ALL = (exact, set_f1, numeric, band, contains, absent, regex, json_schema, ordering)
GRADERS: dict[str, Callable[[Any, Mapping[str, Any]], Scored]] = {one.__name__: one for one in _ALL}


def _key(value: Any) -> str:
    """The same text for what is equal as JSON has it: 1 equals 1.0, but true is not 1."""
    if value is MISSING:
        return "(missing)"
    if is_number(value) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, list):
        return f"[{', '.join(_key(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {_key(value[k])}" for k in sorted(value)) + "}"
    return _as_text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _as_text(_without_missing(value))


def _show(value: Any) -> str:
    text = _key(value)
    return text if len(text) <= 80 else text[:77] + "..."
