"""What a critic sees of a colleague: its last output, telemetry, failing tune cases, and the critic's own view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.manifest import Manifest
from agents.review import reviewer
from agents.texts.prompt_set import PromptSet
from meta.evidence import known as evidence

FIGURES = ("count", "error_rate", "errors_by_kind", "avg_cost_usd", "avg_reward", "unpriced_runs")


@dataclass(frozen=True, slots=True)
class Pair:
    """Who looks at whom, and at what."""

    critic: str
    target: str
    output: list[Any]
    as_of: str | None
    telemetry: Mapping[str, Any]
    tune: evidence.TuneResults
    own_output: list[Any] = field(default_factory=list)

    @property
    def has_something(self) -> bool:
        """Is there anything to look at?"""
        return bool(self.output or self.telemetry or self.tune.failures)


def pair_of(
    prompts: PromptSet,
    manifest: Manifest,
    critic: str,
    target: str,
    summary: Mapping[str, Any],
    output: list[Any] | None = None,
) -> Pair:
    """Gather what is known about the target; `output` instead of its latest one."""
    repo, spec, as_of = prompts.repo, manifest.agent(target), None
    if output is None:
        output, as_of = evidence.latest_output(repo, target)
    own, own_day = evidence.latest_output(repo, critic)
    figures = evidence.figures(summary, target, FIGURES)
    tune = evidence.tune_results(repo, spec, prompts.hash(spec) if spec.prompt else None)
    return Pair(critic, target, output or [], as_of, figures, tune, own or [] if own_day == as_of else [])


def payload(pair: Pair, prompt: str | None) -> dict[str, Any]:
    """What the critic is shown."""
    given = {
        "agent": pair.target,
        "as_of": pair.as_of,
        "outputs": pair.output,
        "telemetry": dict(pair.telemetry),
        "failing_cases": pair.tune.shown(),
    }
    counts = {tag: {"failing": wrong, "of": of} for tag, (wrong, of) in pair.tune.tags.items()}
    return {
        "task": "critique",
        "critic": pair.critic,
        **reviewer.payload(given),
        "telemetry": dict(pair.telemetry),
        "tags": counts,
        "own_output": pair.own_output[: reviewer.MAX_ITEMS],
        "prompt": prompt,
    }
