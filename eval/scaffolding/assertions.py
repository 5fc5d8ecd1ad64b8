"""Turns promptfoo's assertions into graders of a text answer; what has no counterpart here is named, not guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from agents.model.schema import schema_problem
from eval.grading.suite import pattern_problem
from eval.scaffolding.imported import ANSWER
from telemetry.edge.errors import BadInput
from telemetry.edge.records import load_yaml

PATH: Final = f"0.{ANSWER}"
# Said in one line of a table, `contains: Paris`; promptfoo takes a line that begins with none of its types for equals.
_IN_A_CELL: Final = re.compile(r"\s*((?:not-)?[a-z][a-z0-9-]*)(?:\(([\d.]+)\))?:\s*(.*)", re.DOTALL)
_UNLIKE: Final = """
answer-relevance bleu classifier contains-html contains-sql contains-xml context-faithfulness context-recall
context-relevance conversation-relevance cost eval f-score factuality finish-reason fn g-eval gleu guardrails
is-html is-refusal is-sql is-valid-function-call is-valid-openai-function-call is-valid-openai-tools-call is-xml
javascript latency levenshtein max-score meteor model-graded-factuality moderation
perplexity perplexity-score pi python rouge-n ruby search-rubric select-best similar tool-call-f1 webhook word-count
"""  # types that have no counterpart here
# What is compared, or how.
_CHANGING: Final = ("transform", "contextTransform", "config", "provider", "rubricPrompt")

Grader = dict[str, Any]


class NotCarried(Exception):
    """This assertion has no counterpart; the message says which and why."""


def grader_of(assertion: Mapping[str, Any], value: Any) -> Grader:
    """The grader for an assertion whose value is filled in and read from its file."""
    said = str(assertion.get("type") or "")
    kind = said.removeprefix("not-")
    if kind not in _GRADERS:
        raise NotCarried(f"assertions of type {said or '(none)'}")
    for name in _CHANGING:
        if assertion.get(name) is not None:
            raise NotCarried(f"assertions with a {name}")
    if value is None and not kind.endswith("-json"):
        raise NotCarried(f"assertions of type {said} without a value")
    weight = assertion.get("weight", 1)
    if not isinstance(weight, int | float) or weight <= 0:
        raise NotCarried(f"assertions of weight {weight}")
    if _GRADERS[kind] is _rubric and assertion.get("threshold") is not None:  # our judge says yes or no
        raise NotCarried(f"assertions of type {said} with a threshold")
    made = {"path": PATH, **_GRADERS[kind](value)}
    return made | ({"not": True} if said != kind else {}) | ({"weight": weight} if weight != 1 else {})


def in_a_cell(text: str) -> dict[str, Any]:
    """An assertion as a table's `__expected` column says it."""
    found = _IN_A_CELL.fullmatch(text)
    kind = found[1].removeprefix("not-") if found else ""
    if not found or kind not in {*_GRADERS, *_UNLIKE.split(), "grade"}:
        return {"type": "equals", "value": text}
    value: Any = found[3].strip()
    if kind in ("contains-any", "contains-all", "icontains-any", "icontains-all"):
        value = [part.strip() for part in value.split(",")]
    elif kind in ("is-json", "contains-json"):
        value = load_yaml(value) if value else None
    return {"type": "llm-rubric" if found[1] == "grade" else found[1], "value": value}


def _equals(value: Any) -> Grader:
    if isinstance(value, Mapping | list):
        return {"grader": "exact", "read": "json", "value": value}
    return {"grader": "exact", "value": as_text(value)}


def _terms(which: str, case: bool) -> Callable[[Any], Grader]:
    def made(value: Any) -> Grader:
        given = value if isinstance(value, list) else [value]
        terms = [as_text(one) for one in given if one is not None]
        if not terms or "" in terms:
            raise NotCarried("assertions that look for an empty text")
        return {"grader": "contains", which: terms} | ({"case": True} if case else {})

    return made


def _regex(value: Any) -> Grader:
    pattern = re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", as_text(value))  # how a group is named there
    if problem := pattern_problem(pattern) if pattern else "it is empty":
        raise NotCarried(f"regex {as_text(value)!r}: {problem}")
    return {"grader": "regex", "pattern": pattern}


def _starts_with(value: Any) -> Grader:
    return {"grader": "regex", "pattern": rf"\A{re.escape(as_text(value))}"}


def _rubric(value: Any) -> Grader:
    if not isinstance(value, str) or not value.strip():
        raise NotCarried("rubrics that are no text")
    return {"grader": "llm_judge", "rubric": value}


def _is_json(value: Any) -> Grader:
    return {"grader": "json_schema", "read": "json", "schema": _schema(value, True)}


def _contains_json(value: Any) -> Grader:
    wanted: Any = {"type": "array", "minItems": 1} | (
        {} if value is None else {"contains": _schema(value, True)}
    )
    return {"grader": "json_schema", "read": "json_in_text", "schema": wanted}


def _schema(value: Any, default: Any) -> Any:
    if isinstance(value, str):
        try:
            value = load_yaml(value)
        except BadInput:
            raise NotCarried("JSON schemas that cannot be read") from None
    if value is not None and not isinstance(value, Mapping | bool):
        raise NotCarried("JSON schemas that are none")
    if isinstance(value, Mapping) and (problem := schema_problem(dict(value))):
        raise NotCarried(f"JSON schemas that are none: {problem}")
    return default if value is None else value


def as_text(value: Any) -> str:
    """As JavaScript writes it into a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


_GRADERS: Final[Mapping[str, Callable[[Any], Grader]]] = {
    "equals": _equals,
    "contains": _terms("all", case=True),
    "contains-all": _terms("all", case=True),
    "contains-any": _terms("any", case=True),
    "icontains": _terms("all", case=False),
    "icontains-all": _terms("all", case=False),
    "icontains-any": _terms("any", case=False),
    "regex": _regex,
    "starts-with": _starts_with,
    "is-json": _is_json,
    "contains-json": _contains_json,
    "llm-rubric": _rubric,
    "model-graded-closedqa": _rubric,
}
