"""A small checkout with agents without code, and an endpoint that answers them; for tests and benchmarks of evals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.worlds import world
from tests.worlds.loopback import Reply, Request, chat

SCHEMA = {
    "type": "object",
    "required": ["id", "risk_score", "rationale"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "risk_score": {"type": "number", "minimum": 0, "maximum": 100},
        "rationale": {"type": "string"},
    },
}


def make(root: Path, agents: tuple[str, ...] = ("alpha", "beta"), cases: int = 20, **top: Any) -> None:
    """Agents that report each note's number as its risk; every fifth case expects what they will not say."""
    entries = [
        world.prompted(name, inputs="outputs", output_schema="agents/schemas/item.json") for name in agents
    ]
    world.manifest(root, entries, **top)
    world.put(root, "agents/schemas/item.json", SCHEMA)
    for name in agents:
        world.put(root, f"agents/prompts/{name}.md", f"# {name}\n\nReport every note.\n")
        world.suite(root, name, (case(name, number) for number in range(cases)))


def case(agent: str, number: int) -> dict[str, Any]:
    risk = number % 100
    wanted = risk if number % 5 else risk + 1
    return {
        "id": f"{agent}-{number:04}",
        "input": {"notes": [{"id": "h1", "text": f"risk {risk}"}]},
        "expect": [
            {"grader": "exact", "path": "0.risk_score", "value": wanted},
            {"grader": "contains", "path": "0.rationale", "all": ["risk"]},
        ],
        "tags": ["fifth"] if number % 5 == 0 else [],
    }


def answer(request: Request, **rest: Any) -> Reply:
    """What a diligent model says to the agents above."""
    asked = json.loads(request.json()["messages"][-1]["content"])
    items = [
        {
            "id": line["id"],
            "risk_score": int(line["text"].split()[-1]),
            "rationale": f"the text says {line['text']}",
        }
        for line in asked["notes"]
    ]
    return chat(json.dumps({"items": items}), **rest)
