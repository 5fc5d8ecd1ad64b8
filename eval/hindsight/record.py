"""The back-test report as records: what stands in `meta/reports/backtest_report.json`, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from agents.texts.variants import name_of
from eval.ab.record import AgentChange, Flip, Spend
from telemetry.edge.frozen import frozen

SCHEMA_VERSION = 1

Verdict = Literal["demote", "stands", "inconclusive"]


@frozen
class Settings:
    """What a run may be told."""

    seed: int = 0
    offline_noise: float = 0.0
    least: int = 30  # cases; fewer say little about either text
    days: int = 90  # promotions older than that are left alone


@frozen
class Waiting:
    """A promotion that is not tested tonight, and why."""

    prompt: str
    promotion: str
    reason: str


@frozen
class Tested:
    """One promotion, tested again: positive figures speak for the promoted text."""

    prompt: str
    promotion: str  # the decision, by its file
    promoted_on: str
    promised: float | None  # its effect, as it was promoted
    live: str  # the promoted text's letter
    live_sha256: str
    replaced_sha256: str
    pair: str
    verdict: Verdict
    reason: str
    effect: float
    ci_low: float
    ci_high: float
    wins: int
    ties: int
    losses: int
    cases_used: int
    cases_available: int
    cases_lost: int
    calls: int
    cost_usd: float | None
    agents: Mapping[str, AgentChange]
    newly_right: tuple[Flip, ...]
    newly_wrong: tuple[Flip, ...]
    diff: str  # from what would be restored to what is live

    @property
    def stem(self) -> str:
        """The prompt's name as a person says it."""
        return PurePosixPath(self.prompt).stem

    @property
    def name(self) -> str:
        """The promoted text, by letter and hash."""
        return name_of(self.live, self.live_sha256)


@frozen
class Report:
    """A whole run."""

    schema_version: int
    generated_at: str
    status: Literal["complete", "stopped"]
    stop_reason: str
    demoted: tuple[str, ...]
    settings: Settings
    spend: Spend
    command: str
    tests: tuple[Tested, ...]
    waiting: tuple[Waiting, ...]
    metadata: Mapping[str, Any]

    @property
    def fallen(self) -> list[Tested]:
        """What is to be demoted."""
        return [one for one in self.tests if one.verdict == "demote"]
