"""A small checkout whose one agent has a threshold that is plainly too high: there is something to propose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.worlds import world
from tests.worlds.world import put

PROMPT = "agents/prompts/echo.md"
SPOKEN = "Analysts saw calm trade in a quiet town today"  # in every case: a copy of it is a copy of a case
TEXT = """# Echo

Say when the change is large: from `above` on. Give the `signal` and a `rationale`.

## Rules
```rules
analyst: threshold
list: series
id_field: series
field: daily_change
above: 0.3          # as a fraction
up_signal: up
down_signal: down
```
"""
PLUMBING = "analyst: threshold\nlist: series\nid_field: series\n"
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


def make(root: Path, cases: int = 120, names: Sequence[str] = ("echo",)) -> None:
    """Changes of 0 to 39 percent; from ten on they should be told, the prompt tells from thirty on."""
    agents = [world.prompted(name) for name in names]
    world.manifest(root, agents, protected_paths=["tests/**", ".github/**"])
    put(root, "agents/prompts/propose.md", (world.TREE / "agents/prompts/propose.md").read_text())
    for name in names:
        put(root, f"agents/schemas/{name}.json", SCHEMA)
        put(root, f"agents/prompts/{name}.md", TEXT)
        world.suite(root, name, [case(number, name) for number in range(cases)])


def case(number: int, name: str = "echo") -> dict[str, Any]:
    change = number % 40 / 100
    wanted = ["up"] if change >= 0.1 else []
    return {
        "id": f"{name}-{number:04}",
        "input": {"series": [{"series": "VIX", "daily_change": change, "note": SPOKEN}]},
        "expect": [{"grader": "set_f1", "path": "*.signal", "values": wanted}],
        "tags": ["large" if wanted else "small"],
    }


def edit(search: str, replace: str) -> dict[str, str]:
    return {"search": search, "replace": replace}


def proposal(
    *edits: dict[str, str], text: str = "", reason: str = "lower it", answers: tuple[str, ...] = ()
) -> Any:
    """A model's answer with one proposal."""
    row = {"reason": reason, "answers": list(answers), "edits": list(edits), "text": text}
    return {"proposals": [row]}


def as_offline(system: str) -> str:
    """A prompt as an endpoint is sent it, with the lines again that only the offline model needs."""
    return system.replace("```rules\n", f"```rules\n{PLUMBING}")
