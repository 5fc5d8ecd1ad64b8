"""A checkout of its own for whole nights: a domain of readings, a watcher whose challenger is better, and an idler."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from agents.texts.variants import Variants
from eval.grading import suite
from telemetry.edge.files import write_atomic
from telemetry.edge.repo import SUITES, Repo
from tests.conftest import REPOSITORY

PROMPT = "agents/prompts/watcher.md"
DOMAIN = """
from datetime import date, timedelta
from agents.domain import Domain, InputKind, Signals

class Sample:
    mode = "snapshot"

    def days(self):
        return [str(date(2026, 1, 1) + timedelta(days=number)) for number in range(150)]

    def load(self, kind, as_of=None):
        number = self.days().index(as_of or self.days()[-1])
        return {"as_of": as_of, "items": [{"id": "gauge", "change": number % 40 / 100}]}

DOMAIN = Domain(inputs={"readings": InputKind(lambda payload: None)}, open_source=lambda mode, root: Sample())
"""
TEXT = """# {name}

Report a `change` that is large: the `signal`, and why, as `rationale`. A `change` is a fraction of one.

## Rules
```rules
analyst: threshold
field: change
above: {above}
risk_per_unit: 200
```
"""
SCHEMA = {
    "type": "object",
    "required": ["id", "signal", "rationale"],
    "properties": {
        "id": {"type": "string"},
        "signal": {"type": "string", "enum": ["up", "down"]},
        "risk_score": {"type": "number"},
        "rationale": {"type": "string"},
    },
}


def make(root: Path) -> Path:
    """Everything committed; the watcher tells too little, its challenger B what it should, the idler nothing."""
    write_atomic(root / "readings/__init__.py", DOMAIN)
    write_atomic(root / ".gitignore", (REPOSITORY / ".gitignore").read_bytes())
    for name in ("critique.md", "propose.md"):
        write_atomic(root / "agents/prompts" / name, (REPOSITORY / "agents/prompts" / name).read_bytes())
    repo = Repo(root)
    agents = [_agent(repo, name, above) for name, above in (("watcher", 0.3), ("idler", 9.0))]
    Variants(repo, PROMPT).ensure()
    better = TEXT.format(name="watcher", above=0.1)
    Variants(repo, PROMPT).add(better, source="hand", author="a person", name="B")
    manifest = {
        "version": 1,
        "domain": "readings",
        "critique_pairs": [["idler", "watcher"]],
        "agents": agents,
    }
    write_atomic(root / "agents/manifest.yaml", yaml.safe_dump(manifest, sort_keys=False))
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return root


def _agent(repo: Repo, name: str, above: float) -> dict[str, Any]:
    prompt, schema, cases = (
        f"agents/prompts/{name}.md",
        f"agents/schemas/{name}.json",
        SUITES / f"{name}.jsonl",
    )
    write_atomic(repo / prompt, TEXT.format(name=name, above=above))
    write_atomic(repo / schema, json.dumps(SCHEMA))
    suite.write_suite(repo, cases, (_case(name, number) for number in range(160)))
    suite.pin(repo, [cases])
    code = {"module": "agents.prompted", "callable": "PromptedAgent.run", "inputs": "readings"}
    return {"name": name, **code, "prompt": prompt, "output_schema": schema, "eval_suite": str(cases)}


def _case(name: str, number: int) -> dict[str, Any]:
    change = number % 40 / 100
    wanted = ["up"] if change >= 0.1 else []
    return {
        "id": f"{name}-{number:04}",
        "input": {"items": [{"id": "gauge", "change": change}]},
        "expect": [{"grader": "set_f1", "path": "*.signal", "values": wanted}],
    }


def git(root: Path, *args: str) -> str:
    """Run git as a person would; its output."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()
