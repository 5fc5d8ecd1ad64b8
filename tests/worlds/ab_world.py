"""A small checkout for A/B tests: agents without code, a prompt that says how good it is, and a model that obeys it.

`skill: 0.7` in a prompt makes the scripted model right in 70 % of its answers; what is drawn depends on the prompt, the
case and the trial alone, so a rerun errs alike. `break: 1` breaks the schema, `cost: 2` doubles the price.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agents import llm_client
from agents.llm_client import Capped, ModelOptions
from agents.model.budget import Budget
from agents.model.call import Completion, LLMError, Message, Model, log_call, trial_label
from eval import ab_testing
from eval.ab import guardrails
from eval.grading import suite as suites
from telemetry.edge import cli
from telemetry.edge.repo import here, working_in

PROMPT = "agents/prompts/solver.md"
OTHER = "agents/prompts/helper.md"
SHARED = "agents/prompts/shared.md"
CASES = 230  # about half of them holdout

_AGENT = """
  - name: {name}
    module: agents.prompted
    callable: PromptedAgent.run
    inputs: findings
    prompt: agents/prompts/{name}.md
    output_schema: agents/schemas/answer.json
    eval_suite: eval/suites/{name}.jsonl
"""
_MANIFEST = """
version: 1
prompts:
  agents/prompts/shared.md: "*"
ab_test: {alpha: 0.05, min_effect: 0.01, trials: 3, min_cases: 30, max_cost_increase: 0.2, max_p95_increase: 0.5}
agents:
"""
_SCHEMA = {
    "type": "object",
    "required": ["answer"],
    "additionalProperties": False,
    "properties": {"answer": {"type": "string"}},
}


class Scripted(Model):
    """The model; `dies_after` calls it only fails."""

    provider, model = "scripted", "scripted-1"

    def __init__(
        self,
        dies_after: int | None = None,
        delay_s: float = 0.0,
        says: str = "wrong",
        killed_at: int | None = None,
    ) -> None:
        self.dies_after, self.delay_s, self.says, self.calls = dies_after, delay_s, says, 0
        self.killed_at = killed_at  # the call that its process does not survive

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **_: Any
    ) -> Completion:
        self.calls += 1
        if self.calls == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(self.delay_s)
        if self.dies_after is not None and self.calls > self.dies_after:
            raise LLMError("connection refused", "provider")
        system, user = str(messages[0]["content"]), str(messages[1]["content"])
        told = {name: float(value) for name, value in re.findall(r"(skill|break|cost): ([\d.]+)", system)}
        draw = hashlib.sha256(f"{trial_label.get()} {system} {user}".encode()).digest()
        share = int.from_bytes(draw[:4]) / 2**32
        data: Any = {"items": [{"answer": "right" if share < told.get("skill", 0.7) else self.says}]}
        if share < told.get("break", 0.0):
            data = {"items": [{"reply": "broken"}]}
        call = Completion(
            data=data,
            raw=json.dumps(data),
            model_asked="scripted-1",
            model_answered="scripted-1",
            provider="scripted",
            tokens_in=100,
            tokens_out=10,
            cost_usd=0.001 * told.get("cost", 1.0),
            cost_source="provider",
            latency_ms=1.0,
        )
        log_call(call)
        return call


def make(root: Path, skills: Mapping[str, float] | None = None, cases: int = CASES) -> None:
    """Write the checkout: one agent per entry of `skills`, each with a champion of that skill."""
    skills = skills or {"solver": 0.7}
    write(root, "agents/manifest.yaml", _MANIFEST + "".join(_AGENT.format(name=name) for name in skills))
    write(root, "agents/schemas/answer.json", json.dumps(_SCHEMA))
    write(root, SHARED, "Be brief.\n")
    right = {"grader": "exact", "path": "0.answer", "value": "right"}
    with working_in(root):
        for name, skill in skills.items():
            write(root, f"agents/prompts/{name}.md", f"# {name}\nskill: {skill}\n")
            path = Path(f"eval/suites/{name}.jsonl")
            rows = [{"id": f"{name}-{n}", "input": {"q": n}, "expect": [right]} for n in range(cases)]
            suites.write_suite(here(), path, rows)
            suites.pin(here(), [path])


def challenger(root: Path, name: str, text: str, prompt: str = PROMPT) -> Path:
    """Put a challenger beside its champion."""
    folder = f"agents/prompts/variants/{Path(prompt).stem}"
    if not (root / folder / "champion.md").exists():
        write(root, f"{folder}/champion.md", (root / prompt).read_text())
    return write(root, f"{folder}/{name}.md", text)


def write(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def tree(root: Path) -> dict[str, bytes]:
    """What git would see: every file but the data."""
    ignored = (".ratchet/", "telemetry/events", "eval/results/", "eval/history", "eval/ab_out")
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
