"""The A/B report as records: what stands in `meta/reports/ab_test_report.json`, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from agents.manifest import ABTest
from agents.texts.variants import Origin, name_of
from telemetry.edge.frozen import frozen

SCHEMA_VERSION = 1
MAX_UNREADABLE = 1 / 3  # of the answers of both arms; beyond that the endpoint is not what it should be
MAX_LOST = 0.10  # of the calls; beyond that an outage decides, not the prompts


@frozen
class Settings(ABTest):
    """What a run may be told: what stands in the manifest, and what does not."""

    seed: int = 0
    split: str = "holdout"
    offline_noise: float = 0.0
    force: bool = False
    allow: tuple[str, ...] = ()  # guardrails that a person takes upon themselves
    against: str = ""  # a revision: its prompts are the champions, those of the working tree the challengers
    allow_unpinned: bool = False


@frozen
class Guardrail:
    """One check; `limit` and `measured` as a person reads them, `value` as it was compared."""

    name: str
    limit: str
    measured: str
    passed: bool
    value: float | None = None


@frozen
class Skipped:
    """A challenger that is not run, and why."""

    variant: str
    sha256: str | None
    reason: str
    reference: str | None = None


@frozen
class Answer:
    """What an arm typically said to a case."""

    score: float
    output_preview: str


@frozen
class Flip:
    """A case that changed sides."""

    case: str
    agent: str
    expected: str
    champion: Answer
    challenger: Answer
    why: str


@frozen
class Figures:
    """What the trials of one arm took."""

    trials: int
    failed: int
    cost_per_case_usd: float | None
    p95_latency_ms: float | None


@frozen
class AgentChange:
    """What a challenger changed for one agent, with an interval of that agent alone."""

    cases: int
    champion: float  # mean scores
    challenger: float
    difference: float
    ci_low: float
    ci_high: float
    passed_champion: float  # shares of passed trials
    passed_challenger: float


@frozen
class Detail:
    """How one agent did with one text."""

    cases: int
    total: int
    passed: int
    success_rate: float
    score: float


@frozen
class Bill:
    """What it took to come to know a challenger: its proposal, and both arms in all nights; None is unknown."""

    calls: int | None
    cost_usd: float | None


@frozen
class Arm:
    """One challenger against the champion."""

    variant: str
    sha256: str
    pair: str
    verdict: str
    reason: str
    promoted: bool
    effect: float
    ci_low: float
    ci_high: float
    confidence: float
    alpha: float
    e_value: float
    e_needed: float
    wins: int
    ties: int
    losses: int
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None
    rounds: int  # played to the end, over all nights
    finished: bool  # effect and interval are those of the fresh pass over all cases
    cases_used: int
    cases_available: int
    cases_lost: int
    calls: int
    failed_calls: float
    cost_usd: float | None
    champion: Figures
    challenger: Figures
    agents: Mapping[str, AgentChange]
    guardrails: tuple[Guardrail, ...]
    newly_right: tuple[Flip, ...]
    newly_wrong: tuple[Flip, ...]
    lineage: Origin | None
    diff: str
    families: int = 0  # that its cases come from
    family_low: float | None = None  # 95 % interval with families as what varies; None for few of them
    family_high: float | None = None
    bill: Bill | None = None
    model: str = ""  # asked instead of the champion's
    model_asked: Any = None  # by both arms, one or a list
    model_answered: Any = None
    judged: int = 0  # of its cases, graded by a model

    @property
    def name(self) -> str:
        """A model by its name, a text by letter and hash: a letter alone may have meant another text once."""
        text = "" if self.variant == self.model else name_of(self.variant, self.sha256)
        return " with ".join(filter(None, (self.model, text)))


@frozen
class Test:
    """One prompt, or one model: its challengers, and the best of them (B) beside the champion (A)."""

    prompt: str  # empty where models are compared under the same prompts
    agents: tuple[str, ...]
    champion_sha256: str
    challenger: str | None
    score_A: float | None
    score_B: float | None
    delta_B_minus_A: float | None
    winner: str
    promoted: bool
    detail_A: Mapping[str, Detail]
    detail_B: Mapping[str, Detail]
    arms: tuple[Arm, ...]
    skipped: tuple[Skipped, ...]
    suites: tuple[str, ...] = ()
    wear: int = 0  # verdicts that its most worn holdout has given since it last got fresh cases
    model: str = ""  # that the agents ask now, where models are compared
    margin: float = 0.0  # 0: had to be better; else not worse than by this much, and cheaper

    @property
    def stem(self) -> str:
        """What competes, as a person says it: the prompt's name, or the model's, or both."""
        return " with ".join(filter(None, (self.model, PurePosixPath(self.prompt).stem)))

    @property
    def changes(self) -> str:
        """What a promotion changes: the prompt, or the model that is asked."""
        return self.model or self.prompt


@frozen
class Spend:
    """What the trials took that the verdicts stand on; what ran beyond them is told in the history."""

    trials: int
    trials_resumed: int
    calls: int
    cost_usd: float | None
    max_usd: float | None


@frozen
class Report:
    """A whole run."""

    schema_version: int
    generated_at: str
    status: str
    stop_reason: str
    promoted: tuple[str, ...]
    settings: Settings
    spend: Spend
    command: str
    problems: tuple[str, ...]
    tests: tuple[Test, ...]
    metadata: Mapping[str, Any]

    @property
    def arms(self) -> list[tuple[Test, Arm]]:
        """Every comparison with its prompt."""
        return [(test, arm) for test in self.tests for arm in test.arms]

    @property
    def winners(self) -> list[tuple[Test, Arm]]:
        """What is promoted."""
        return [(test, arm) for test, arm in self.arms if arm.promoted]


def rounded(value: float) -> float:
    """As the report keeps it."""
    return round(value, 6) + 0.0  # no -0.0


def short(value: float) -> float:
    """The same of an e-value or a cost: six digits, wherever they stand."""
    return float(f"{value:.6g}")
