"""Mines terms from the texts of cases: the words that tell failing ones from the rest. Pure."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meta.proposals.checks import texts_in
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_yaml

SHORTEST = 3  # letters of a mined term, unless it is a name: "up" says nothing

_PIECE = re.compile(r"[^.,;:!?()\[\]{}\"“”|]+")
_TOKEN = re.compile(r"[^\W\d_][\w'’-]*")


@frozen
class Mined:
    """A term from the texts of failing cases."""

    term: str
    failing: int  # cases
    passing: int
    reasons: tuple[tuple[str, ...], ...]  # why, by failing case

    @property
    def worth(self) -> float:
        return math.pow(self.failing, 1.5) / (self.failing + self.passing)


def mine(
    failing: Sequence[Mapping[str, Any]], passing: Sequence[Mapping[str, Any]], *, words: int, least: int
) -> list[Mined]:
    """Terms of up to so many words that stand in at least `least` failing cases, the telling ones first."""
    wrong: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for case in failing:
        for term in _terms(case.get("input"), words):
            wrong[term].append(why_failed(case))
    right = Counter(term for case in passing for term in _terms(case.get("input"), words))
    found = [
        Mined(term, len(why), right[term], tuple(why)) for term, why in wrong.items() if len(why) >= least
    ]
    found.sort(key=lambda one: (-one.worth, -one.term.count(" "), len(one.term), one.term))
    return _without_echoes(found)


def why_failed(case: Mapping[str, Any]) -> tuple[str, ...]:
    """Why a case failed: what the graders said, and its kind."""
    return (*map(str, case.get("reasons") or ()), *(f"kind {tag}" for tag in case.get("tags") or ()))


def _without_echoes(found: Sequence[Mined]) -> list[Mined]:
    """Of terms that stand in the same number of cases, one within the other, only the first."""
    kept: list[Mined] = []
    for one in found:
        same = (other for other in kept if (other.failing, other.passing) == (one.failing, one.passing))
        if not any(
            f" {other.term} " in f" {one.term} " or f" {one.term} " in f" {other.term} " for other in same
        ):
            kept.append(one)
    return kept


def _terms(value: Any, words: int) -> set[str]:
    edge, alone = (_refused(where) for where in ("edge", "alone"))
    found: set[str] = set()
    for text in texts_in(value, words=2):
        for piece in _PIECE.findall(text):
            tokens = [token.replace("’", "'") for token in _TOKEN.findall(piece)]
            for place, token in enumerate(tokens):
                if token.lower() in edge:
                    continue
                for end in range(place + 1, min(place + words, len(tokens)) + 1):
                    if tokens[end - 1].lower() not in edge:
                        found.add(_as_term(tokens[place:end], first=place == 0))
    return {term for term in found if (len(term) >= SHORTEST or term[0].isupper()) and term not in alone}


@functools.cache
def _refused(where: str) -> frozenset[str]:
    return frozenset(load_yaml(Path(__file__).with_name("refused_words.yaml").read_bytes())[where].split())


def _as_term(tokens: Sequence[str], *, first: bool) -> str:
    """Lower case, but for a single name: a capital that does not just begin a sentence."""
    if len(tokens) == 1 and not first and tokens[0][0].isupper():
        return tokens[0]
    return " ".join(tokens).lower()
