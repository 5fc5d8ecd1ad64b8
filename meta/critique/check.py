"""Checks, merges and links what critics say: which parts of it are fit to be shown. Pure.

A critic is a model: its words are cut to size or refused, its quotations looked up, its recommendations held against
the protected paths. What another critic says too is merged, what an earlier night said already is linked to it.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agents.manifest import mentions
from agents.model.schema import array, record, text
from agents.review.reviewer import quoted
from meta.critique.report import Critique, Finding, Issue, Recommendation, Refusal, rank
from telemetry.edge.text import clean, redact

PRIORITIES: Final = ("P0", "P1", "P2")
MAX_ITEMS = 12  # issues, and recommendations, of one critique
MIN_EVIDENCE = 4  # characters: "a" is in every input
ALIKE = 0.75  # share of common words from which two titles say the same
STEM = 5  # letters of a word that count: negated, negation
LIMITS: Final = {"title": 200, "evidence": 1000, "impact": 500, "change": 2000, "why": 1000}  # characters
KEPT_OF_REFUSED = 200  # characters of a refused text that the report shows

# What the model is asked for. Lengths are left out on purpose: one item that is too long must not cost the others.
ANSWER: Final = record(
    issues=array(
        record(
            title=text(),
            evidence=text(description="quoted word for word from the input"),
            impact=text(),
            severity=text("low", "med", "high"),
        )
    ),
    recommendations=array(record(change=text(), why=text(), priority=text(*PRIORITIES))),
)

_WORD = re.compile(r"[^\W\d_]{2,}")


def admitted(
    critic: str, target: str, answer: Mapping[str, Any], given: Mapping[str, Any], protected: Sequence[str]
) -> Critique:
    """One critique from a model's answer to `given`: what may stay, and, in `refused`, what may not and why."""
    refused: list[Refusal] = []

    def fit(kind: str, names: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
        """What may stay, each with its plain words."""
        for place, raw in enumerate(answer[f"{kind}s"]):
            words, why = [_plain(raw[name]) for name in names], _too_much(place, raw, names)
            if not why and (touched := mentions({"change": raw.get("change", "")}, protected)):
                why = f"touches the protected path {_plain(touched[0])[:100]}"
            if why:
                refused.append(Refusal(kind, words[0][:KEPT_OF_REFUSED], why))
            else:
                yield raw, words

    issues = []
    for raw, (title, evidence, impact) in fit("issue", ("title", "evidence", "impact")):
        held = len(evidence) >= MIN_EVIDENCE and quoted(raw["evidence"], given)
        issues.append(Issue(title, evidence, impact, raw["severity"], held))
    advice = fit("recommendation", ("change", "why"))
    recommendations = [Recommendation(change, why, raw["priority"]) for raw, (change, why) in advice]
    kept = tuple(refused[: 2 * MAX_ITEMS])
    return Critique(critic, target, tuple(issues), tuple(recommendations), kept)


def _plain(said: str) -> str:
    """Without invisible characters and credentials, no longer than any field may be."""
    return redact(clean(said[: 2 * max(LIMITS.values())])).strip()


def _too_much(place: int, raw: Mapping[str, str], names: Iterable[str]) -> str:
    for name in names:
        if len(raw[name]) > LIMITS[name]:
            return f"{name} has {len(raw[name]):,} characters, at most {LIMITS[name]:,} are read"
        if not _plain(raw[name]):
            return f"{name} is empty"
    return f"only the first {MAX_ITEMS} are read" if place >= MAX_ITEMS else ""


def merged(critiques: Sequence[Critique]) -> list[Critique]:
    """Each issue and recommendation once per target, at the critic who came first; the others are named in it."""
    known: dict[str, list[tuple[Finding, list[str]]]] = defaultdict(list)  # with those who say it, too
    kept = []
    for critique in critiques:
        own: list[tuple[Finding, list[str]]] = []
        for row in critique.findings:
            same = next((one for one in known[critique.target_agent] if same_finding(one[0], row)), None)
            if same is None:
                own.append((row, []))
                known[critique.target_agent].append(own[-1])
            elif critique.critic_agent not in same[1] and not any(same is one for one in own):
                same[1].append(critique.critic_agent)
        kept.append((critique, own))
    return [_with(one, [replace(row, also_by=tuple(others)) for row, others in own]) for one, own in kept]


def _with(critique: Critique, found: Sequence[Finding]) -> Critique:
    return replace(
        critique,
        issues=tuple(row for row in found if isinstance(row, Issue)),
        recommendations=tuple(row for row in found if isinstance(row, Recommendation)),
    )


def same_finding(one: Finding, other: Finding) -> bool:
    """Do two issues (or recommendations) about one target say the same?"""
    said = [row.title if isinstance(row, Issue) else row.change for row in (one, other)]
    return type(one) is type(other) and alike(*said)


def alike(one: str, other: str) -> bool:
    """Mostly the same words, in any order; numbers do not count, they differ from night to night."""
    mine, theirs = _stems(one), _stems(other)
    if not mine or not theirs:
        return one.strip() == other.strip()
    return len(mine & theirs) / len(mine | theirs) >= ALIKE


def _stems(words: str) -> set[str]:
    return {word[:STEM] for word in _WORD.findall(words.lower())}


def linked(critiques: Sequence[Critique], earlier: Sequence[Critique], today: str) -> list[Critique]:
    """Every issue with an id and the day it was first seen; what an earlier report holds keeps its words."""
    before: dict[str, list[Finding]] = defaultdict(list)
    for old in earlier:
        before[old.target_agent] += old.findings

    def link(row: Finding, critique: Critique) -> Finding:
        old = next((one for one in before[critique.target_agent] if same_finding(one, row)), None)
        if isinstance(row, Recommendation):
            return row if old is None else replace(old, also_by=row.also_by)
        # Its words, unless they had no support and these have; severity is tonight's.
        if isinstance(old, Issue):
            words = row if row.supported and not old.supported else old
            words = replace(words, id=old.id, first_seen=old.first_seen)
            return replace(words, severity=row.severity, also_by=row.also_by)
        return replace(row, id=content_id(critique.target_agent, row), first_seen=today)

    return [_with(one, [link(row, one) for row in one.findings]) for one in critiques]


def content_id(target: str, issue: Issue) -> str:
    """Names an issue by what it says of whom: two runs of one night that find the same give it the same name."""
    said = " ".join(sorted(_stems(issue.title))) or issue.title.strip()
    return hashlib.sha256(f"{target}\0{said}".encode()).hexdigest()[:12]


def ranked(critiques: Iterable[Critique]) -> tuple[Critique, ...]:
    """Within each critique the supported issues first, the severe before the slight."""
    return tuple(
        replace(
            critique,
            issues=tuple(sorted(critique.issues, key=lambda issue: (*rank(issue), issue.first_seen))),
            recommendations=tuple(sorted(critique.recommendations, key=lambda row: row.priority)),
        )
        for critique in critiques
    )
