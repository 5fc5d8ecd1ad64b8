"""Plans what is compared with what, on which cases, in which order: fixed before the first call.

One *test* per prompt: its champion against every distinct challenger, on the cases of the enabled agents that the
prompt affects. And one per model that agents ask now: that model against every other one that is to be tried, under the
same prompts, on the cases of all agents that ask it. All tests of a night walk through the cases in one seeded random
order a round, so that the champion, which is the control of every comparison, runs once per case and round, side by
side with all that is compared with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.manifest import AgentSpec, Manifest
from agents.offline.model import UNKNOWN_TASK
from agents.prompted import unknown_offline
from agents.texts.prompt_set import PromptSet
from agents.texts.variants import Variant, Variants, prompt_file
from eval.ab.evidence import Evidence, gathered
from eval.ab.memory import Memory, paid, pair_of, worn
from eval.ab.record import Bill, Settings, Skipped
from eval.ab.rounds import MARGIN_ALPHA, MARGIN_PASSES, PASSES
from eval.grading.suite import Case, Suites
from eval.ledger.provenance import history
from eval.trials.results import grouped
from eval.trials.trial import Job
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.git import blobs, commit_of
from telemetry.logger import SCORING_VERSION, utc_now
from telemetry.record.pricing import Override

CONTROL = "champion"  # the label of the control arm
ONLY_ONE = "the offline model answers alike under every name"


@frozen
class Unit:
    """One case of one agent: what every arm is run on."""

    spec: AgentSpec
    case: Case

    @property
    def key(self) -> tuple[str, str]:
        return (self.spec.name, self.case.id)


@frozen
class Arm:
    """What is tried instead of the champion, in memory: a text of a prompt, a model under the same prompts, or both."""

    label: str
    variant: Variant
    pair: str
    prompts: PromptSet
    model: str = ""  # asked instead of the agents' own
    price: Override | None = None  # of that model, if the manifest says it

    def job(self, unit: Unit, number: int) -> Job:
        """One trial of it."""
        spec = replace(unit.spec, model=self.model) if self.model else unit.spec
        return Job(self.label, self.prompts, spec, unit.case, number)


@frozen
class Test:
    """One prompt or one model: the champion, its challengers, and what affects whom."""

    prompt: str  # empty where models are compared under the same prompts
    champion: Variant
    arms: tuple[Arm, ...]
    agents: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    alpha: float  # of each comparison
    suites: tuple[str, ...] = ()
    wear: int = 0  # verdicts that the most worn of its holdouts has given since it last got fresh cases
    model: str = ""  # that the agents ask now, where models are compared
    margin: float = 0.0  # 0: has to be better; else: not worse than by this much, and cheaper

    def units(self, order: Sequence[Unit]) -> list[Unit]:
        """Its cases, in the common order."""
        return [unit for unit in order if unit.spec.name in self.agents]


@frozen
class Plan:
    """A whole night."""

    tests: tuple[Test, ...]
    order: tuple[Unit, ...]
    control: PromptSet
    settings: Settings
    night: str  # names it in the rows it leaves: a night that is run again goes on, it does not begin another
    evidence: Evidence
    about: Mapping[str, Any]  # what a journal has to agree with to be resumed
    holdout_cases: Mapping[str, int]  # by suite: a holdout that grew since is a fresh one
    problems: tuple[str, ...]
    paid: Mapping[str, Bill]  # by comparison, what it had taken before tonight

    @property
    def arms(self) -> list[Arm]:
        return [arm for test in self.tests for arm in test.arms]

    @property
    def deterministic(self) -> bool:
        """Whether the same question always gets the same answer, so that asking again would tell nothing."""
        return self.about["provider"] == "offline" and not self.settings.offline_noise

    def number(self, round_no: int) -> int:
        """The number of a trial; one that would be answered as before is not run again."""
        return 0 if self.deterministic else round_no

    @property
    def begun(self) -> int:
        """Rounds that the furthest comparison has had: the champion's trials are numbered on from there."""
        return max(self.about["begun"].values(), default=0)

    @property
    def max_calls(self) -> int:
        """Of tonight's rounds, if nothing stops early and every trial is one call."""
        return self.rounds_tonight * self._of_one_round

    @property
    def rounds_tonight(self) -> int:
        """At most."""
        return 1 if self.deterministic else self.settings.trials

    @property
    def max_finish(self) -> int:
        """Of the fresh pass, if everything is proven."""
        passes = MARGIN_PASSES if any(test.margin for test in self.tests) else PASSES
        return (1 if self.deterministic else passes) * self._of_one_round

    @property
    def _of_one_round(self) -> int:
        return len(self.order) + sum(len(test.arms) * len(test.units(self.order)) for test in self.tests)

    def round(self, slot: int) -> list[Unit]:
        """The cases of tonight's round `slot`, in its own random order; the same seed gives the same order."""
        shuffled = list(self.order)
        random.Random(f"ab_test {self.settings.seed} {self.begun + slot}").shuffle(shuffled)
        return shuffled


