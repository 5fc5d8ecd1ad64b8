"""Which pairs of texts were compared before, with which outcome: luck gets one chance, not one every night.

A useless challenger tested anew every night would be promoted sooner or later. What was decided stands in
`meta/decisions/` (promotions), in the last report, and in `eval/history.jsonl` (everything else).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

from agents.texts.variants import Variant
from eval.ab.body import FORM, MODEL_FORM
from eval.ab.record import Arm, Bill, Report, Test
from eval.ledger.decisions import decisions
from eval.ledger.provenance import Line, history
from eval.ledger.refusals import Refusal, refusals
from eval.trials.journal import key_of
from telemetry.edge.files import HISTORY, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import made, plain
from telemetry.logger import SCORING_VERSION

# What a line of history keeps of a comparison beside its prompt and its spend.
KEPT: Final = (
    *("pair", "variant", "sha256", "model", "model_asked", "model_answered", "verdict", "promoted", "reason"),
    *("effect", "ci_low", "ci_high", "confidence", "families", "family_low", "family_high", "e_value"),
    *("rounds", "finished", "cases_used", "cases_available", "wins", "ties", "losses"),
)
LOST: Final = "lost"
TELLING: Final = frozenset({"promote", "keep", "blocked"})  # undecided and inconclusive verdicts tell nothing
Text = tuple[str, str]  # a prompt and the hash of one text for it


@frozen
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
    reason: str = ""
    model_asked: Any = None
    model_answered: Any = None

    @property
    def became(self) -> str:
        """What became of the challenger, as a person says it."""
        return {"keep": LOST, "promote": "was promoted", "demote": "was demoted"}.get(
            self.verdict, self.verdict
        )


def kept(test: Test, arm: Arm) -> dict[str, Any]:
    """A comparison as a line of history keeps it, whatever came of it."""
    return {
        "prompt": test.prompt,
        "champion_model": test.model,
        "suites": test.suites,
        **{name: getattr(arm, name) for name in KEPT},
        "newly_right": len(arm.newly_right),
        "newly_wrong": len(arm.newly_wrong),
        "guardrails": {check.name: check.passed for check in arm.guardrails},
        "spend": {"calls": arm.calls, "cost_usd": arm.cost_usd},
        "bill": plain(arm.bill),
    }


def paid(history: Iterable[Line], tonight: str) -> dict[str, Bill]:
    """By comparison, what it had taken when an earlier night last reported on it."""
    lines = (one for one in history if one.run_type == "ab_test" and one.summary.get("night") != tonight)
    rows = (row for line in lines for row in line.listed("comparisons") if row.get("bill"))
    return {str(row.get("pair")): made(Bill, row["bill"]) for row in rows}


def worn(history: Iterable[Line], suite: str) -> int:
    """How worn a suite's holdout is: verdicts since it last grew, from the lines of history, oldest first.

    Every verdict tells a little about the cases behind it, and whoever proposes next builds on it: after enough of them
    the champion fits these cases, not the task. Only new cases undo that: a line says in `metadata.holdout_cases` how
    many cases the holdout of each suite had, and where that is not known none is fresh. A comparison may name its own
    `suites`; else it wears all that its run was measured with.
    """
    verdicts, size = 0, None
    for line in history:
        metadata = line.metadata
        measured = metadata.get("suites") or {}
        if suite not in measured:
            continue
        known = (metadata.get("holdout_cases") or {}).get(suite)
        if known is not None:
            verdicts = 0 if size is not None and known > size else verdicts
            size = known
        if line.run_type == "ab_test":
            verdicts += sum(
                one.get("verdict") in TELLING and suite in (one.get("suites") or measured)
                for one in line.listed("comparisons")
            )
    return verdicts


def pair_of(
    champion_sha256: str, challenger_sha256: str, suites: Iterable[str], model: Mapping[str, Any]
) -> str:
    """Names a comparison: both texts (in either order), the suites, the model and the scoring version."""
    texts = sorted((champion_sha256, challenger_sha256))
    about = {"texts": texts, "suites": sorted(suites), "model": dict(model)}
    return key_of({**about, "scoring_version": SCORING_VERSION})


class Memory:
    """What earlier nights decided, about all prompts; each file is read once.

    An endpoint may answer with another model under the same name: then what was decided is open again.
    """

    def __init__(self, repo: Repo, model: str | None = None) -> None:
        """`model`: only what that model, by the name it is asked by, has decided."""
        self.history: list[Compared] = []
        answers: dict[str, Any] = {}  # by model asked: who answered last, in whatever run
        for line in history(repo):
            about = line.metadata
            if about.get("model_answered") is not None:
                answers[str(about.get("model_asked"))] = about["model_answered"]
            if line.run_type == "ab_test":
                known_by = {"date": line.date, "where": str(HISTORY)}
                self.history += [
                    made(Compared, {**one, **known_by, **_models(one, about)})
                    for one in line.listed("comparisons")
                ]
        reports = [report for form in (FORM, MODEL_FORM) if (report := form.read(repo))]

        def holds(one: Compared) -> bool:
            if model is not None and one.model_asked not in (None, model):
                return False
            now = answers.get(str(one.model_asked), one.model_answered)
            return one.model_answered is None or now == one.model_answered

        # A promotion counts once its decision is in the tree; an unmerged one is tested again. Weakest source first,
        # so that the last one wins.
        earlier = [one for one in (*self.history, *chain(*map(compared, reports))) if holds(one)]
        known = [one for one in earlier if one.verdict == "keep"]
        self.dethroned: dict[Text, str] = {}  # former champions, and the decision that replaced them
        for path, one in decisions(repo):
            if one.kind not in ("ab_champion", "ab_model", "backtest"):
                continue
            prompt = str(one.verdict.get("prompt", one.subject))
            if one.decision in ("promote", "demote") and one.before_sha256:
                self.dethroned[prompt, one.before_sha256] = str(path)
            if "pair" in one.verdict:
                pair, after = str(one.verdict["pair"]), one.after_sha256 or ""
                known.append(Compared(one.date, str(path), prompt, pair, "", after, one.decision))
        # By pair, what needs no repeating: an inconclusive comparison is not a decision.
        self.settled = {one.pair: one for one in known if one.verdict in ("promote", "keep")}
        # Better, but a guardrail said no: a person may still take it.
        self.blocked = {one.pair: one for one in earlier if one.verdict == "blocked"}
        # The latest word on each text, as a person reads it.
        self.verdicts = {(one.prompt, one.sha256): f"{one.became} ({one.date}, {one.where})" for one in known}
        self.rejected = {text: told for text, told in self.verdicts.items() if told.startswith(f"{LOST} ")}
        # What a person refused, the last word on each text.
        self.refused: dict[Text, Refusal] = {(one.subject, one.sha256): one for one in refusals(repo)}
        # By prompt, the text that won last according to the history, merged or not.
        self.winners = {
            one.prompt: one.sha256 for one in self.history if one.verdict == "promote" and one.promoted
        }

    def refusal(self, one: Variant, champion: Variant) -> Refusal | None:
        """The word of a person who refused it beside this champion; a model goes by its hash alone."""
        named = (
            no
            for (subject, sha), no in self.refused.items()
            if sha == one.sha256 and one.prompt in ("", subject)
        )
        return next((no for no in named if no.stands_beside(champion.sha256)), None)

    def objections(self, prompt: str) -> list[str]:
        """What people said against earlier texts of a prompt, oldest first."""
        return [one.told for (path, _), one in self.refused.items() if path == prompt and one.why]

    def verdict(self, prompt: str, sha256: str) -> str:
        """What became of a text; empty when nothing was decided."""
        if refused := self.refused.get((prompt, sha256)):
            return refused.told
        return self.rejected.get((prompt, sha256)) or self.dethroned.get((prompt, sha256), "")


def compared(report: Report) -> list[Compared]:
    """The comparisons of a report."""
    found = []
    for test, arm in report.arms:
        row, form = kept(test, arm), MODEL_FORM if test.model else FORM
        about = {"date": report.generated_at[:10], "where": str(form.path)}
        found.append(made(Compared, {**row, **about, **_models(row, report.metadata)}))
    return found


def _models(row: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Who was asked, and who answered: in this comparison, else in the whole run."""
    return {name: row.get(name) or run.get(name) for name in ("model_asked", "model_answered")}
