"""A small checkout with agents without code, and an endpoint that answers them; for tests and benchmarks of evals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eval.grading import suite as suites
from telemetry.edge.repo import SUITES, here, working_in
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


def make(root: Path, agents: tuple[str, ...] = ("alpha", "beta"), cases: int = 20) -> None:
    """Agents that report each headline's number as its risk; every fifth case expects what they will not say."""
    for folder in ("agents/prompts", "agents/schemas", "eval/suites", "telemetry"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "agents/schemas/item.json").write_text(json.dumps(SCHEMA))
    entries = []
    for name in agents:
        (root / f"agents/prompts/{name}.md").write_text(f"# {name}\n\nReport every headline.\n")
        entries.append(
            {
                "name": name,
                "module": "agents.prompted",
                "callable": "PromptedAgent.run",
                "inputs": "outputs",
                "prompt": f"agents/prompts/{name}.md",
                "output_schema": "agents/schemas/item.json",
                "eval_suite": f"eval/suites/{name}.jsonl",
            }
        )
        with working_in(root):
            path = SUITES / f"{name}.jsonl"
            suites.write_suite(here(), path, (case(name, number) for number in range(cases)))
            suites.pin(here(), [path])
    (root / "agents/manifest.yaml").write_text(json.dumps({"agents": entries}))  # JSON is YAML


def case(agent: str, number: int) -> dict[str, Any]:
    risk = number % 100
    wanted = risk if number % 5 else risk + 1
    return {
        "id": f"{agent}-{number:04}",
        "input": {"headlines": [{"id": "h1", "text": f"risk {risk}"}]},
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
        for line in asked["headlines"]
    ]
    return chat(json.dumps({"items": items}), **rest)
