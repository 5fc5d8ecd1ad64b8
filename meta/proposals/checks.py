"""Checks whether a text may become a challenger: all that must hold before a proposed prompt is written down. Pure.

A proposal is a model's text. It must stay a small change of the same prompt: headings, rules block and the words of the
output schema stay; nothing hidden, no credential, no protected path, no order to forget the rules; and no copy of a
case, tune or holdout, because that teaches to the test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from agents.manifest import mentions
from agents.offline import rules
from agents.texts import variants
from meta.proposals.edits import changed_lines
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.text import clean, redact

MAX_CHANGED_LINES = 30  # added plus removed
COPIED_WORDS = 6  # so many words of a case in a row are a copy of it
SHORTEST_ID = 4

_HEADING = re.compile(r"^#{1,6} .+$", re.MULTILINE)
_CODE = re.compile(r"`([A-Za-z_][\w.]*)`")
_FENCE = re.compile(r"^```", re.MULTILINE)
_WORD = re.compile(r"[\w'’]+")
_ORDERS = re.compile(
    r"(?i)\b(ignore|disregard|forget|override)\b[^.\n]{0,40}\b(instruction|rule|guideline|prompt|schema)s?\b"
)


@frozen
class About:
    """What a text is held against."""

    protected: Sequence[str] = ()
    tried: Mapping[str, str] = field(default_factory=dict)  # hash of a text -> what became of it
    case_ids: frozenset[str] = frozenset()
    case_words: str = ""  # all texts of the cases, one space between words, see `words_of`
    output_words: frozenset[str] = frozenset()  # fields and values of the output schemas


def problems(before: str, after: str, about: About) -> Iterator[str]:
    """Why `after` may not become a challenger of `before`; nothing when it may."""
    try:
        variants.checked_text(after, "the text")
    except BadInput as refused:
        yield str(refused)
        return  # too large or unreadable to look at more closely
    if after.strip() == before.strip():
        yield "it changes nothing"
    if told := about.tried.get(variants.sha256(after)):
        yield f"this text was there before: {told}"
    lines = changed_lines(before, after)
    if len(lines) > MAX_CHANGED_LINES:
        yield f"{len(lines)} lines changed, at most {MAX_CHANGED_LINES} are allowed"
    yield from _shape(before, after, about)
    added = "\n".join(line[1:] for line in lines if line.startswith("+"))
    yield from _words(added, about)
    yield from _copies(before, added, about)


def _shape(before: str, after: str, about: About) -> Iterator[str]:
    left = iter(_headings(after))
    # The iterator goes on from where a heading was found: the order has to stay, too.
    if heading := next((one for one in _headings(before) if one not in left), None):
        yield f"the section {heading!r} is missing, or not in its place"
    if len(_FENCE.findall(after)) % 2:
        yield "a fence is not closed"
    old, new = rules.read(before), rules.read(after)
    if new.problems:
        yield new.problems[0]
    elif old.values and not new.values:
        yield "the rules block is missing"
    elif old.values.get("analyst") != new.values.get("analyst"):
        yield "the rule `analyst` has to stay as it is"
    said, kept = set(_CODE.findall(before)), set(_CODE.findall(after))
    if lost := sorted((said & about.output_words) - kept):
        yield f"it no longer speaks of {', '.join(lost[:5])}, which the output has to hold"


def _words(added: str, about: About) -> Iterator[str]:
    if clean(added) != added:
        yield "it holds hidden characters"
    if redact(added) != added:
        yield "it holds what looks like a secret"
    if "../" in added or "..\\" in added:
        yield "it names a path that leaves the repository"
    if touched := mentions({"change": added}, about.protected):
        yield f"it names the protected path {touched[0][:100]}"
    if orders := _ORDERS.search(added):
        yield f"it tells the agent to set its rules aside ({orders[0][:60]!r})"


def _copies(before: str, added: str, about: About) -> Iterator[str]:
    named = (name for name in about.case_ids if len(name) >= SHORTEST_ID and name in added)
    if any(name not in before for name in named):
        yield "it names a case of the suite"
    words, known = words_of([added]).split(), words_of([before])
    runs = (" ".join(words[at : at + COPIED_WORDS]) for at in range(len(words) - COPIED_WORDS + 1))
    copied = (run for run in runs if f" {run} " in about.case_words and run not in known)
    if run := next(copied, ""):
        yield f"it copies a case of the suite ({run[:60]!r})"


def words_of(texts: Iterable[str]) -> str:
    """The words of the texts in lower case, a bar between texts, so that wording can be looked up."""
    return "".join(f" {' '.join(_WORD.findall(text.lower()))} |" for text in texts)


def texts_in(value: Any, words: int = COPIED_WORDS) -> Iterator[str]:
    """Every string of at least so many words in a case's input."""
    texts = (part for part in _parts(value) if isinstance(part, str))
    return (text for text in texts if text.strip().count(" ") >= words - 1)


def schema_words(schema: Any) -> set[str]:
    """Field names and allowed words of an output schema."""
    found: set[str] = set()
    for part in _parts(schema):
        if isinstance(part, Mapping):
            properties = part.get("properties")
            found |= set(properties) if isinstance(properties, Mapping) else set()
            found |= {word for word in part.get("enum") or () if isinstance(word, str)}
    return found


def _parts(value: Any) -> Iterator[Any]:
    """A JSON value and all that is in it."""
    stack = [value]
    while stack:
        yield (part := stack.pop())
        if isinstance(part, Mapping):
            stack.extend(part.values())
        elif isinstance(part, list | tuple):
            stack.extend(part)


def _headings(text: str) -> list[str]:
    """Those outside fences."""
    return _HEADING.findall("".join(text.split("```")[::2]))
