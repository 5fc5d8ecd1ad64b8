"""Agents that misbehave in every way an agent can, for the orchestrator's tests."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from typing import Any

Inputs = Mapping[str, Any]


def good(inputs: Inputs) -> list[dict[str, Any]]:
    return [{"signal": "rising", "daily_change": 0.05, "as_of": inputs["as_of"]}]


def vandal(inputs: Inputs) -> list[dict[str, Any]]:
    """Changes what it was given; nobody else may notice."""
    assert isinstance(inputs, dict)
    inputs["gauges"].clear()
    inputs["as_of"] = "1999-01-01"
    return []


def hung(inputs: Inputs) -> list[dict[str, Any]]:
    time.sleep(60)
    return []


async def dozing(inputs: Inputs) -> list[dict[str, Any]]:
    await asyncio.sleep(60)
    return []


def crashing(inputs: Inputs) -> list[dict[str, Any]]:
    raise ZeroDivisionError("no items to average")


def quitting(inputs: Inputs) -> list[dict[str, Any]]:
    sys.exit("I have had enough")


def garbage(inputs: Inputs) -> Any:
    return {"not": "a list"}


def unserialisable(inputs: Inputs) -> Any:
    return [{"when": object()}]


def reviewing(inputs: Inputs) -> list[dict[str, Any]]:
    evidence = f"{len(inputs['outputs'])} items, error rate {inputs['telemetry'].get('error_rate')}"
    return [
        {
            "title": f"look at {inputs['agent']}",
            "evidence": evidence,
            "impact": "change it",
            "severity": "low",
        }
    ]


def proposing(inputs: Inputs) -> list[dict[str, Any]]:
    return [
        {"finding_id": f["id"], "target": f["target_agent"], "change": f["title"]} for f in inputs["findings"]
    ]


def seeing(inputs: Inputs) -> list[dict[str, Any]]:
    """Says what it was shown: how a test learns what an agent could have known."""
    latest = max(point["date"] for gauge in inputs["gauges"] for point in gauge["history"])
    return [{"signal": "seen", "as_of": inputs["as_of"], "latest": latest}]


def asking(inputs: Inputs) -> list[dict[str, Any]]:
    """A plain function that asks the model twice."""
    from agents.llm_client import call_llm

    question = [{"role": "user", "content": "How is Elm?"}]
    return [call_llm(question), call_llm(question)]


def immeasurable(inputs: Inputs) -> list[dict[str, Any]]:
    return [{"signal": "rising", "daily_change": float("nan")}]
