"""A checkout of its own for whole nights: a domain of readings, a watcher whose challenger is better, and an idler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.texts.variants import Variants
from telemetry.edge.files import Repo
from tests.conftest import REPOSITORY
from tests.worlds import world

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


def make(root: Path, cases: int = 160) -> Path:
    """Everything committed; the watcher tells too little, its challenger B what it should, the idler nothing."""
    world.put(root, "readings/__init__.py", DOMAIN)
    world.put(root, ".gitignore", (REPOSITORY / ".gitignore").read_bytes())
    for path in ("agents/prompts/critique.md", "agents/prompts/propose.md"):
        world.put(root, path, (world.TREE / path).read_bytes())
    for name, above in (("watcher", 0.3), ("idler", 9.0)):
        world.put(root, f"agents/prompts/{name}.md", TEXT.format(name=name, above=above))
        world.put(root, f"agents/schemas/{name}.json", SCHEMA)
        world.suite(root, name, (_case(name, number) for number in range(cases)))
    agents = [world.prompted(name, inputs="readings") for name in ("watcher", "idler")]
    world.manifest(root, agents, domain="readings", critique_pairs=[["idler", "watcher"]])
    Variants(Repo(root), PROMPT).ensure()
    better = TEXT.format(name="watcher", above=0.1)
    Variants(Repo(root), PROMPT).add(better, source="hand", author="a person", name="B")
    return world.template(root)


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
    return world.git(root, *args).strip()
