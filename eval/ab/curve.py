"""The evidence of a comparison after each of its cases, worked out anew from the rows on record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from eval.ab.evidence import Turn
from eval.ab.report import short
from eval.ab.rounds import Case, Match, Rules


def curve(turns: Iterable[Turn], cases: Mapping[Case, str], rules: Rules) -> list[float]:
    """Odds against "not better" after each pair; `cases` are all that the comparison was announced with, by family.

    The last one is the verdict's, digit by digit, where every round is on record: a model that answers the same
    question always alike is asked once, and its further rounds are weighed without being logged.
    """
    match = Match(list(cases), replace(rules, family=cases.__getitem__))
    found = []
    for turn in turns:
        match.add(turn.case, turn.champion, turn.challenger)
        found.append(short(match.test.e_value))
    return found
