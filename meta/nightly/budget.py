"""What a night is going to cost: foreseen from its texts and prices before it starts, and shared by all its steps."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from agents.llm_client import ModelOptions
from agents.manifest import AgentSpec, Manifest
from agents.model.budget import Budget, night
from agents.model.endpoint import OpenAIModel
from agents.model.request import dialect_of
from agents.run import replay as earlier_days
from agents.texts.prompt_set import PromptSet
from eval.ab.plan import make_plan
from eval.ab.session import Night, settings_of
from eval.grading.suite import Case, Suites
from eval.ledger.provenance import model_identity
from meta.proposals.options import Options
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.record import pricing

CHARS_PER_TOKEN: Final = 4
ANSWER_TOKENS: Final = 250  # of an answer, on average; half a prompt for a proposal
THOUGHT_TOKENS: Final = 500  # beside it, where a model reasons
PROPOSAL_TOKENS: Final = 2000
JUDGED_CHARS, VERDICT_TOKENS = 2000, 60  # of a question to the judge, and of its answer
FIRST: Final = 20  # cases of a suite that stand for all of it


class Forecast:
    """About what each step will cost; a forecast, not a limit."""

    def __init__(self, repo: Repo, manifest: Manifest, ask: ModelOptions, model: OpenAIModel) -> None:
        self.repo, self.manifest, self.ask, self.model = repo, manifest, ask, model
        self.prompts, self.suites = PromptSet(repo), Suites(repo, allow_unpinned=True)

    def by_step(self, steps: Collection[str], *, replay: Collection[str]) -> dict[str, float]:
        """USD of those of these steps that ask a model."""
        running = self.manifest.enabled()
        each = {spec.name: self._case_usd(spec) for spec in self.manifest.agents}
        graded = {spec.name: each[spec.name] + self._judge_usd(spec) for spec in self.manifest.agents}
        cases = {spec.name: self._cases(spec) for spec in running}
        pairs = [
            critic for critic, target in self.manifest.critique_pairs if critic in cases and target in cases
        ]
        tried = min(Options().screen_cases, max(cases.values(), default=0))
        prompts = len({spec.prompt for spec in running if spec.prompt})
        mean = statistics.fmean(graded.values())
        usd = {
            "agents": sum(each[name] * (1 + earlier_days.DAYS * (name in replay)) for name in cases),
            "shadow": sum(each[spec.name] for spec in self.manifest.agents if not spec.enabled),
            "evals": sum(graded[name] * count for name, count in cases.items()),
            "A/B": self._ab_usd(graded),
            "critiques": sum(each[critic] for critic in pairs),
            "proposals": prompts * (self._usd(None, 20_000, PROPOSAL_TOKENS) + 3 * tried * mean),
        }
        return {name: usd[name] for name in steps if usd.get(name)}

    def _ab_usd(self, each: Mapping[str, float]) -> float:
        try:
            settings = settings_of(Night(ask=self.ask), self.manifest)
            plan = make_plan(self.repo, self.manifest, (), settings, model_identity(self.model))
        except BadInput:  # the step itself tells what is wrong
            return 0.0
        arms = Counter(agent for test in plan.tests for agent in test.agents for _ in test.arms)
        share = [1 + arms[unit.spec.name] for unit in plan.order]
        costs = [each[unit.spec.name] for unit in plan.order]
        return plan.max_calls * statistics.fmean(costs, share) if costs else 0.0

    def _cases(self, spec: AgentSpec) -> int:
        return len(self.suites.load(spec.eval_suite).cases) if spec.eval_suite else 0

    def _case_usd(self, spec: AgentSpec) -> float:
        """One call of an agent, by its prompts and the first cases of its suite."""
        inputs = [str(case.input) for case in self._first(spec)]
        chars = sum(map(len, inputs)) / len(inputs) if inputs else 2000
        system = len(self.prompts.system(spec)) if spec.prompt else 0
        return self._usd(spec.model, round(chars) + system, ANSWER_TOKENS)

    def _judge_usd(self, spec: AgentSpec) -> float:
        """What a judge takes for one of its cases; it compares two answers in both orders."""
        cases = self._first(spec)
        parts = [part for case in cases for part in case.expect if part["grader"] == "llm_judge"]
        calls = sum(2 if "reference" in part else 1 for part in parts) / max(1, len(cases))
        return calls * self._usd(None, JUDGED_CHARS, VERDICT_TOKENS)

    def _first(self, spec: AgentSpec) -> Sequence[Case]:
        return self.suites.load(spec.eval_suite).cases[:FIRST] if spec.eval_suite else ()

    def _usd(self, model: str | None, chars: int, answer: int) -> float:
        name = model or self.model.model
        usage = pricing.Usage(chars // CHARS_PER_TOKEN, answer + THOUGHT_TOKENS * dialect_of(name).reasons)
        price = self.model.settings(name).prices
        return pricing.cost(name, usage, provider=self.model.provider, override=price).usd or 0.0


def told(model: str, foreseen: Mapping[str, float], max_usd: float | None) -> str:
    """`about $1.90 of $5.00: evals 1.00, A/B 0.49`: before anything is spent."""
    total = sum(foreseen.values())
    most = sorted(foreseen.items(), key=lambda one: -one[1])
    cap = "" if max_usd is None else f" of at most ${max_usd:.2f}"
    early = "" if max_usd is None or total <= max_usd else "; it will stop early"
    parts = ", ".join(f"{name} {usd:.2f}" for name, usd in most)
    return f"Tonight asks {model}: about ${total:.2f}{cap}{': ' if parts else ''}{parts}{early}."


@contextmanager
def shared_budget(
    repo: Repo,
    manifest: Manifest,
    ask: ModelOptions,
    steps: Collection[str],
    *,
    replay: Collection[str] = (),
    on_settled: Callable[[Budget], None] = lambda _: None,
) -> Iterator[str]:
    """All that is asked inside the block has one budget; gives what the steps are foreseen to cost, if anything."""
    model = ask.model(spec.model for spec in manifest.agents)
    if not isinstance(model, OpenAIModel):
        yield ""
        return
    foreseen = Forecast(repo, manifest, ask, model).by_step(steps, replay=replay) if steps else {}
    model.budget.on_settled = on_settled
    token = night.set(model.budget)
    try:
        yield told(model.model, foreseen, model.budget.max_usd) if steps else ""
    finally:
        night.reset(token)
