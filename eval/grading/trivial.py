"""What an agent gains by always giving the same answer: the floor that pass rates are read against. Pure.

Three such answers are tried with the real graders. `nothing` is no item at all; `everything` names all that any case
expects, each label in one list, each term in one text; `most common` is what most cases expect, of those that expect
anything. They are made from the expectations alone: every wanted value at the path where it is looked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from eval.grading.graders import Segments, passes, segments
from eval.grading.suite import Case, splits
from telemetry.edge.frozen import frozen

TRIVIAL: Final = 0.5  # a suite of which a trivial answer passes more than this share tells little apart
NOTHING: Final = "nothing"
MOST = 200  # values or terms of one place in `everything`, the most common ones


@frozen
class Baseline:
    """How many cases such an answer passes."""

    passed: int
    total: int
    pass_rate: float | None  # None of no case

    @classmethod
    def of(cls, passed: int, total: int) -> Baseline:
        return cls(passed, total, round(passed / total, 6) if total else None)


@frozen
class Alike:
    """Cases that expect the same: what one of them makes of an answer, all do."""

    expect: Sequence[Mapping[str, Any]]
    threshold: float
    cases: Counter[str]  # by split


def trivial_baselines(cases: Iterable[Case]) -> dict[str, dict[str, Baseline]]:
    """By answer, then by split; one that comes down to nothing is not told twice."""
    kinds = _alike(cases)
    answers = {NOTHING: [], "everything": _everything(kinds), "the most common answer": _most_common(kinds)}
    return {name: _baseline(kinds, one) for name, one in answers.items() if one or name == NOTHING}


def _alike(cases: Iterable[Case]) -> list[Alike]:
    import orjson

    found: dict[bytes, Alike] = {}
    for case in cases:
        name = orjson.dumps((case.expect, case.threshold))
        if name not in found:
            found[name] = Alike(case.expect, case.threshold, Counter())
        found[name].cases[case.split] += 1
    return list(found.values())


def _baseline(kinds: Iterable[Alike], answer: Any) -> dict[str, Baseline]:
    passed, total = Counter[str](), Counter[str]()
    for one in kinds:
        total += one.cases
        if passes(one.expect, answer, one.threshold):
            passed += one.cases
    return {half: Baseline.of(passed[half], total[half]) for half in splits(total)}


def _most_common(kinds: Iterable[Alike]) -> Any:
    counted = Counter[str]()
    for one in kinds:
        if answer := _answer(_wanted(one.expect)):
            counted[json.dumps(answer)] += one.cases.total()
    return json.loads(counted.most_common(1)[0][0]) if counted else []


def _everything(kinds: Iterable[Alike]) -> Any:
    counted: dict[tuple[str, str], Counter[str]] = {}
    for one in kinds:
        for path, kind, values in _wanted(one.expect):
            terms = counted.setdefault((path, kind), Counter())
            for value in values:
                terms[json.dumps(value)] += one.cases.total()
    most = {
        where: [json.loads(one) for one, _ in found.most_common(1 if where[1] == "one" else MOST)]
        for where, found in counted.items()
    }
    return _answer((path, kind, values) for (path, kind), values in most.items())


def _wanted(expect: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, list[Any]]]:
    """Where something is wanted, whether it is one value, a list or terms of a text, and which."""
    for part in expect:
        path, name = part.get("path", ""), part["grader"]
        if part.get("not") or part.get("read"):
            continue  # whatever is said there is right, or has to be packed first
        if name in ("set_f1", "ordering") and part.get("values"):
            yield path, "list", part["values"]
        elif name == "contains":
            yield path, "terms", [*part.get("all", ()), *part.get("any", ())[:1]]
        elif name in ("exact", "numeric", "band"):
            allowed = (
                part["any_of"] if "any_of" in part else [part.get("value", part.get("low", part.get("high")))]
            )
            yield path, "one", allowed[:1]


def _answer(wanted: Iterable[tuple[str, str, list[Any]]]) -> Any:
    """An output that says all of this; what does not fit beside the rest is left out."""
    output: Any = None
    for path, kind, values in wanted:
        value = values if kind == "list" else " ".join(map(str, values)) if kind == "terms" else values[0]
        output = _placed(output, segments(path), value)
    return [] if output is None else output


def _placed(inside: Any, path: Segments, value: Any) -> Any:
    """The value put at a path, in what is there already."""
    if not path:
        return value if inside is None else inside
    step, rest = path[0], path[1:]
    if isinstance(step, tuple):
        return _in_item(inside, dict(step), rest, value)
    if step == "*":
        items = list(inside) if isinstance(inside, list) else []
        for at, one in enumerate(value if isinstance(value, list) else [value]):
            items[at : at + 1] = [_placed(items[at] if at < len(items) else None, rest, one)]
        return items
    if step.isdecimal() and not isinstance(inside, dict):
        items = list(inside) if isinstance(inside, list) else []
        items += [{}] * (int(step) + 1 - len(items))
        items[int(step)] = _placed(items[int(step)] or None, rest, value)
        return items
    fields = dict(inside) if isinstance(inside, dict) else {}
    if ":" in step:
        return fields | dict(
            zip(step.split(":"), value if isinstance(value, list) else [value], strict=False)
        )
    return fields | {step: _placed(fields.get(step), rest, value)}


def _in_item(inside: Any, about: dict[str, str], rest: Segments, value: Any) -> list[Any]:
    """The value put into the item that reads so; a new one where there is none."""
    items = list(inside) if isinstance(inside, list) else []
    reads = (at for at, one in enumerate(items) if isinstance(one, dict) and about.items() <= one.items())
    at = next(reads, len(items))
    items[at : at + 1] = [_placed(items[at] if at < len(items) else about, rest, value)]
    return items
