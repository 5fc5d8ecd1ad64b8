"""Drafts a challenger for one prompt: what fails, what to change, is it better, may it be kept?"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.manifest import AgentSpec, Manifest
from agents.model.call import Model
from agents.offline.model import OfflineModel
from agents.texts.prompt_set import PromptSet
from agents.texts.variants import Variants
from eval.grading.suite import Suite, load_suite
from meta.evidence.known import read_json, tune_results
from meta.offline.screen import NotSimple, OfflineScreen
from meta.proposals import ask as proposer
from meta.proposals import checks as proposal_checks
from meta.proposals import search as climb
from meta.proposals.contenders import Contenders, Memory, contenders
from meta.proposals.screen import Mark, Marks, Screen, TrialScreen, Unit
from meta.proposals.search import Climb, Effort, Proposal
from telemetry.edge.repo import REPORTS, Repo

MAX_WAITING = 2  # challengers of one prompt that were not tested yet: more would only split the evidence
LEAST_MENDED = 4  # cases: less can hardly be proved on as many unseen ones
IDEAS = 5  # in one text, so that a person can read it in a minute ...
MORE_IDEAS = 3  # ... and so many more for each challenger of this champion that was good, but not provably so
MAX_LOST = 4  # challengers of one champion: after so many, more of the same would only wait for luck
MAX_SHOWN = 12  # failing cases that a paid model reads
MAX_REASON = 600  # characters, in the lineage

# Offline: many single ideas, a few rounds, so many judgements; some seconds for all prompts together.
OFFLINE_IDEAS, OFFLINE_ROUNDS, OFFLINE_JUDGEMENTS = 700, 3, 30_000


@dataclass(frozen=True, slots=True)
class Draft:
    """What came of one prompt: a text, or why there is none."""

    prompt: str
    contenders: Contenders | None = None
    text: str = ""
    author: str = ""
    reason: str = ""
    answers: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    tune: Mapping[str, Any] = field(default_factory=dict)
    skipped: str = ""
    refused: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """As it stands in the report, but for its name."""
        assert self.contenders is not None
        before = self.contenders.base.text
        lines = proposal_checks.changed_lines(before, self.text)
        return {
            "prompt": self.prompt,
            "parent_sha256": self.contenders.base.sha256,
            "author": self.author,
            "reason": self.reason,
            "answers": list(self.answers),
            "changes": list(self.changes),
            "tune": dict(self.tune),
            "lines_added": sum(line.startswith("+") for line in lines),
            "lines_removed": sum(line.startswith("-") for line in lines),
            "diff": unified(before, self.text),
        }


def unified(before: str, after: str) -> str:
    """The change as a unified diff."""
    import difflib

    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "champion", "challenger", n=1, lineterm=""
    )
    return "\n".join(lines)


class Drafter:
    """Drafts challengers with one model."""

    def __init__(
        self,
        repo: Repo,
        manifest: Manifest,
        model: Model,
        candidates: int,
        screen_cases: int,
        seed: int,
        concurrency: int,
        insist: bool = False,
    ) -> None:
        self.repo, self.manifest, self.model, self.seed = repo, manifest, model, seed
        self.prompts = PromptSet(repo)
        self.candidates, self.screen_cases, self.concurrency = candidates, screen_cases, concurrency
        self.offline = isinstance(getattr(model, "inner", model), OfflineModel)
        self.insist = insist  # also where earlier challengers lost
        self.memory = Memory.read(repo)
        self.critiques = _critiques(repo)
        self._suites: dict[str, Suite] = {}

    async def draft(self, prompt: str) -> Draft:
        """A challenger for this prompt, or why there is none."""
        specs = [spec for spec in self.manifest.enabled() if spec.name in self.manifest.prompts[prompt]]
        specs = [spec for spec in specs if spec.eval_suite]
        if not specs:
            return Draft(prompt, skipped="affects no enabled agent with a suite")
        unseen = sum(len(self._suite(spec).part("holdout")) for spec in specs)
        if unseen < self.manifest.ab_test.min_cases:
            least = self.manifest.ab_test.min_cases
            return Draft(
                prompt, skipped=f"{unseen} holdout cases could not decide a test, {least} are needed"
            )
        found = contenders(self.repo, prompt, self.memory)
        if len(found.waiting) >= MAX_WAITING:
            names = ", ".join(one.name for one in found.waiting)
            return Draft(prompt, found, skipped=f"challengers {names} wait to be tested")
        lost = self._lost(found)
        if lost >= MAX_LOST and not self.insist:
            told = f"{lost} challengers of this champion lost: name it with --prompt to go on"
            return Draft(prompt, found, skipped=told)
        screen = await self._screen(prompt, specs)
        marks = await screen.marks(found.base.text, range(len(screen.units)))
        if not climb.failing(marks):
            return Draft(prompt, found, skipped="no tune case fails")
        authors: list[str] = []

        async def ask(state: Climb, number: int) -> Sequence[Proposal]:
            question = self._question(prompt, specs, state, screen, number)
            ideas, author = await proposer.ask(self.model, self.manifest, self.prompts, question)
            authors.append(author)
            return ideas

        about = self._about(prompt, specs, found)

        def fits(text: str) -> list[str]:
            return proposal_checks.problems(found.base.text, text, about)

        best, refused = await climb.climb(
            Climb(found.base.text, marks), screen, ask, fits, self._effort(IDEAS + MORE_IDEAS * lost)
        )
        right, wrong = climb.changed(marks, best.marks)
        if len(right) - len(wrong) < (LEAST_MENDED if self.offline else 1):
            told = "no idea mended enough tune cases" if not refused else "no idea was fit and better"
            return Draft(prompt, found, skipped=told, refused=tuple(refused))
        kinds = Counter(tag for place in right for tag in screen.units[place].case.tags)
        answers = self._answered(specs, best.taken, kinds)
        return Draft(
            prompt,
            found,
            best.text,
            authors[-1],
            _reason(best.taken, answers, self.critiques),
            answers,
            tuple(idea.reason for idea in best.taken),
            _figures(screen, marks, best.marks, kinds),
            refused=tuple(refused) if not self.offline else (),
        )

    def _lost(self, found: Contenders) -> int:
        """How many challengers of the present text were tested and kept out."""
        rejected = self.memory.rejected
        tested = [row for row in found.texts.lineage() if row.parent_sha256 == found.base.sha256]
        return sum((found.base.prompt, row.sha256) in rejected for row in tested)

    def _effort(self, ideas: int) -> Effort:
        if self.offline:
            return Effort(OFFLINE_ROUNDS, OFFLINE_JUDGEMENTS, ideas)
        return Effort(ideas=ideas, least_gain=0.5, check_first=True)

    async def _screen(self, prompt: str, specs: Sequence[AgentSpec]) -> Screen:
        """All tune cases where that costs nothing, else some of those that fail and some that do not."""
        units = [Unit(spec, case) for spec in specs for case in self._suite(spec).part("tune")]
        if self.offline:
            with contextlib.suppress(NotSimple):  # then by trials, on some of the cases
                return await OfflineScreen(units, prompt, self.prompts).prepare()
        failing = {
            (spec.name, failure.case_id)
            for spec in specs
            for failure in tune_results(self.repo, spec, self.prompts.hash(spec)).failures
        }
        random.Random(f"screen {self.seed}").shuffle(units)
        units.sort(key=lambda unit: (unit.spec.name, unit.case.id) not in failing)
        half = self.screen_cases // 2
        chosen = [*units[:half], *units[-half:]] if len(units) > 2 * half else units
        return TrialScreen(chosen, prompt, self.prompts, self.model, self.concurrency)

    def _suite(self, spec: AgentSpec) -> Suite:
        if spec.eval_suite not in self._suites:
            self._suites[spec.eval_suite] = load_suite(self.repo, spec.eval_suite)
        return self._suites[spec.eval_suite]

    def _question(
        self, prompt: str, specs: Sequence[AgentSpec], state: Climb, screen: Screen, number: int
    ) -> proposer.Question:
        failing = [_shown(screen.units[place], mark) for place, mark in state.marks.items() if not mark.ok]
        passing = [_shown(screen.units[place], mark) for place, mark in state.marks.items() if mark.ok]
        names = [spec.name for spec in specs]
        return proposer.Question(
            prompt,
            state.text,
            names,
            failing if self.offline else failing[:MAX_SHOWN],
            passing if self.offline else passing[: MAX_SHOWN // 2],
            [row for row in self.critiques.values() if row["target_agent"] in names],
            [
                {"variant": row.variant, "reason": row.reason, "verdict": self._verdict(prompt, row.sha256)}
                for row in Variants(self.repo, prompt).lineage()[-10:]
            ],
            OFFLINE_IDEAS if self.offline else self.candidates,
            self.seed + number,
        )

    def _verdict(self, prompt: str, sha256: str) -> str:
        return self.memory.rejected.get((prompt, sha256)) or self.memory.dethroned.get((prompt, sha256), "")

    def _about(self, prompt: str, specs: Sequence[AgentSpec], found: Contenders) -> proposal_checks.About:
        """What the text is held against: also the holdout cases, which the checker may know and nobody else."""
        cases = [case for spec in specs for case in self._suite(spec).cases]
        schemas = [read_json(self.repo, spec.output_schema) for spec in specs if spec.output_schema]
        return proposal_checks.About(
            self.manifest.protected_paths,
            found.tried,
            frozenset(case.id for case in cases),
            proposal_checks.words_of(text for case in cases for text in proposal_checks.texts_in(case.input)),
            frozenset(word for schema in schemas for word in proposal_checks.schema_words(schema)),
        )

    def _answered(
        self, specs: Sequence[AgentSpec], taken: Sequence[Proposal], kinds: Mapping[str, int]
    ) -> tuple[str, ...]:
        """The critiques that this text answers: those the model named, else those about the kinds it mends most."""
        named = [name for idea in taken for name in idea.answers if name in self.critiques]
        if named:
            return tuple(dict.fromkeys(named))[:5]
        names = {spec.name for spec in specs}
        about = [row for row in self.critiques.values() if row["target_agent"] in names and row["supported"]]
        mended = [(kinds[kind], row["id"]) for row in about for kind in kinds if kind in row["title"].split()]
        return tuple(dict.fromkeys(name for _, name in sorted(mended, reverse=True)))[:5]


def _shown(unit: Unit, mark: Mark) -> dict[str, Any]:
    if mark.ok:
        return {"input": unit.case.input}
    return {
        "input": unit.case.input,
        "tags": list(unit.case.tags),
        "reasons": list(mark.reasons),
        "output": mark.output,
    }


def _critiques(repo: Repo) -> dict[str, dict[str, Any]]:
    """The issues of the latest critiques by id."""
    report = read_json(repo, REPORTS / "cross_critiques.json") or {}
    found = {}
    for critique in report.get("critiques") or ():
        for issue in critique.get("issues") or ():
            row = {name: issue.get(name) for name in ("id", "title", "evidence", "severity", "supported")}
            found[str(issue.get("id"))] = {**row, "target_agent": critique.get("target_agent")}
    return found


def _reason(taken: Sequence[Proposal], answers: Sequence[str], critiques: Mapping[str, Any]) -> str:
    told = "; ".join(idea.reason for idea in taken)
    if answers:
        told = f"Answers {answers[0]} ({critiques[answers[0]]['title']}): {told}"
    return told[:MAX_REASON]


def _figures(screen: Screen, before: Marks, after: Marks, kinds: Mapping[str, int]) -> dict[str, Any]:
    """Tune scores of both texts on the same cases."""
    both = [place for place in after if place in before]
    right, wrong = climb.changed(before, after)

    def rates(marks: Marks) -> dict[str, Any]:
        return {
            "passed": sum(marks[place].ok for place in both),
            "mean_score": round(sum(marks[place].score for place in both) / len(both), 6),
        }

    return {
        "cases": len(both),
        "of": len(screen.units),
        "before": rates(before),
        "after": rates(after),
        "newly_right": len(right),
        "newly_wrong": len(wrong),
        "mended_kinds": dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))[:8]),
    }
