"""Mines terms from the texts of cases: the words that tell failing ones from the rest. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meta.proposals.checks import texts_in

SHORTEST = 3  # letters of a mined term, unless it is a name: "up" says nothing

# Words that carry nothing at the edge of a term.
_EDGE = frozenset(
    re.findall(
        r"\w+",
        "a an the of in and or to at by on as for from is are its be was were has have with it this that",
    )
)
# Words that mean too many things to stand alone as a rule, whatever they happen to divide: a person would refuse them.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "about after again ago all back before below big both can come day days down each end first five "
        "found four full get give go good great half high hold home hour hours how into just keep large last "
        "late left less like long low made make man many may men month months more most much near never new "
        "next night no not now off old once one only other out over part past people place put report "
        "reports run said same say says see set seven show six small some soon still such take ten than "
        "their them then there they third three through time today two under until up use used very week "
        "weeks well what when where which while who will without year years yesterday yet",
    )
)
_PIECE = re.compile(r"[^.,;:!?()\[\]{}\"“”|]+")
_TOKEN = re.compile(r"[^\W\d_][\w'’-]*")


@dataclass(frozen=True, slots=True)
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
    wrong: dict[str, list[int]] = {}
    for number, case in enumerate(failing):
        for term in _terms(case.get("input"), words):
            wrong.setdefault(term, []).append(number)
    right: dict[str, int] = {}
    for case in passing:
        for term in _terms(case.get("input"), words):
            if term in wrong:
                right[term] = right.get(term, 0) + 1
    found = []
    for term, places in wrong.items():
        if len(places) >= least:
            reasons = tuple(why_failed(failing[place]) for place in places)
            found.append(Mined(term, len(places), right.get(term, 0), reasons))
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
    found: set[str] = set()
    for text in texts_in(value, words=2):
        for piece in _PIECE.findall(text):
            tokens = [token.replace("’", "'") for token in _TOKEN.findall(piece)]
            for place, token in enumerate(tokens):
                if token.lower() in _EDGE:
                    continue
                for length in range(1, words + 1):
                    part = tokens[place : place + length]
                    if len(part) == length and part[-1].lower() not in _EDGE:
                        found.add(_as_term(part, first=place == 0))
    return {term for term in found if (len(term) >= SHORTEST or term[0].isupper()) and term not in _COMMON}


def _as_term(tokens: Sequence[str], *, first: bool) -> str:
    """Lower case, but for a single name: a capital that does not just begin a sentence."""
    if len(tokens) == 1 and not first and tokens[0][0].isupper():
        return tokens[0]
    return " ".join(tokens).lower()
