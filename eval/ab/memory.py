"""Which pairs of texts were compared before, with which outcome: luck gets one chance, not one every night.

A useless challenger tested anew every night would be promoted sooner or later. What was decided stands in
`meta/decisions/` (promotions), in the last report, and in `eval/history.jsonl` (everything else).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eval.ab.body import FORM
from eval.ab.record import Report
from eval.ledger.decisions import decisions
from eval.trials.journal import key_of
from telemetry.edge.files import HISTORY, Repo
from telemetry.edge.records import made
from telemetry.logger import SCORING_VERSION

KEPT = ("prompt", "pair", "variant", "sha256", "verdict", "promoted")  # of a comparison, in a line of history

Text = tuple[str, str]  # a prompt and the hash of one text for it


@dataclass(frozen=True, slots=True)
class Compared:
    """One earlier comparison."""

    date: str
    where: str  # the file that holds it
    prompt: str = ""
    pair: str = ""
    variant: str = ""
    sha256: str = ""  # of the challenger's text
    verdict: str = ""
    promoted: bool = False


def pair_of(
    champion_sha256: str, challenger_sha256: str, suites: Iterable[str], model: Mapping[str, Any]
) -> str:
    """Names a comparison: both texts (in either order), the suites, the model and the scoring version."""
    texts = sorted((champion_sha256, challenger_sha256))
    about = {"texts": texts, "suites": sorted(suites), "model": dict(model)}
    return key_of({**about, "scoring_version": SCORING_VERSION})


class Memory:
    """What earlier nights decided, about all prompts; each file is read once."""

    def __init__(self, repo: Repo) -> None:
        self.history = list(_in_history(repo))
        report = FORM.read(repo)
        latest = compared(report) if report else []
        # A promotion counts once its decision is in the tree; an unmerged one is tested again. Weakest source first,
        # so that the last one wins.
        known = [one for one in (*self.history, *latest) if one.verdict == "keep"]
        self.dethroned: dict[Text, str] = {}  # former champions, and the decision that replaced them
        for path, one in decisions(repo):
            if one.kind != "ab_champion":
                continue
            prompt = str(one.verdict.get("prompt", one.subject))
            if one.decision == "promote" and one.before_sha256:
                self.dethroned[prompt, one.before_sha256] = str(path)
            if "pair" in one.verdict:
                pair, after = str(one.verdict["pair"]), one.after_sha256 or ""
                known.append(Compared(one.date, str(path), prompt, pair, "", after, one.decision))
        # By pair, what needs no repeating: an inconclusive comparison is not a decision.
        self.settled = {one.pair: one for one in known if one.verdict in ("promote", "keep")}
        # The latest word on each text, as a person reads it.
        self.verdicts = {
            (one.prompt, one.sha256): f"{one.verdict} ({one.date}, {one.where})" for one in known
        }
        self.rejected = {text: told for text, told in self.verdicts.items() if told.startswith("keep ")}
        # By prompt, the text that won last according to the history, merged or not.
        won = [one for one in self.history if one.verdict == "promote" and one.promoted]
        self.winners = {one.prompt: one.sha256 for one in won}

    def verdict(self, prompt: str, sha256: str) -> str:
        """What became of a text; empty when nothing was decided."""
        return self.rejected.get((prompt, sha256)) or self.dethroned.get((prompt, sha256), "")


def compared(report: Report) -> list[Compared]:
    """The comparisons of a report."""
    date, where = report.generated_at[:10], str(FORM.path)
    return [
        Compared(date, where, test.prompt, arm.pair, arm.variant, arm.sha256, arm.verdict, arm.promoted)
        for test, arm in report.arms
    ]


def _in_history(repo: Repo) -> Iterator[Compared]:
    file = repo / HISTORY
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            row = json.loads(line)
            if row["run_type"] == "ab_test":
                told = {"date": row["ts"][:10], "where": str(HISTORY)}
                yield from [made(Compared, {**one, **told}) for one in row["summary"]["comparisons"]]
        except (ValueError, KeyError, TypeError):  # a torn or foreign line: that comparison is made again
            continue