def make_plan(
    repo: Repo,
    manifest: Manifest,
    prompt_paths: Iterable[str],
    settings: Settings,
    model: Mapping[str, Any],
    *,
    models: Sequence[str] = (),
    texts: bool = True,
    variant: str = "",
) -> Plan:
    """Plan the tests of these prompts (none: every prompt that has a challenger), and of other `models` than those that
    their agents ask; `model` names who answers, without `texts` only models are compared, with a `variant` under that
    text of the prompts."""
    named = list(dict.fromkeys(str(prompt_file(repo, path)) for path in prompt_paths))
    for path in named:
        if path not in manifest.prompts:
            raise BadInput(f"{path}: affects no agent of agents/manifest.yaml")
    planner = _Planner(repo, settings, model, manifest)
    tests, problems = [], []
    for prompt in (named or sorted(manifest.prompts)) if texts else ():
        agents = [spec for spec in manifest.enabled() if spec.name in manifest.prompts[prompt]]
        try:
            known = [spec for spec in agents if not planner.unknown(spec)]
            test = planner.test(prompt, known, UNKNOWN_TASK if agents else "affects no enabled agent")
        except BadInput as problem:  # one broken prompt does not cost the others their night
            if named:
                raise
            problems.append(str(problem))
            continue
        problems += [f"{prompt}: {skip.reason}" for skip in test.skipped if skip.sha256 is None]
        tests.append(test)
    if models:
        affected = {name for path in named or manifest.prompts for name in manifest.prompts[path]}
        asking = grouped(
            (spec for spec in manifest.enabled() if spec.name in affected),
            lambda spec: [planner.model_of(spec)],
        )
        for asked, agents in asking.items():
            if not variant:
                tests.append(planner.model_test(asked, models, agents))
            tests += [planner.model_test(asked, models, agents, path, variant) for path in named if variant]
    tests = [test for test in tests if test.arms or test.skipped]
    about = {
        **model,
        "run": "ab_test",
        "prompts": {path: planner.control.sha256(path) for path in sorted(manifest.prompts)},
        "challengers": {arm.label: arm.variant.sha256 for test in tests for arm in test.arms},
        "suites": {path: suite.sha256 for path, suite in sorted(planner.suites.loaded.items())},
        "models": {spec.name: spec.model for spec in manifest.agents if spec.model},
        **{name: getattr(settings, name) for name in ("seed", "trials", "rounds", "split", "offline_noise")},
        "scoring_version": SCORING_VERSION,
    }
    order = planner.order(manifest, tests)
    night = f"{utc_now()[:10]} {settings.seed}"
    alone = settings.force or settings.against  # what is asked on the side neither takes nor leaves evidence
    pairs = [] if alone else [arm.pair for test in tests for arm in test.arms]
    champions = {
        unit.spec.name: (planner.control.hash(unit.spec), planner.model_of(unit.spec)) for unit in order
    }
    evidence = gathered(repo, pairs, champions, night)
    about["begun"] = {pair: turns[-1].round for pair, turns in sorted(evidence.turns.items())}
    sizes = {path: len(suite.part("holdout")) for path, suite in sorted(planner.suites.loaded.items())}
    return Plan(
        tuple(tests),
        order,
        planner.control,
        settings,
        night,
        evidence,
        about,
        sizes,
        tuple(dict.fromkeys(problems)),  # prompts may share a suite that cannot be read
        paid(planner.history, night),
    )


