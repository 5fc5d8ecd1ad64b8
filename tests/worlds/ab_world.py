"""A world for A/B tests: agents without code, prompts that say how good they are, and a model that obeys them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents import llm_client
from agents.llm_client import Capped, ModelOptions
from agents.model.budget import Budget
from eval import ab_testing
from eval.ab import guardrails
from telemetry.edge import cli
from tests.worlds import world
from tests.worlds.models import Scripted as Scripted

PROMPT = "agents/prompts/solver.md"
OTHER = "agents/prompts/helper.md"
SHARED = "agents/prompts/shared.md"
CASES = 120  # about half of them holdout
LIMITS = {"alpha": 0.05, "min_effect": 0.01, "trials": 3, "min_cases": 30}
LIMITS |= {"max_cost_increase": 0.2, "max_p95_increase": 0.5}
SCHEMA = {
    "type": "object",
    "required": ["answer"],
    "additionalProperties": False,
    "properties": {"answer": {"type": "string"}},
}
RIGHT = {"grader": "exact", "path": "0.answer", "value": "right"}

write = world.put


def make(root: Path, skills: Mapping[str, float] | None = None, cases: int = CASES) -> None:
    """Write the checkout: one agent per entry of `skills`, each with a champion of that skill."""
    skills = skills or {"solver": 0.7}
    agents = [world.prompted(name, output_schema="agents/schemas/answer.json") for name in skills]
    world.manifest(root, agents, prompts={SHARED: "*"}, ab_test=LIMITS)
    world.put(root, "agents/schemas/answer.json", SCHEMA)
    world.put(root, SHARED, "Be brief.\n")
    for name, skill in skills.items():
        world.put(root, f"agents/prompts/{name}.md", f"# {name}\nskill: {skill}\n")
        rows = ({"id": f"{name}-{n}", "input": {"q": n}, "expect": [RIGHT]} for n in range(cases))
        world.suite(root, name, rows)


def challenger(root: Path, name: str, text: str, prompt: str = PROMPT) -> Path:
    """Put a challenger beside its champion."""
    return world.challenger(root, prompt, text, name)


def tree(root: Path) -> dict[str, bytes]:
    """What git would see: every file but the data."""
    ignored = (
        ".ratchet/",
        "telemetry/events",
        "telemetry/texts",
        "eval/results/",
        "eval/history",
        "eval/ab_out",
    )
    files = (file for file in root.rglob("*") if file.is_file())
    return {
        name: file.read_bytes()
        for file in files
        if not (name := file.relative_to(root).as_posix()).startswith(ignored)
    }


def use(patch: pytest.MonkeyPatch, model: Any) -> Any:
    """Let A/B runs ask this model."""

    def made(options: ModelOptions, *_: Any) -> Any:
        return Capped(model, Budget(options.max_usd, options.max_calls, options.max_seconds))

    patch.setattr(llm_client, "model_from_env", made)
    patch.setattr(guardrails, "LATENCY_SLACK_MS", 60_000.0)  # how busy this machine is decides nothing here
    return model


def run(root: Path, *flags: str, code: int = cli.OK) -> dict[str, Any]:
    """Run a night; the report as it was written, or an empty one."""
    answer = ab_testing.main(["--root", str(root), "--quiet", *flags])
    assert answer == code
    file = root / "meta/reports/ab_test_report.json"
    report: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"tests": []}
    return report


def verdicts(report: Mapping[str, Any]) -> dict[str, tuple[str, int, float]]:
    """What must not depend on how a night was run: verdict, cases used and evidence, by challenger."""
    return {
        f"{test['prompt']} {arm['variant']}": (arm["verdict"], arm["cases_used"], arm["e_value"])
        for test in report["tests"]
        for arm in test["arms"]
    }
