"""Which candidates become cases: each input once, none that is nearly known, few enough to be read over a coffee.

What came true is picked without looking at the answers: cases that were picked because the live text failed them would
speak against it, whatever it is compared with. So those (a person's corrections, disagreements) settle as tune cases,
where they teach, and take no part in the back-test.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain, count, zip_longest
from typing import Any, Final

from eval.field.record import TAG
from eval.field.runs import Candidate, Run
from eval.grading.suite import FRESH, split
from telemetry.batches import personal

ALIKE: Final = 0.8  # of the words in rows of four that two inputs share: from there on they are nearly one
MAX_INPUT: Final = 64_000  # characters: nobody reviews more
_WORD: Final = re.compile(r"[\w.%+-]+")


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """A person's word first; then agents, and what happened and what did not, in turn, by the hash of the input."""
    piles: dict[tuple[str, ...], list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: hashlib.sha256(one.run.input_sha256.encode()).digest()):
        piles.setdefault((one.reason, one.run.agent, str(bool(one.right))), []).append(one)
    first = [one for name, pile in sorted(piles.items()) if name[0] == "corrected" for one in pile]
    # Outcomes before disagreements: a run that is both may be picked without regard to its answer.
    rest = [
        chain.from_iterable(zip_longest(*(pile for name, pile in sorted(piles.items()) if name[0] == reason)))
        for reason in ("outcome", "disagreement")
    ]
    in_turn = chain.from_iterable(zip_longest(*rest))
    return [*first, *(one for one in in_turn if one is not None)]


def case_id(run: Run) -> str:
    """The name of the case that a run becomes."""
    return f"field-{run.day}-{run.input_sha256[:10]}"


def family(one: Candidate) -> str:
    """One week of one agent: what happened then stands in all of its inputs, and must not be on both sides."""
    year, week, _ = date.fromisoformat(one.run.day[:10]).isocalendar()
    name = f"field-{one.run.agent[:40].lower()}-{year}-w{week:02}"
    if not one.by_answer:
        return name
    names = chain([f"{name}-seen"], (f"{name}-seen-{number}" for number in count(2)))
    return next(found for found in names if split(found) == "tune")


def without_personal(value: Any) -> tuple[Any, int]:
    """The same with personal data in its texts replaced by their kind, and how often that was."""
    if isinstance(value, str):
        return personal.without(value), len(personal.find(value))
    if isinstance(value, Mapping):
        parts = {name: without_personal(part) for name, part in value.items()}
        return {name: part for name, (part, _) in parts.items()}, sum(found for _, found in parts.values())
    if isinstance(value, list):
        rows = [without_personal(part) for part in value]
        return [part for part, _ in rows], sum(found for _, found in rows)
    return value, 0


def as_case(
    one: Candidate, given: Any, expect: Sequence[Mapping[str, Any]], today: date, note: str
) -> dict[str, Any]:
    """The line of the suite."""
    case: dict[str, Any] = {
        "id": case_id(one.run),
        "family": family(one),
        "split": FRESH,
        "since": today.isoformat(),
    }
    case |= {"input": given, "expect": list(expect), "tags": [TAG, one.reason]}
    return case | ({"note": note} if note else {})


def label(one: Candidate, field: str) -> list[dict[str, Any]]:
    """What a right answer names, however often, and what it does not; half of the score each.

    Where nobody knows in which field of the output that stands, it is looked for in the whole answer.
    """
    if not one.right and not one.wrong:
        return [{"grader": "exact", "path": "", "value": []}]
    weight = {"weight": round(len(one.wrong) / len(one.right), 3)} if one.right and one.wrong else {}
    if not field:
        named: list[dict[str, Any]] = (
            [{"grader": "contains", "all": list(one.right), **weight}] if one.right else []
        )
        return named + ([{"grader": "absent", "terms": list(one.wrong)}] if one.wrong else [])
    return [
        *(
            {"grader": "exact", "path": f"[{field}={name}].{field}", "value": name, **weight}
            for name in one.right
        ),
        *({"grader": "absent", "path": f"[{field}={name}]"} for name in one.wrong),
    ]


class Known:
    """The inputs of a suite's cases, and those taken since, to tell what is nearly one of them."""

    def __init__(self, cases: Iterable[tuple[Any, Sequence[Mapping[str, Any]]]]) -> None:
        self._known = [(shingles(given), _label(expect)) for given, expect in cases]

    def alike(self, given: Any, expect: Sequence[Mapping[str, Any]]) -> bool:
        """Whether it is the input of a case, or nearly that of one with the same label."""
        words, wanted = shingles(given), _label(expect)
        return any(
            words == known or (wanted == labelled and _shared(words, known) >= ALIKE)
            for known, labelled in self._known
        )

    def add(self, given: Any, expect: Sequence[Mapping[str, Any]]) -> None:
        self._known.append((shingles(given), _label(expect)))


def shingles(given: Any) -> frozenset[str]:
    """The words of an input in rows of four, names of fields left out."""
    words = [word for text in _leaves(given) for word in _WORD.findall(text.lower())]
    return frozenset(" ".join(words[at : at + 4]) for at in range(max(1, len(words) - 3)))


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    if not min(len(one), len(other)) >= ALIKE * max(len(one), len(other)):
        return 0.0
    return len(one & other) / len(one | other)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield str(value)


def _label(expect: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The subjects that an expectation wants named, as far as that can be told."""
    listed = [value for one in expect for value in one.get("values", ())]
    named = [one["value"] for one in expect if f"={one.get('value')}]." in one.get("path", "")]
    return frozenset(
        str(value[0] if isinstance(value, list) and value else value) for value in listed + named
    )
