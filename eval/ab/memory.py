"""Which pairs of texts were compared before, with which outcome? So that luck gets one chance, not one every night.

A useless challenger tested anew every night would be promoted sooner or later. What was decided stands in
`meta/decisions/` (promotions), in the last report, and in `eval/history.jsonl` (everything else).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eval.ledger.decisions import decisions
from eval.trials.journal import key_of
from telemetry.edge.repo import HISTORY, REPORTS, Repo
from telemetry.names import SCORING_VERSION

REPORT = REPORTS / "ab_test_report.json"
SETTLED = ("promote", "keep")  # an inconclusive comparison is not a decision


@dataclass(frozen=True, slots=True)
class Compared:
    """One earlier comparison."""

    pair: str
    prompt: str
    sha256: str  # of the challenger's text
    verdict: str
    date: str
    where: str  # the file that holds it


def pair_of(
    champion_sha256: str, challenger_sha256: str, suites: Iterable[str], model: Mapping[str, Any]
) -> str:
    """Names a comparison: both texts (in either order), the suites, the model and the scoring version."""
    texts = sorted((champion_sha256, challenger_sha256))
    about = {"texts": texts, "suites": sorted(suites), "model": dict(model)}
    return key_of({**about, "scoring_version": SCORING_VERSION})


def settled(repo: Repo) -> dict[str, Compared]:
    """Every comparison that needs no repeating, by pair; a decision outranks a report, that a history line."""
    found: dict[str, Compared] = {}
    for one in _all(repo):
        if one.verdict in SETTLED:
            found[one.pair] = one
    return found


def last_verdicts(repo: Repo) -> dict[tuple[str, str], str]:
    """The latest word on each text, as a person reads it."""
    return {(one.prompt, one.sha256): f"{one.verdict} ({one.date}, {one.where})" for one in _all(repo)}


def rejected(repo: Repo) -> dict[tuple[str, str], str]:
    """Texts that were compared and did not win, by prompt and hash: with which verdict, when, and where it stands."""
    return {key: told for key, told in last_verdicts(repo).items() if told.startswith("keep ")}


def dethroned(repo: Repo) -> dict[tuple[str, str], str]:
    """Former champions by prompt and hash, and the decision that replaced them."""
    return {
        (str(decision.verdict.get("prompt", decision.subject)), decision.before_sha256): str(path)
        for path, decision in decisions(repo)
        if decision.kind == "ab_champion" and decision.decision == "promote" and decision.before_sha256
    }


def winners(repo: Repo) -> dict[str, str]:
    """By prompt, the text that won last according to the history, merged or not."""
    won: dict[str, str] = {}
    for _, row in _history_rows(repo):
        if row["verdict"] == "promote" and row.get("promoted"):
            won[row["prompt"]] = row["sha256"]
    return won


def rows_for_history(tests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a history line has to hold of a report's tests to be read back here."""
    return [
        {
            "prompt": test["prompt"],
            **{key: arm[key] for key in ("pair", "variant", "sha256", "verdict", "promoted")},
        }
        for test in tests
        for arm in test["arms"]
    ]


def _all(repo: Repo) -> Iterator[Compared]:
    """Weakest source first, so that the last one wins."""
    yield from _in_history(repo)
    yield from _in_report(repo)
    for path, decision in decisions(repo):
        verdict = decision.verdict
        if decision.kind == "ab_champion" and "pair" in verdict:
            prompt = str(verdict.get("prompt", decision.subject))
            after = decision.after_sha256 or ""
            yield Compared(str(verdict["pair"]), prompt, after, decision.decision, decision.date, str(path))


def _in_history(repo: Repo) -> Iterator[Compared]:
    for date, row in _history_rows(repo):
        yield from _compared([row], date, str(HISTORY))


def _history_rows(repo: Repo) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every comparison of the history with its date."""
    file = repo / HISTORY
    if not file.exists():
        return
    for line in file.read_bytes().splitlines():
        try:
            row = json.loads(line)
            if row["run_type"] == "ab_test":
                compared = row["summary"]["comparisons"]
                yield from ((row["ts"][:10], {**_EMPTY, **one}) for one in compared)
        except (ValueError, KeyError, TypeError):  # a torn or foreign line: that comparison is made again
            continue


_EMPTY = {"pair": "", "prompt": "", "sha256": "", "verdict": ""}


def _in_report(repo: Repo) -> Iterator[Compared]:
    try:
        report = json.loads((repo / REPORT).read_bytes())
        yield from _compared(rows_for_history(report["tests"]), report["generated_at"][:10], str(REPORT))
    except (OSError, ValueError, KeyError, TypeError):  # no report, or one of an older form
        return


def _compared(rows: Iterable[Mapping[str, Any]], date: str, where: str) -> Iterator[Compared]:
    for row in rows:
        # A promotion counts once its decision is in the tree; an unmerged one is tested again.
        if row["verdict"] == "keep":
            yield Compared(row["pair"], row["prompt"], row["sha256"], row["verdict"], date, where)
