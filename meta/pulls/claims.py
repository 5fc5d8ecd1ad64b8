"""What a pull request claims, read from its report, and whether that still holds. Pure; a report is checked before.

A claim is a text beside a champion, an agent, or a finding. The same claims name what a person refused, and what a
later run no longer bears out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from meta.publish.contents import arms
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

Live = Callable[[str], str]  # the hash of the text that is live for a prompt; empty if there is none
Report = Mapping[str, Any]
_UNFIT = re.compile(r"[^A-Za-z0-9_./-]")  # for the subject of a refusal


@frozen
class Claim:
    """One thing that a pull request wants."""

    subject: str
    sha256: str = ""
    champion_sha256: str = ""

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.subject, self.sha256, self.champion_sha256)):
            raise TypeError("a claim is made of texts")


def claims(kind: str, report: Report) -> list[Claim]:
    """What the report of that kind of pull request proposes; one that somebody edited, nothing we know."""
    try:
        return list(_CLAIMS[kind](report)) if kind in _CLAIMS else []
    except (KeyError, TypeError, AttributeError):
        return []


def read(raw: bytes | None) -> Report:
    """A report as GitHub or a hand-over has it; an empty one if it is none."""
    try:
        found = load_json(raw or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _promoted(report: Report) -> Iterator[Claim]:
    for test, arm in arms(report):
        if arm["promoted"]:
            yield Claim(test["prompt"], arm["sha256"], test["champion_sha256"])


def _moved(report: Report) -> Iterator[Claim]:
    """Models by name; one that came with a text of its own is no claim: a no to both is a no to neither alone."""
    for test, arm in arms(report):
        if arm["promoted"] and not test["prompt"]:
            yield Claim(_UNFIT.sub("-", arm["variant"])[:160], arm["sha256"], test["champion_sha256"])


def _proposed(report: Report) -> Iterator[Claim]:
    for row in report.get("proposals", ()):
        # One that was built on a winner nobody has merged yet stands beside no champion in particular.
        yield Claim(row["prompt"], row["sha256"], "" if row.get("built_on") else row["parent_sha256"])


def _demoted(report: Report) -> Iterator[Claim]:
    for test in report.get("tests", ()):
        if test["verdict"] == "demote":
            yield Claim(test["prompt"], test["replaced_sha256"], test["live_sha256"])


def _harvested(report: Report) -> Iterator[Claim]:
    for case in report.get("cases", ()):
        yield Claim(f"{case['agent']}/{case['id']}", case["sha256"])


def _found(report: Report) -> Iterator[Claim]:
    for critique in report.get("critiques", ()):
        for issue in critique["issues"]:
            yield Claim(critique["target_agent"], issue["id"])


def _agents(name: str) -> Callable[[Report], Iterator[Claim]]:
    def listed(report: Report) -> Iterator[Claim]:
        for row in report.get(name, ()):
            yield Claim(row if isinstance(row, str) else row["agent"])

    return listed


_CLAIMS: dict[str, Callable[[Report], Iterator[Claim]]] = {
    "ab_champion": _promoted,
    "ab_model": _moved,
    "backtest": _demoted,
    "proposals": _proposed,
    "critiques": _found,
    "new_cases": _harvested,
    "retirement": _agents("candidates"),
    "retirement_disable": _agents("disabled"),
    "revival": _agents("revived"),
}

# By kind, the states of an agent in which the pull request is still right.
_STATES = {
    "retirement": ("candidate", "loud"),
    "retirement_disable": ("candidate",),
    "revival": ("revival",),
}


def overtaken(kind: str, claim: Claim, live: Live, tonight: Report) -> str:
    """Why a claim no longer holds; empty if it does, or if tonight found nothing new about it."""
    if kind in ("ab_champion", "backtest", "proposals"):
        now = live(claim.subject)
        if claim.sha256 == now:
            return f"{claim.subject} holds this text already"
        if claim.champion_sha256 and claim.champion_sha256 != now:
            return f"{claim.subject} has changed since: what was compared with is no longer live"
    if kind in ("ab_champion", "ab_model"):
        subject = claim.subject if kind == "ab_champion" else ""
        for test, arm in arms(tonight):
            if (test["prompt"], arm["sha256"]) == (subject, claim.sha256) and arm["verdict"] == "keep":
                effect = f"{100 * arm['effect']:+.1f} points on {arm['cases_used']} cases"
                return f"tested again, it lost: {effect}"
    if kind in _STATES and "agents" in tonight:
        states = {row["agent"]: row["state"] for row in tonight["agents"]}
        if (state := states.get(claim.subject, "not in the manifest")) not in _STATES[kind]:
            return f"{claim.subject} is {state} now"
    if kind == "critiques" and "critiques" in tonight and claim not in claims(kind, tonight):
        return f"no critic says so of {claim.subject} any more"
    return ""
