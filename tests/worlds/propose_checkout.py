"""A small checkout whose one agent has a threshold that is plainly too high: there is something to propose."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from eval.grading import suite as suites
from telemetry.edge.repo import SUITES, here, working_in
from tests.conftest import REPOSITORY

PROMPT = "agents/prompts/echo.md"
SPOKEN = "Analysts saw calm trade in a quiet market today"  # in every case: a copy of it is a copy of a case
TEXT = """# Echo

Say when the change is large: from `above` on. Give the `signal` and a `rationale`.

## Rules
```rules
analyst: threshold
field: daily_change
above: 0.3          # as a fraction
up_signal: up
down_signal: down
```
"""
SCHEMA = {
    "type": "object",
    "required": ["series", "signal", "rationale"],
    "additionalProperties": False,
    "properties": {
        "series": {"type": "string"},
        "signal": {"type": "string", "enum": ["up", "down"]},
        "rationale": {"type": "string"},
    },
}


def make(root: Path, cases: int = 120) -> None:
    """Changes of 0 to 39 percent; from ten on they should be told, the prompt tells from thirty on."""
    manifest = {
        "domain": "agents.market",
        "protected_paths": ["tests/**", ".github/**"],
        "agents": [
            {
                "name": "echo",
                "module": "agents.prompted",
                "callable": "PromptedAgent.run",
                "inputs": "findings",
                "prompt": PROMPT,
                "output_schema": "agents/schemas/echo.json",
                "eval_suite": "eval/suites/echo.jsonl",
            }
        ],
    }
    put(root, "agents/manifest.yaml", json.dumps(manifest))
    put(root, "agents/schemas/echo.json", json.dumps(SCHEMA))
    put(root, PROMPT, TEXT)
    shutil.copy(REPOSITORY / "agents/prompts/propose.md", root / "agents/prompts/propose.md")
    with working_in(root):
        path = SUITES / "echo.jsonl"
        suites.write_suite(here(), path, (case(number) for number in range(cases)))
        suites.pin(here(), [path])


def case(number: int) -> dict[str, Any]:
    change = number % 40 / 100
    wanted = ["up"] if change >= 0.1 else []
    return {
        "id": f"echo-{number:04}",
        "input": {"series": [{"series": "VIX", "daily_change": change, "note": SPOKEN}]},
        "expect": [{"grader": "set_f1", "path": "*.signal", "values": wanted}],
        "tags": ["large" if wanted else "small"],
    }


def put(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def edit(search: str, replace: str) -> dict[str, str]:
    return {"search": search, "replace": replace}


def proposal(
    *edits: dict[str, str], text: str = "", reason: str = "lower it", answers: tuple[str, ...] = ()
) -> Any:
    """A model's answer with one proposal."""
    row = {"reason": reason, "answers": list(answers), "edits": list(edits), "text": text}
    return {"proposals": [row]}
