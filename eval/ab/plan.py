"""What is compared with what, on which cases, in which order? Fixed before the first call.

One *test* per prompt: its champion against every distinct challenger, on the cases of the enabled agents that the
prompt affects. All tests of a night walk through one seeded random order of cases, so that the champion, which is
the control of every comparison, runs once per case and side by side with all that is compared with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.manifest import ABTest, AgentSpec, Manifest
from agents.texts.prompt_set import PromptSet
from agents.texts.variants import Variant, Variants, prompt_file
from eval.ab.memory import Compared, dethroned, pair_of, settled
from eval.grading.suite import Case, Suite, load_suite
from telemetry.edge.errors import BadInput
from telemetry.edge.repo import Repo
from telemetry.names import SCORING_VERSION

CONTROL = "champion"  # the label of the control arm


@dataclass(frozen=True, slots=True)
class Settings(ABTest):
    """What a run may be told: what stands in the manifest, and what does not."""

    seed: int = 0
    split: str = "holdout"
    offline_noise: float = 0.0
    force: bool = False
    allow_unpinned: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """One case of one agent: what every arm is run on."""

    spec: AgentSpec
    case: Case

    @property
    def key(self) -> tuple[str, str]:
        return (self.spec.name, self.case.id)


@dataclass(frozen=True, slots=True)
class Arm:
    """One text of one prompt, in memory."""

    label: str
    variant: Variant
    pair: str
    prompts: PromptSet


@dataclass(frozen=True, slots=True)
class Skipped:
    """A challenger that is not run, and why."""

    variant: str
    sha256: str | None
    reason: str
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Test:
    """One prompt: the champion, its challengers, and what affects whom."""

    prompt: str
    champion: Variant
    arms: tuple[Arm, ...]
    agents: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    alpha: float  # for each comparison: the error rate is kept over all of them (Bonferroni)

    def units(self, order: Sequence[Unit]) -> list[Unit]:
        """Its cases, in the common order."""
        return [unit for unit in order if unit.spec.name in self.agents]


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole night."""

    tests: tuple[Test, ...]
    order: tuple[Unit, ...]
    control: PromptSet
    settings: Settings
    about: Mapping[str, Any]  # what a journal has to agree with to be resumed
    suites: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def arms(self) -> list[Arm]:
        return [arm for test in self.tests for arm in test.arms]

    @property
    def max_calls(self) -> int:
        """If nothing stops early, and every trial is one call."""
        compared = [unit for unit in self.order if self.arms_for(unit)]
        return self.settings.trials * sum(1 + len(self.arms_for(unit)) for unit in compared)

    def arms_for(self, unit: Unit) -> list[Arm]:
        """The challengers that are run on this case."""
        return [arm for test in self.tests if unit.spec.name in test.agents for arm in test.arms]


def make_plan(
    repo: Repo, manifest: Manifest, prompt_paths: Iterable[str], settings: Settings, model: Mapping[str, Any]
) -> Plan:
    """Plan the tests of these prompts (none: every prompt that has a challenger); `model` names who answers."""
    named = [str(prompt_file(repo, path)) for path in prompt_paths]
    for path in named:
        if path not in manifest.prompts:
            raise BadInput(f"{path}: affects no agent of agents/manifest.yaml")
    control = PromptSet(repo)
    known = {} if settings.force else settled(repo)
    loaded: dict[str, Suite] = {}
    tests, problems = [], []
    for prompt in dict.fromkeys(named) or sorted(manifest.prompts):
        agents = [spec for spec in manifest.enabled() if spec.name in manifest.prompts[prompt]]
        try:
            test = _test(prompt, agents, control, settings, model, known, loaded)
        except BadInput as problem:  # one broken prompt does not cost the others their night
            if named:
                raise
            problems.append(str(problem))
            continue
        problems += [f"{prompt}: {skip.reason}" for skip in test.skipped if skip.sha256 is None]
        if test.arms or test.skipped:
            tests.append(test)
    order = _order(manifest, tests, loaded, settings)
    suites = {path: suite.sha256 for path, suite in sorted(loaded.items())}
    about = {**model, **_about(manifest, tests, control, suites, settings)}
    return Plan(tuple(tests), order, control, settings, about, suites, tuple(problems))


def _test(
    prompt: str,
    agents: Sequence[AgentSpec],
    control: PromptSet,
    settings: Settings,
    model: Mapping[str, Any],
    known: Mapping[str, Compared],
    loaded: dict[str, Suite],
) -> Test:
    repo, texts = control.repo, Variants(control.repo, prompt)
    champion = texts.champion()
    found, unreadable = texts.challengers()
    skipped = [Skipped(name, None, f"unreadable: {why}") for name, why in unreadable.items()]
    if found and not agents:
        skipped += [Skipped(one.name, one.sha256, "affects no enabled agent") for one in found]
        found = []
    arms = []
    former = {} if settings.force else dethroned(repo)
    for one in found:
        if (prompt, one.sha256) in former:  # it lost to a text that has been beaten since, or stands
            decided = former[(prompt, one.sha256)]
            skipped.append(Skipped(one.name, one.sha256, "a former champion", decided))
            continue
        for spec in agents:
            if spec.eval_suite not in loaded:
                loaded[spec.eval_suite] = load_suite(
                    repo, spec.eval_suite, allow_unpinned=settings.allow_unpinned
                )
        suites = [loaded[spec.eval_suite].sha256 for spec in agents]
        pair = pair_of(champion.sha256, one.sha256, suites, model)
        if pair in known:
            earlier = known[pair]
            why = f"already decided: {earlier.verdict} on {earlier.date}"
            skipped.append(Skipped(one.name, one.sha256, why, earlier.where))
            continue
        label = f"{texts.live.stem}/{one.name}"
        arms.append(Arm(label, one, pair, control.with_overrides({prompt: one.text})))
    names = tuple(spec.name for spec in agents)
    return Test(prompt, champion, tuple(arms), names, tuple(skipped), settings.alpha / max(1, len(arms)))


def _order(
    manifest: Manifest, tests: Iterable[Test], loaded: Mapping[str, Suite], settings: Settings
) -> tuple[Unit, ...]:
    """Every case that some arm is run on, shuffled once; the same seed gives the same order."""
    agents = {name for test in tests if test.arms for name in test.agents}
    units = [
        Unit(spec, case)
        for spec in manifest.agents
        if spec.name in agents
        for case in loaded[spec.eval_suite].part(settings.split)
    ]
    random.Random(f"ab_test {settings.seed}").shuffle(units)
    return tuple(units)


def _about(
    manifest: Manifest,
    tests: Iterable[Test],
    control: PromptSet,
    suites: Mapping[str, str],
    settings: Settings,
) -> dict[str, Any]:
    return {
        "run": "ab_test",
        "prompts": {path: control.sha256(path) for path in sorted(manifest.prompts)},
        "challengers": {arm.label: arm.variant.sha256 for test in tests for arm in test.arms},
        "suites": dict(suites),
        "models": {spec.name: spec.model for spec in manifest.agents if spec.model},
        "seed": settings.seed,
        "trials": settings.trials,
        "split": settings.split,
        "offline_noise": settings.offline_noise,
        "scoring_version": SCORING_VERSION,
    }
