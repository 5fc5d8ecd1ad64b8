"""Graders of one's own: a case names `my_pkg.grading:polite`, a pure function of what is found and what is wanted.

    def polite(found, wanted):            # found: the value at the path; wanted: the case's expectation
        return "please" in found.lower()  # a score in 0..1 (or true, false), or (score, reason)

It is checked when the suite is pinned: it can be imported, says the same twice, and stays within 0..1 on the values
below (one that it was not made for may raise). Its source is pinned with the suite: a score means nothing if the
grader moved under it. A grader that raises in a trial, or never ends, makes it inconclusive: nobody's loss.
"""

from __future__ import annotations

import copy
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from agents.manifest.code import code_hash, load_code
from telemetry.edge.records import is_number

PROBES: Final[Sequence[Any]] = (
    *("", "Some text, please.", 0, 1.5, True),
    *([], ["a"], [{"id": "a"}], {}, {"id": "a"}),
)

LIMIT_S: Final = 2.0  # of computing, that a grader or a pattern may take over one answer

Scored = tuple[float, str]


class GraderError(Exception):
    """A grader of one's own gave no score; the message names it."""

    error_kind = "source"  # not the agent's fault


@contextmanager
def limited(what: str) -> Iterator[None]:
    """Stop what computes too long over a model's text: a catastrophic pattern would never end.

    By a signal, which is all that a regular expression at work heeds; signals reach the main thread, where trials are
    graded, and no other.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise GraderError(f"{what}: no score after {LIMIT_S:g} s of computing")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def is_own(name: str) -> bool:
    """Whether a grader's name is that of code."""
    return ":" in name


def graded(name: str, found: Any, wanted: Mapping[str, Any]) -> Scored:
    """The score that the grader gives, with its reason."""
    grader = load_code(name, "grader")
    try:
        with limited(f"grader {name}"):
            said = grader(found, wanted)
    except GraderError:
        raise
    except Exception as problem:
        raise GraderError(f"grader {name}: {type(problem).__name__}: {problem}") from problem
    score, reason = said if isinstance(said, tuple) and len(said) == 2 else (said, "")
    number = float(score) if isinstance(score, bool) else score
    if not is_number(number) or not 0 <= number <= 1:
        raise GraderError(f"grader {name}: must return a score in 0..1, not {said!r}")
    return float(number), str(reason) or f"scored {float(number):g}"


def problem(name: str, wanted: Mapping[str, Any]) -> str | None:
    """Why a suite with this grader may not be pinned."""
    load_code(name, "grader")
    refused: list[str] = []
    for value in PROBES:
        given, asked = copy.deepcopy(value), copy.deepcopy(dict(wanted))
        try:
            first, second = graded(name, given, asked), graded(name, given, asked)
        except GraderError as told:
            if told.__cause__ is None:  # it answered, and not with a score
                return str(told)
            refused.append(str(told))
            continue
        if first != second:
            return f"grader {name}: {first[0]:g} and then {second[0]:g} for the same value; it must be pure"
        if (given, asked) != (value, wanted):
            return f"grader {name}: changes what it is given; it must be pure"
    return refused[0] if len(refused) == len(PROBES) else None


def sources(names: Iterable[str]) -> dict[str, str]:
    """What is pinned of those that are code: module -> hash of its source."""
    modules = sorted({name.partition(":")[0] for name in names if is_own(name)})
    return {module: code_hash(module) for module in modules}
