"""A git checkout with the engine's code and one small agent, for tests of the sandbox.

`level` reports every number from LIMIT on. LIMIT is 50; the suite expects 40, so 40 is better and 60 is worse.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

from meta.patches.trial import Commands
from tests.worlds import world

CODE = """\
from agents.base import BaseAgent, Inputs, Item

LIMIT = 50  # report from here on


class Level(BaseAgent):
    async def analyze(self, inputs: Inputs) -> list[Item]:
        return [{"risk_score": number} for number in inputs["numbers"] if number >= LIMIT]
"""
PATH = "agents/level.py"
CASES = 16

# Seconds, not minutes: a linter on one file, a test of one line, the real evals of a small suite.
SHORT = Commands(
    lint=((sys.executable, "-m", "ruff", "check", "--isolated", PATH),),
    tests=((sys.executable, "-c", "from agents.level import LIMIT; assert LIMIT < 100"),),
    evals=(sys.executable, "-m", "eval.harness", "--agent={agent}", "--seed={seed}", "--quiet"),
)
PROTECTED = [".github/**", "eval/**", "meta/**", "tests/**", "agents/manifest.yaml", "agents/base.py"]
LEVEL = {"module": "agents.level", "callable": "Level.run", "eval_suite": "eval/suites/level.jsonl"}
META = {"module": "agents.review.meta_agent", "callable": "MetaAgent.run", "inputs": "findings"}


def make(root: Path) -> Path:
    """The checkout, with one commit."""
    world.engine(root)
    world.put(root, PATH, CODE)
    prompt = "agents/prompts/meta_agent.md"
    world.put(root, prompt, (world.TREE / "agents/prompts/meta_system.md").read_text())
    agents = [
        {"name": "level", "inputs": "numbers", "sandbox_editable": True, **LEVEL},
        {"name": "other", "inputs": "numbers", **LEVEL, "eval_suite": "eval/suites/other.jsonl"},
        {"name": "meta_agent", "prompt": prompt, "eval_suite": LEVEL["eval_suite"], **META},
    ]
    world.manifest(root, agents, protected_paths=PROTECTED)
    world.put(root, "agents/inputs/numbers.json", "{}")
    world.put(root, "tests/test_level.py", "def test_it() -> None: ...\n")
    world.put(root, ".github/workflows/ci.yml", "on: push\n")
    for name in ("level", "other"):
        world.suite(root, name, map(case, range(CASES)))
    return world.template(root)


def case(number: int) -> dict[str, Any]:
    value = 35 + 2 * number  # 35 .. 65
    wanted = [value] if value >= 40 else []
    expect = [{"grader": "set_f1", "path": "*.risk_score", "values": wanted}]
    return {"id": f"level-{number:02}", "input": {"numbers": [value]}, "expect": expect}


# A builder as the sandbox calls it: `NAME --seed S --into DIR --quiet`, other numbers than those of the suite.
BUILDER = """
import json, sys
from pathlib import Path
rows = []
for value in range(21, 80):
    wanted = [value + 0.5] if value >= 40 else []
    expect = [{"grader": "set_f1", "path": "*.risk_score", "values": wanted}]
    rows.append({"id": f"other-{value}", "input": {"numbers": [value + 0.5]}, "expect": expect})
Path(sys.argv[5], "level.jsonl").write_text("".join(json.dumps(row) + chr(10) for row in rows))
"""


def diff(after: str, before: str = CODE, path: str = PATH) -> str:
    """What a model would write."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))


def patch(text: str) -> dict[str, str]:
    """The answer that carries a diff."""
    return {"action": "patch", "why": "does as asked", "diff": text}
