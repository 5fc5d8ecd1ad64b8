"""Support tickets, about nothing that the engine knows: an agent that names the team, by terms or by nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.base import BaseAgent, Inputs, Item
from agents.model.schema import listed
from tests.worlds import world

PROMPT = "agents/prompts/tickets.md"
SPEECHLESS = "# Tickets\n\nName the `team` that a ticket belongs to: billing, account or other.\n"
BY_TERMS = f"""{SPEECHLESS}
```rules
analyst: classify
label_field: team
label_terms: {{invoice: billing}}
default_label: other
```
"""
TEAMS = ["billing", "account", "other"]
SCHEMA = {"type": "object", "required": ["team"], "properties": {"team": {"type": "string", "enum": TEAMS}}}
SAID = {
    "billing": ("the invoice is wrong", "send the refund today", "the refund is missing"),
    "account": ("my password is refused", "please reset my password", "a new password for my colleague"),
    "other": ("what a lovely shop", "when do you open", "where is the parking"),
}
WHERE = (
    "at work",
    "at home",
    "in the office",
    "on the train",
    "since Monday",
    "since May",
    "again",
    "once more",
)


class Coded(BaseAgent):
    """Asks for itself."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        items: list[Item] = (await self.ask({"ticket": inputs}, listed(SCHEMA)))["items"]
        return items


def make(root: Path, prompt: str = BY_TERMS, **top: Any) -> None:
    """Every team says three things in eight ways; each way is a family of its own."""
    world.manifest(root, [world.prompted("tickets", inputs="outputs")], **top)
    world.put(root, PROMPT, prompt)
    world.put(root, "agents/prompts/propose.md", (world.TREE / "agents/prompts/propose.md").read_text())
    world.put(root, "agents/schemas/tickets.json", SCHEMA)
    world.suite(root, "tickets", cases())


def cases() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{team}-{said}-{where}",
            "input": {"text": f"Hello, {text} {WHERE[where]}"},
            "expect": [{"grader": "exact", "path": "0.team", "value": team}],
        }
        for team, texts in SAID.items()
        for said, text in enumerate(texts)
        for where in range(len(WHERE))
    ]
