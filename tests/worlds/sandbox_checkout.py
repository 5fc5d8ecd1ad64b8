"""A git checkout with the real packages and one small agent, for tests of the sandbox.

`level` reports every number from LIMIT on. LIMIT is 50; the suite expects 40, so 40 is better and 60 is worse.
Its code stands in place of a module that exists here, too: the manifest is checked against what can be imported.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.model.call import Completion, Message, Model
from eval.grading import suite as suites
from meta.patches.trial import Commands
from telemetry.edge.repo import SUITES, here, working_in
from tests.conftest import REPOSITORY
from tests.worlds import proposal_repo as repo

CODE = """\
from agents.base import BaseAgent, Inputs, Item

LIMIT = 50  # report from here on


class GeopoliticalRisk(BaseAgent):
    async def analyze(self, inputs: Inputs) -> list[Item]:
        return [{"risk_score": number} for number in inputs["numbers"] if number >= LIMIT]
"""
PATH = "agents/market/geopolitical_risk.py"
CASES = 16

# Seconds, not minutes: a linter on one file, a test of one line, the real evals of a small suite.
SHORT = Commands(
    lint=((sys.executable, "-m", "ruff", "check", "--isolated", PATH),),
    tests=((sys.executable, "-c", "from agents.market.geopolitical_risk import LIMIT; assert LIMIT < 100"),),
    evals=(sys.executable, "-m", "eval.harness", "--agent={agent}", "--seed={seed}", "--quiet"),
)

MANIFEST = {
    "domain": "agents.market",
    "protected_paths": [
        ".github/**",
        "eval/**",
        "meta/**",
        "tests/**",
        "agents/manifest.yaml",
        "agents/base.py",
    ],
    "agents": [
        {
            "name": "level",
            "module": "agents.market.geopolitical_risk",
            "callable": "GeopoliticalRisk.run",
            "inputs": "macro",
            "eval_suite": "eval/suites/level.jsonl",
            "sandbox_editable": True,
        },
        {
            "name": "macro_watcher",
            "module": "agents.market.macro_watcher",
            "callable": "MacroWatcher.run",
            "inputs": "macro",
            "eval_suite": "eval/suites/level.jsonl",
        },
        {
            "name": "meta_agent",
            "module": "agents.review.meta_agent",
            "callable": "MetaAgent.run",
            "inputs": "findings",
            "eval_suite": "eval/suites/level.jsonl",
            "prompt": "agents/prompts/meta_agent.md",
        },
    ],
}


def make(root: Path) -> Path:
    """The checkout, with one commit."""
    for package in ("agents", "eval", "meta", "telemetry"):
        for file in (REPOSITORY / package).rglob("*"):
            if file.suffix == ".py" or file.name.endswith(".schema.json"):
                copy = root / file.relative_to(REPOSITORY)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
    repo.write(root, PATH, CODE)
    repo.write(
        root,
        "agents/prompts/meta_agent.md",
        (REPOSITORY / "tests/worlds/toy/tree/agents/prompts/meta_system.md").read_text(),
    )
    repo.write(root, "agents/manifest.yaml", json.dumps(MANIFEST))  # JSON is YAML
    repo.write(root, "tests/test_level.py", "def test_it() -> None: ...\n")
    repo.write(root, ".github/workflows/ci.yml", "on: push\n")
    shutil.copyfile(REPOSITORY / ".gitignore", root / ".gitignore")
    (root / SUITES).mkdir()
    with working_in(root):
        path = SUITES / "level.jsonl"
        suites.write_suite(here(), path, (case(number) for number in range(CASES)))
        suites.pin(here(), [path])
    repo.git(root, "init", "-q", "-b", "main")
    repo.git(root, "add", "-A")
    repo.git(root, "commit", "-q", "-m", "start")
    return root


def case(number: int) -> dict[str, Any]:
    value = 35 + 2 * number  # 35 .. 65
    wanted = [value] if value >= 40 else []
    expect = [{"grader": "set_f1", "path": "*.risk_score", "values": wanted}]
    return {"id": f"level-{number:02}", "input": {"numbers": [value]}, "expect": expect}


def diff(after: str, before: str = CODE, path: str = PATH) -> str:
    """What a model would write."""
    import difflib

    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))


class Scripted(Model):
    """A model that gives these answers in turn; an exception among them is raised."""

    def __init__(self, *answers: dict[str, str] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        self.asked.append(json.loads(messages[-1]["content"]))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Completion(answer, json.dumps(answer), "scripted", "scripted", "test", 1, 1, cost_usd=0.0)


def patch(text: str) -> dict[str, str]:
    """The answer that carries a diff."""
    return {"action": "patch", "why": "does as asked", "diff": text}
