"""Which parts of a critique are fit to be shown? Checks, merges and links what critics say. Pure.

A critic is a model: its words are cut to size or refused, its quotations looked up, its recommendations held against
the protected paths. What another critic says too is merged, what an earlier night said already is linked to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agents.manifest import protection
from agents.review.reviewer import quoted
from telemetry.edge.text import clean, redact

Row = dict[str, Any]

SEVERITIES: Final = ("high", "med", "low")
PRIORITIES: Final = ("P0", "P1", "P2")
MAX_ITEMS = 12  # issues, and recommendations, of one critique
MIN_EVIDENCE = 4  # characters: "a" is in every input
ALIKE = 0.75  # share of common words from which two titles say the same
STEM = 5  # letters of a word that count: negated, negation
LIMITS: Final = {"title": 200, "evidence": 1000, "impact": 500, "change": 2000, "why": 1000}  # characters
KEPT_OF_REFUSED = 200  # characters of a refused text that the report shows

# What the model is asked for. Lengths are left out on purpose: one item that is too long must not cost the others.
ANSWER: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["issues", "recommendations"],
    "properties": {
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["title", "evidence", "impact", "severity"],
                "properties": {
                    "title": {"type": "string"},
                    "evidence": {"type": "string", "description": "quoted word for word from the input"},
                    "impact": {"type": "string"},
                    "severity": {"type": "string", "enum": ["low", "med", "high"]},
                },
            },
        },
        "recommendations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["change", "why", "priority"],
                "properties": {
                    "change": {"type": "string"},
                    "why": {"type": "string"},
                    "priority": {"type": "string", "enum": list(PRIORITIES)},
                },
            },
        },
    },
}

_WORD = re.compile(r"[^\W\d_]{2,}")


def admitted(
    critic: str, target: str, answer: Mapping[str, Any], given: Mapping[str, Any], protected: Sequence[str]
) -> Row:
    """One critique from a model's answer to `given`: what may stay, and, in `refused`, what may not and why."""
    refused: list[Row] = []
    issues, recommendations = [], []
    for place, raw in enumerate(answer.get("issues") or ()):
        issue = {name: _plain(raw[name]) for name in ("title", "evidence", "impact")}
        why = _too_much(place, raw, ("title", "evidence", "impact"))
        if why:
            refused.append(_refusal("issue", issue["title"], why))
        else:
            held = len(issue["evidence"]) >= MIN_EVIDENCE and quoted(raw["evidence"], given)
            issues.append({**issue, "severity": raw["severity"], "supported": held})
    for place, raw in enumerate(answer.get("recommendations") or ()):
        advice = {name: _plain(raw[name]) for name in ("change", "why")}
        why = _too_much(place, raw, ("change", "why"))
        touched = [] if why else protection.mentions({"change": raw["change"]}, protected)
        if why or touched:
            reason = why or f"touches the protected path {_plain(touched[0])[:100]}"
            refused.append(_refusal("recommendation", advice["change"], reason))
        else:
            recommendations.append({**advice, "priority": raw["priority"]})
    return {
        "critic_agent": critic,
        "target_agent": target,
        "issues": issues,
        "recommendations": recommendations,
        "refused": refused[: 2 * MAX_ITEMS],
    }


def _plain(text: str) -> str:
    """Without invisible characters and credentials, no longer than any field may be."""
    return redact(clean(text[: 2 * max(LIMITS.values())])).strip()


def _too_much(place: int, raw: Mapping[str, str], names: Iterable[str]) -> str:
    for name in names:
        if len(raw[name]) > LIMITS[name]:
            return f"{name} has {len(raw[name]):,} characters, at most {LIMITS[name]:,} are read"
        if not _plain(raw[name]):
            return f"{name} is empty"
    return f"only the first {MAX_ITEMS} are read" if place >= MAX_ITEMS else ""


def _refusal(kind: str, text: str, reason: str) -> Row:
    return {"kind": kind, "start": text[:KEPT_OF_REFUSED], "reason": reason}


def merged(critiques: Sequence[Row]) -> list[Row]:
    """Each issue and recommendation once per target, at the critic who came first; the others are named in it."""
    kept: dict[str, list[tuple[str, Row]]] = {}
    done = []
    for critique in critiques:
        known = kept.setdefault(critique["target_agent"], [])
        own: dict[str, list[Row]] = {}
        for kind in ("issues", "recommendations"):
            own[kind] = []
            for row in critique[kind]:
                same = next((old for what, old in known if what == kind and same_finding(old, row)), None)
                if same is None:
                    known.append((kind, row := {**row, "also_by": []}))
                    own[kind].append(row)
                elif critique["critic_agent"] not in same["also_by"] and same not in own[kind]:
                    same["also_by"].append(critique["critic_agent"])
        done.append({**critique, **own})
    return done


def same_finding(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Do two issues (or recommendations) about one target say the same?"""
    key = "title" if "title" in one else "change"
    return key in other and alike(one[key], other[key])


def alike(one: str, other: str) -> bool:
    """Mostly the same words, in any order; numbers do not count, they differ from night to night."""
    mine, theirs = ({word[:STEM] for word in _WORD.findall(text.lower())} for text in (one, other))
    if not mine or not theirs:
        return one.strip() == other.strip()
    return len(mine & theirs) / len(mine | theirs) >= ALIKE


def linked(critiques: Sequence[Row], earlier: Sequence[Mapping[str, Any]], today: str) -> list[Row]:
    """Every issue with an id and the day it was first seen; one that an earlier report holds keeps its words."""
    before: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    taken = set()
    for old in earlier:
        for kind in ("issues", "recommendations"):
            before.setdefault(old["target_agent"], []).extend((kind, row) for row in old[kind])
        taken |= {row["id"] for row in old["issues"]}
    done = []
    for critique in critiques:
        known = before.get(critique["target_agent"], [])
        issues = []
        for row in critique["issues"]:
            old_row = next((old for kind, old in known if kind == "issues" and same_finding(old, row)), None)
            issues.append(_kept(row, old_row) or _new(row, critique["critic_agent"], today, taken))
        recommendations = [
            next(
                ({**old, "also_by": row["also_by"]} for kind, old in known
                 if kind == "recommendations" and same_finding(old, row)),
                row,
            )
            for row in critique["recommendations"]
        ]  # fmt: skip
        done.append({**critique, "issues": issues, "recommendations": recommendations})
    return done


def _kept(row: Row, old: Mapping[str, Any] | None) -> Row | None:
    """The earlier words, unless they had no support and these have; severity is tonight's."""
    if old is None:
        return None
    words = row if row["supported"] and not old["supported"] else old
    return {
        **{name: words[name] for name in ("title", "evidence", "impact", "supported")},
        **{name: old[name] for name in ("id", "first_seen")},
        **{name: row[name] for name in ("severity", "also_by")},
    }


def _new(row: Row, critic: str, today: str, taken: set[str]) -> Row:
    number = 1
    while (name := f"{today}/{critic}-{number}") in taken:
        number += 1
    taken.add(name)
    return {**row, "id": name, "first_seen": today}


def ranked(critiques: Iterable[Row]) -> list[Row]:
    """Within each critique the supported issues first, the severe before the slight."""
    return [
        {
            **critique,
            "issues": sorted(critique["issues"], key=_rank),
            "recommendations": sorted(critique["recommendations"], key=lambda row: row["priority"]),
        }
        for critique in critiques
    ]


def _rank(issue: Mapping[str, Any]) -> tuple[bool, int, str]:
    return (not issue["supported"], SEVERITIES.index(issue["severity"]), issue["id"])
