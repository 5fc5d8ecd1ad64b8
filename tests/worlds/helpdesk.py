"""A checkout of a trade of its own: support tickets in a CSV, plain functions that label them, an own grader.

No domain package and no model: `triage` labels by the words in its prompt and tells urgency as its signal, `steady`
passes every case and describes no signal, `mute` says nothing.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from agents.texts.variants import Variants
from telemetry.edge.files import Repo
from tests.conftest import REPOSITORY
from tests.worlds import world

PROMPT = "agents/prompts/triage.md"
TEXT = """# Triage

Label each ticket by the words in it.

billing: refund, invoice
"""
BETTER = TEXT + "outage: down, unreachable\naccess: password\n"

CODE = """
KNOWN = {"billing": ["refund", "invoice"], "outage": ["down", "unreachable"], "access": ["password"]}

def _label(text, known):
    return next((label for label, words in known.items() if any(word in text for word in words)), "other")

def _labelled(inputs, known):
    return [{"id": t["id"], "label": _label(t["text"], known), "urgency": t["urgency"]} for t in inputs["items"]]

def triage(inputs, prompt):
    lines = (line.split(": ") for line in prompt.splitlines() if ": " in line)
    return _labelled(inputs, {label: words.split(", ") for label, words in lines})

def steady(inputs):
    return [{"id": item["id"], "label": item["label"]} for item in _labelled(inputs, KNOWN)]

def mute(inputs):
    return []
"""
GRADING = """
def labelled(found, wanted):
    return float(found.get("label") == wanted["label"]), str(found.get("label"))
"""
TEXTS = {
    "billing": ("I want a refund", "the invoice is wrong"),
    "outage": ("the page is down", "your host is unreachable"),
    "access": ("I forgot my password",),
    "other": ("thank you", "where is the manual"),
}
CASES, DAYS = 150, 120


def tickets(count: int) -> list[dict[str, Any]]:
    """So many tickets, two a day, of every kind in turn."""
    kinds = [(label, text) for label, texts in TEXTS.items() for text in texts]
    found = []
    for number in range(count):
        label, text = kinds[number % len(kinds)]
        day = date(2026, 3, 1) + timedelta(days=number // 2)
        ticket = {"id": f"T-{number:03}", "created_at": f"{day}T09:00:00+01:00", "urgency": 1 + number % 5}
        found.append({**ticket, "text": f"{text}, case {number}", "label": label})
    return found


def make(root: Path) -> Path:
    """Everything committed, and a better challenger beside triage's prompt."""
    columns = ("id", "created_at", "urgency", "text")
    rows = [",".join(f'"{ticket[name]}"' for name in columns) for ticket in tickets(2 * DAYS)]
    world.put(root, "data/tickets.csv", "\n".join([",".join(columns), *rows]) + "\n")
    world.put(root, "helpdesk/__init__.py", "")
    world.put(root, "helpdesk/desk.py", CODE)
    world.put(root, "helpdesk/grading.py", GRADING)
    world.put(root, ".gitignore", (REPOSITORY / ".gitignore").read_bytes())
    for path in ("agents/prompts/critique.md", "agents/prompts/propose.md"):
        world.put(root, path, (world.TREE / path).read_bytes())
    world.put(root, PROMPT, TEXT)
    world.put(root, "eval/suites/tickets.jsonl", "")
    world.manifest(root, map(entry, ("triage", "steady", "mute")))
    Variants(Repo(root), PROMPT).ensure()
    Variants(Repo(root), PROMPT).add(BETTER, source="hand", author="a person", name="B")
    return root


def entry(name: str) -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {
        "triage": {"prompt": PROMPT, "signal": {"field": "urgency", "full": 5, "subject": "label"}},
        "mute": {"signal": {"field": "urgency", "full": 5}},
    }
    types = {"id": "string", "urgency": "integer", "text": "string"}
    return {
        "name": name,
        "module": "helpdesk.desk",
        "callable": name,
        "inputs": {"file": "data/tickets.csv", "by_day": "created_at", "fields": types},
        "eval_suite": "eval/suites/tickets.jsonl",
    } | own.get(name, {})


def cases() -> list[dict[str, Any]]:
    """150 labelled tickets; a family is one ticket."""
    return [
        {
            "id": f"ticket-{number:03}",
            "input": {"items": [{name: ticket[name] for name in ("id", "urgency", "text")}]},
            "expect": [{"grader": "helpdesk.grading:labelled", "path": "0", "label": ticket["label"]}],
        }
        for number, ticket in enumerate(tickets(CASES))
    ]
