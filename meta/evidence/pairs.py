"""What a critic sees of a colleague: its last output, telemetry, failing tune cases, and the critic's own view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    own_output: list[Any]
    prompt: str | None

    @property
    def has_something(self) -> bool:
        """Is there anything to look at?"""
        return bool(self.output or self.telemetry or self.tune.failures)

    def shown(self) -> dict[str, Any]:
        """What the critic is shown."""
        given = {
            "agent": self.target,
            "as_of": self.as_of,
            "outputs": self.output,
            "telemetry": self.telemetry,
            "failing_cases": self.tune.shown(),
        }
        return {
            "task": "critique",
            "critic": self.critic,
            **reviewer.payload(given),
            "telemetry": self.telemetry,
            "tags": {tag: {"failing": wrong, "of": of} for tag, (wrong, of) in self.tune.tags.items()},
            "own_output": self.own_output[: reviewer.MAX_ITEMS],
            "prompt": self.prompt,
        }


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
    view = own or [] if own_day == as_of else []
    return Pair(critic, target, output or [], as_of, figures, tune, view, spec.prompt)
