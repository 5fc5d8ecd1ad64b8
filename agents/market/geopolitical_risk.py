"""Finds the headlines that carry geopolitical risk, where and how much: the model judges, Python checks and joins.

A headline is untrusted text. One that talks to the model ("ignore previous instructions ...") is still only a
headline: the answer keeps its schema, and the run's row says `injection_suspected` with the headline ids.
"""

from __future__ import annotations

import re
from typing import Any, Final

from agents.base import BaseAgent, InputError, Inputs, Item, items_of, joined
from agents.model.schema import listed, record, text

REGIONS: Final = ("middle_east", "europe", "asia_pacific", "americas", "africa", "global", "none")
CATEGORIES: Final = ("conflict", "sanctions", "coup", "terror", "cyber", "trade", "diplomacy", "other")
MAX_TEXT = 600  # characters of a headline that reach the model; a longer one is not a headline

JUDGEMENT: Final = listed(
    record(
        headline_id=text(description="the id of one of the given headlines"),
        region=text(*REGIONS),
        risk_score={"type": "number", "minimum": 0, "maximum": 100},
        category=text(*CATEGORIES),
        rationale=text(minLength=1, maxLength=1000),
    )
)

_INJECTION = re.compile(
    r"(?ix) \b(ignore|disregard|forget|override)\b .{0,40} \b(instruction|prompt|rule|guideline|schema)s?\b"
    r" | \b(you\ are\ now|system\ prompt|developer\ message|as\ an\ ai|respond\ only\ with|output\ only)\b"
    r" | \b(return|respond\ with|answer\ with|output|print)\b .{0,20} [\{\[]"
    r" | <\s*/?\s*(system|assistant|user)\s*> | ^\s*(system|assistant)\s*:"
)


class GeopoliticalRisk(BaseAgent):
    """Scores headlines by region, kind and risk."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """One item per headline that carries risk, the riskiest first."""
        headlines = _headlines(inputs)
        suspects = [line["id"] for line in headlines if injection_suspected(line["text"])]
        if suspects:
            self.note(injection_suspected=True, injection_ids=suspects[:20])
        if not headlines:
            return []
        answer = await self.ask({"as_of": inputs.get("as_of"), "headlines": headlines}, JUDGEMENT)
        texts = {line["id"]: line["text"] for line in headlines}
        risks = [_risk(item, text, suspects) for item, text in joined(answer, "headline_id", texts)]
        return sorted(risks, key=lambda item: -float(item["risk_score"]))


def injection_suspected(text: str) -> bool:
    """Does this text try to instruct the model that reads it?"""
    return _INJECTION.search(text) is not None


def _risk(item: Item, text: str, suspects: list[str]) -> Item:
    risk = {name: item[name] for name in ("headline_id", "region", "risk_score")} | {"headline": text}
    risk |= {name: item[name] for name in ("category", "rationale")}
    return risk | ({"injection_suspected": True} if item["headline_id"] in suspects else {})


def _headlines(inputs: Inputs) -> list[dict[str, Any]]:
    """The headlines with an id and a text, each cut to a headline's length."""
    found = []
    for index, line in enumerate(items_of(inputs, "headlines", "headlines inputs")):
        if not isinstance(line, dict) or not isinstance(line.get("text"), str) or not line.get("id"):
            raise InputError(f"headlines inputs: headlines.{index}: needs an id and a text")
        about = {"id": str(line["id"]), "published": line.get("published"), "source": line.get("source")}
        found.append(about | {"text": " ".join(line["text"].split())[:MAX_TEXT]})
    return found
