"""Drafts a challenger for one prompt, from what fails to a text that is better and may be kept."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from agents.manifest import AgentSpec, Manifest
from agents.model.call import Model
from agents.offline.model import UNKNOWN_TASK
from agents.prompted import unknown_offline
from agents.texts.prompt_set import PromptSet
from agents.texts.variants import Variants, sha256
from eval.ab.memory import Memory
from eval.grading.suite import Suite, Suites
from eval.ledger.provenance import model_identity
from eval.ledger.remarks import remarks
from meta.evidence.known import findings, tune_results, words
from meta.proposals import ask as proposer
from meta.proposals import checks, search, searches
from meta.proposals.contenders import Contenders, contenders
from meta.proposals.edits import changed_lines, unified
from meta.proposals.evolve import evolve
from meta.proposals.options import Options
from meta.proposals.report import Proposed, Rates, Tune
from meta.proposals.screen import Mark, Marks, Screen, TrialScreen, Unit
from meta.proposals.search import Climb, Effort, Proposal
from meta.proposals.searches import Meter, Search
from telemetry.edge.frozen import frozen
from telemetry.edge.records import read_json

MAX_WAITING = 2  # challengers of one prompt that were not tested yet: more would only split the evidence
LEAST_MENDED = 4  # cases: less can hardly be proved on as many unseen ones
IDEAS = 5  # in one text, so that a person can read it in a minute ...
MORE_IDEAS = 3  # ... and so many more for each challenger of this champion that was good, but not provably so
MOST_IDEAS = 17  # a text with more is no longer a small change, however many were lost
MAX_SHOWN = 12  # failing cases that a paid model reads
MAX_OBJECTIONS = 5  # of people who refused earlier texts
MAX_REMARKS = 20  # of people on cases
MAX_REASON = 600  # characters, in the lineage

# Where asking costs nothing: many single ideas, a few rounds, so many judgements; seconds for all prompts together.
FREE_IDEAS, FREE_ROUNDS, FREE_JUDGEMENTS = 700, 3, 30_000

# Marks without trials, where the model answers in memory and for nothing; None: only trials can mark these units.
FreeScreen = Callable[[Sequence[Unit], str, PromptSet], Awaitable[Screen | None]]


@frozen
class Draft:
    """What came of one prompt: a text and its row in the report, which has no name yet, or why there is none."""

    prompt: str
    contenders: Contenders | None = None
    text: str = ""
    row: Proposed | None = None
    skipped: str = ""
    refused: tuple[str, ...] = ()
    search: Search | None = None  # what it took, if a model was asked


@dataclass
class Drafter:
    """Drafts challengers with one model; with `free` it asks and tries as much as it likes."""

    prompts: PromptSet
    manifest: Manifest
    model: Model
    options: Options
    free: FreeScreen | None = None

    def __post_init__(self) -> None:
        self.repo = self.prompts.repo
        self.meter = self.model = Meter(self.model)
        self.memory = Memory(self.repo, model_identity(self.model)["model"])
        self.earlier = searches.earlier(self.repo, model_identity(self.model))
        # Without a key there is nobody to rewrite.
        self.gepa = self.manifest.proposer == "gepa" and not self.free
        self.today = self.options.today or datetime.now(UTC).date()
        self.critiques = findings(self.repo)
        self._suites = Suites(self.repo)
        self._remarks = remarks(self.repo)

    async def draft(self, prompt: str) -> Draft:
        """A challenger for this prompt, or why there is none."""
        self.meter.start()
        affected = self.manifest.prompts[prompt]
        specs = [spec for spec in self.manifest.enabled() if spec.name in affected and spec.eval_suite]
        if not specs:
            return Draft(prompt, skipped="affects no enabled agent with a suite")
        if self.free and (specs := self._known(specs)) == []:
            return Draft(prompt, skipped=UNKNOWN_TASK)
        unseen = sum(len(self._suite(spec).part("holdout")) for spec in specs)
        if unseen < (least := self.manifest.ab_test.min_cases):
            told = f"{unseen} holdout cases could not decide a test, {least} are needed"
            return Draft(prompt, skipped=told)
        found = contenders(self.repo, prompt, self.memory)
        if len(found.waiting) >= MAX_WAITING:
            names = ", ".join(one.called for one in found.waiting)
            return Draft(prompt, found, skipped=f"challengers {names} wait to be tested")
        lost = self._lost(found)
        failed = [*lost, *searches.fruitless(self.earlier, prompt, found.base.sha256)]
        again = searches.due(failed)
        if again and self.today < again and not self.options.prompts:
            told = f"{len(failed)} searches of this text in a row brought nothing better: the next one is due {again}"
            return Draft(prompt, found, skipped=f"{told}, or name it with --prompt")
        draft = await self._searched(specs, found, min(IDEAS + MORE_IDEAS * len(lost), MOST_IDEAS))
        row = draft.row
        search = self.meter.search(prompt, found.base.sha256, row.sha256 if row else None)
        spent = row and replace(row, calls=search.calls, cost_usd=search.cost_usd)
        return replace(draft, row=spent, search=search)

    async def _searched(self, specs: Sequence[AgentSpec], found: Contenders, ideas: int) -> Draft:
        prompt, before, author, offered = found.base.prompt, found.base.text, "", 0
        screen = await self._screen(prompt, specs)
        marks = await screen.marks(before, range(len(screen.units)))
        if all(mark.ok for mark in marks.values()):
            return Draft(prompt, found, skipped="no tune case fails")
        about = self._about(specs, found)

        async def ask(state: Climb, number: int) -> Sequence[Proposal]:
            nonlocal author, offered
            question = self._question(prompt, specs, state, screen, number)
            proposed, author = await proposer.ask(self.model, self.manifest, self.prompts, question)
            offered += len(proposed)
            return proposed

        def fits(text: str) -> list[str]:
            return list(checks.problems(before, text, about))

        start, effort = Climb(before, marks), Effort(ideas=ideas, least_gain=0.5, check_first=True)
        if self.free:
            effort = Effort(FREE_ROUNDS, FREE_JUDGEMENTS, ideas)
        if self.gepa:
            # A pool needs more trials than a climb: each of the texts asked for may be tried twice over.
            most = 2 * self.options.candidates * len(screen.units)
            effort = replace(effort, judgements=most)
            best, refused = await evolve(start, screen, ask, fits, effort, self.options.ask.seed)
            author = f"{author}, searched by gepa"
        else:
            best, refused = await search.climb(start, screen, ask, fits, effort)
        right, wrong = search.changed(marks, best.marks)
        if len(right) - len(wrong) < (LEAST_MENDED if self.free else 1):
            told = "no idea was fit and better" if refused else "no idea mended enough tune cases"
            if not offered:
                told = f"{author or 'the model'} was asked, and proposed nothing"
            return Draft(prompt, found, skipped=told, refused=tuple(refused))
        kinds = Counter(tag for place in right for tag in screen.units[place].case.tags)
        answers = self._answered(specs, best.taken, kinds)
        lines = changed_lines(before, best.text)
        row = Proposed(
            prompt=prompt,
            variant="",
            sha256=sha256(best.text),
            parent_sha256=found.base.sha256,
            author=author,
            reason=_reason(found.unmerged, self._answering(answers), best.taken),
            answers=answers,
            changes=tuple(idea.reason for idea in best.taken),
            tune=_figures(screen, marks, best.marks, kinds),
            lines_added=sum(line.startswith("+") for line in lines),
            lines_removed=sum(line.startswith("-") for line in lines),
            diff=unified(before, best.text),
            built_on=found.unmerged,
        )
        return Draft(prompt, found, best.text, row, refused=() if self.free else tuple(refused))

    def _known(self, specs: Sequence[AgentSpec]) -> list[AgentSpec]:
        """Those that the offline model has an answer for."""
        return [
            spec
            for spec in specs
            if not unknown_offline(spec, self.prompts, self._suite(spec).cases[0].input)
        ]

    def _lost(self, found: Contenders) -> list[date]:
        """When the challengers made from the present text were tested and kept out."""
        prompt = found.base.prompt
        made = {row.sha256 for row in found.texts.lineage() if row.parent_sha256 == found.base.sha256}
        known = {one.sha256: one.date for one in self.memory.settled.values() if one.prompt == prompt}
        lost = (sha for sha in made if sha in known and (prompt, sha) in self.memory.rejected)
        return [date.fromisoformat(known[sha]) for sha in lost]

    async def _screen(self, prompt: str, specs: Sequence[AgentSpec]) -> Screen:
        """All tune cases where that costs nothing, else some of those that fail and some that do not."""
        units = [Unit(spec, case) for spec in specs for case in self._suite(spec).part("tune")]
        if self.free and (screen := await self.free(units, prompt, self.prompts)):
            return screen
        failing = {
            (spec.name, failure.id)
            for spec in specs
            for failure in tune_results(self.repo, spec, self.prompts.hash(spec)).failures
        }
        random.Random(f"screen {self.options.ask.seed}").shuffle(units)
        units.sort(key=lambda unit: (unit.spec.name, unit.case.id) not in failing)
        half = self.options.screen_cases // 2
        chosen = [*units[:half], *units[-half:]] if len(units) > 2 * half else units
        return TrialScreen(chosen, prompt, self.prompts, self.model, self.options.ask.at_once)

    def _suite(self, spec: AgentSpec) -> Suite:
        return self._suites.load(spec.eval_suite)

    def _question(
        self, prompt: str, specs: Sequence[AgentSpec], state: Climb, screen: Screen, number: int
    ) -> proposer.Question:
        failing = [_shown(screen.units[place], mark) for place, mark in state.marks.items() if not mark.ok]
        passing = [_shown(screen.units[place], mark) for place, mark in state.marks.items() if mark.ok]
        names = [spec.name for spec in specs]
        lineage = Variants(self.repo, prompt).lineage()[-10:]
        tried = [(row, self.memory.verdict(prompt, row.sha256)) for row in lineage]
        return proposer.Question(
            prompt,
            state.text,
            names,
            failing if self.free else failing[:MAX_SHOWN],
            passing if self.free else passing[: MAX_SHOWN // 2],
            [row for row in self.critiques.values() if row.target_agent in names],
            [{"variant": row.variant, "reason": row.reason, "verdict": verdict} for row, verdict in tried],
            self.memory.objections(prompt)[-MAX_OBJECTIONS:],
            [told for spec in specs for told in words(self._suite(spec), self._remarks)][-MAX_REMARKS:],
            FREE_IDEAS if self.free else 1 if self.gepa else self.options.candidates,
            self.options.ask.seed + number,
        )

    def _about(self, specs: Sequence[AgentSpec], found: Contenders) -> checks.About:
        """What the text is held against: also the holdout cases, which the checker may know and nobody else."""
        cases = [case for spec in specs for case in self._suite(spec).cases]
        schemas = [read_json(self.repo, spec.output_schema) for spec in specs if spec.output_schema]
        return checks.About(
            self.manifest.protected_paths,
            found.tried,
            frozenset(case.id for case in cases),
            checks.words_of(text for case in cases for text in checks.texts_in(case.input)),
            frozenset(word for schema in schemas for word in checks.schema_words(schema)),
        )

    def _answered(
        self, specs: Sequence[AgentSpec], taken: Sequence[Proposal], kinds: Mapping[str, int]
    ) -> tuple[str, ...]:
        """The critiques that this text answers: those the model named, else those about the kinds it mends most."""
        named = [name for idea in taken for name in idea.answers if name in self.critiques]
        if named:
            return tuple(dict.fromkeys(named))[:5]
        names = {spec.name for spec in specs}
        about = [row for row in self.critiques.values() if row.target_agent in names and row.supported]
        mended = [(kinds[kind], row.id) for row in about for kind in kinds if kind in row.title.split()]
        return tuple(dict.fromkeys(name for _, name in sorted(mended, reverse=True)))[:5]

    def _answering(self, answers: Sequence[str]) -> str:
        return f"Answers {answers[0]} ({self.critiques[answers[0]].title}): " if answers else ""


def _reason(unmerged: str, answering: str, taken: Sequence[Proposal]) -> str:
    """Why it may be better; what it stands on comes first."""
    built = f"Built on {unmerged}, whose promotion is not merged yet. " if unmerged else ""
    return (built + answering + "; ".join(idea.reason for idea in taken))[:MAX_REASON]


def _shown(unit: Unit, mark: Mark) -> dict[str, Any]:
    about = {} if mark.ok else {"tags": unit.case.tags, "reasons": mark.reasons, "output": mark.output}
    return {name: proposer.shortened(part) for name, part in {"input": unit.case.input, **about}.items()}


def _figures(screen: Screen, before: Marks, after: Marks, kinds: Mapping[str, int]) -> Tune:
    """Tune scores of both texts on the same cases."""
    both = [place for place in after if place in before]
    right, wrong = search.changed(before, after)

    def rates(marks: Marks) -> Rates:
        scores = sum(marks[place].score for place in both)
        return Rates(sum(marks[place].ok for place in both), round(scores / len(both), 6))

    mended = dict(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))[:8])
    return Tune(len(both), len(screen.units), rates(before), rates(after), len(right), len(wrong), mended)
