"""The labelled texts of tests/telemetry/personal.txt, and how well they are found: precision and recall per kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

FILE = Path(__file__).parents[1] / "telemetry/personal.txt"
MARK = re.compile(r"\{(\w+)\|([^{}|]*)\}")

Span = tuple[str, int, int]


def texts() -> list[tuple[str, set[Span]]]:
    """Each text as an agent would meet it, and what stands where in it."""
    found = []
    for line in FILE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        text, spans, at = "", set(), 0
        for match in MARK.finditer(line):
            text += line[at : match.start()]
            spans.add((match[1], len(text), len(text) + len(match[2])))
            text, at = text + match[2], match.end()
        found.append((text + line[at:], spans))
    return found


def scored(find: Callable[[str], Iterable[Span]]) -> dict[str, tuple[float, float, int]]:
    """By kind: precision, recall, how many there are. A place counts if kind, start and end are right."""
    hits: Counter[str] = Counter()
    told: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for text, spans in texts():
        given = set(find(text))
        told.update(kind for kind, *_ in given)
        there.update(kind for kind, *_ in spans)
        hits.update(kind for kind, *_ in given & spans)
    return {
        kind: (hits[kind] / told[kind] if told[kind] else 1.0, hits[kind] / there[kind], there[kind])
        for kind in there
    }