class _Planner:
    """What all tests of a plan share; each file is read once."""

    def __init__(self, repo: Repo, settings: Settings, model: Mapping[str, Any], manifest: Manifest) -> None:
        self.settings, self.model = settings, model
        self.tree = PromptSet(repo)
        self.base = _texts_of(repo, settings.against, list(manifest.prompts)) if settings.against else {}
        self.control = self.tree.with_overrides(self.base)
        self.suites = Suites(repo, allow_unpinned=settings.allow_unpinned)
        self.history = list(history(repo))
        self.prices = {one.name: one.prices for one in manifest.models if one.name}
        self.memory = None if settings.force or settings.against else Memory(repo)

    def unknown(self, spec: AgentSpec) -> bool:
        """Whether only the offline model is asked, and it has no answer for this agent."""
        if self.model.get("provider") != "offline":
            return False
        case = self.suites.load(spec.eval_suite).cases[0]
        return bool(unknown_offline(spec, self.control, case.input))

    def model_of(self, spec: AgentSpec) -> str:
        """Which model the agent asks now."""
        return str(spec.model or self.model.get("model"))

    def test(self, prompt: str, agents: Sequence[AgentSpec], nobody: str) -> Test:
        """The texts of one prompt; `nobody` is why not, where there are no agents to try them on."""
        texts = Variants(self.control.repo, prompt)
        champion, found, unreadable = self._competing(prompt, texts)
        skipped = [Skipped(name, None, f"unreadable: {why}") for name, why in unreadable.items()]
        asked = sorted({self.model_of(spec) for spec in agents})
        model = {**self.model, "model": asked[0] if len(asked) == 1 else asked}
        arms = []
        for one in found:
            pair = self._pair(champion, one, agents, model)
            if not agents:
                skipped.append(Skipped(one.name, one.sha256, nobody))
            elif self.memory and (decided := self.memory.dethroned.get((prompt, one.sha256))):
                # it lost to a text that has been beaten since, or stands
                skipped.append(Skipped(one.name, one.sha256, "a former champion", decided))
            elif skip := self._known(champion, one, pair):
                skipped.append(skip)
            else:
                prompts = self.control.with_overrides({prompt: one.text})
                arms.append(Arm(f"{texts.live.stem}/{one.name}", one, pair, prompts))
        return self._made(prompt, champion, arms, agents, skipped)

    def model_test(
        self,
        asked: str,
        models: Sequence[str],
        agents: Sequence[AgentSpec],
        prompt: str = "",
        variant: str = "",
    ) -> Test:
        """Other models than the one that these agents ask, under the same prompts or under another text of one."""
        cheaper = self.settings.goal == "cheaper"
        endpoint = {name: value for name, value in self.model.items() if name != "model"}
        goal = {"goal": "cheaper", "margin": self.settings.margin} if cheaper else {}
        champion, text, prompts = as_variant(asked), None, self.control
        if variant:
            texts = Variants(self.control.repo, prompt)
            champion, text = texts.champion(), Variant(prompt, variant, texts.text(variant))
            prompts = self.control.with_overrides({prompt: text.text})
            endpoint |= {"model": asked}
        arms, skipped = [], []
        for line in (as_variant(name) for name in dict.fromkeys(models) if name != asked):
            one, also = (text, {"challenger": line.name}) if text else (line, {})
            pair = self._pair(champion, one, agents, endpoint | goal | also)
            if self.model.get("provider") == "offline":
                skipped.append(Skipped(line.name, one.sha256, ONLY_ONE))
            elif skip := self._known(champion, one, pair):
                skipped.append(skip)
            else:
                label = f"model/{line.name}" + (f"/{Path(prompt).stem}/{variant}" if text else "")
                arms.append(Arm(label, one, pair, prompts, line.name, self.prices.get(line.name)))
        test = replace(self._made(prompt, champion, arms, agents, skipped), model=asked)
        return replace(test, margin=self.settings.margin, alpha=MARGIN_ALPHA) if cheaper else test

    def _pair(
        self, champion: Variant, one: Variant, agents: Sequence[AgentSpec], model: Mapping[str, Any]
    ) -> str:
        suites = [self.suites.load(spec.eval_suite).settled_sha256 for spec in agents]
        return pair_of(champion.sha256, one.sha256, suites, model)

    def _known(self, champion: Variant, one: Variant, pair: str) -> Skipped | None:
        """Why it needs no comparison any more, if it was decided before or a person said no."""
        if self.memory and (refused := self.memory.refusal(one, champion)):
            return Skipped(one.name, one.sha256, refused.told, refused.reference)
        if self.memory and (earlier := self.memory.settled.get(pair)):
            why = f"already decided: it {earlier.became} on {earlier.date}"
        elif self.memory and not self.settings.allow and (earlier := self.memory.blocked.get(pair)):
            why = f"{earlier.reason} ({earlier.date}); --allow takes it in spite of that"
        else:
            return None
        return Skipped(one.name, one.sha256, why, earlier.where)

    def _made(
        self,
        prompt: str,
        champion: Variant,
        arms: Sequence[Arm],
        agents: Sequence[AgentSpec],
        skipped: Sequence[Skipped],
    ) -> Test:
        names = tuple(spec.name for spec in agents)
        cases_of = tuple(dict.fromkeys(spec.eval_suite for spec in agents))
        wear = max((worn(self.history, suite) for suite in cases_of), default=0)
        return Test(prompt, champion, tuple(arms), names, tuple(skipped), self.settings.alpha, cases_of, wear)

    def _competing(
        self, prompt: str, texts: Variants
    ) -> tuple[Variant, Sequence[Variant], Mapping[str, str]]:
        """The champion, its challengers, and what cannot be read of them; or a revision's text against the tree's."""
        if not self.settings.against:
            return texts.champion(), *texts.challengers()
        before, after = self.control.text(prompt), self.tree.text(prompt)
        changed = [Variant(prompt, "tree", after)] if prompt in self.base and before != after else []
        return Variant(prompt, "base", before), changed, {}

    def order(self, manifest: Manifest, tests: Iterable[Test]) -> tuple[Unit, ...]:
        """Every case that some arm is run on."""
        agents = {name for test in tests if test.arms for name in test.agents}
        units = [
            Unit(spec, case)
            for spec in manifest.agents
            if spec.name in agents
            for case in self.suites.load(spec.eval_suite).part(self.settings.split)
        ]
        return tuple(units)


def as_variant(model: str) -> Variant:
    """A model as what competes: the line of the manifest that would change."""
    return Variant("", model, f"model: {model}\n")


def _texts_of(repo: Repo, revision: str, prompts: Sequence[str]) -> dict[str, str]:
    """The prompts as they stand in a revision; one that is new since has nothing to be compared with."""
    if commit_of(repo.root, revision) is None:
        raise BadInput(f"--against {revision}: no such revision")
    found = blobs(repo.root, [f"{revision}:{prompt}" for prompt in prompts])
    return {prompt: text.decode() for prompt, text in zip(prompts, found, strict=True) if text is not None}
