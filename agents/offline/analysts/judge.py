"""Compares two answers by what of the rubric they speak of, whichever is shown first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agents.offline.rules import Rules

_WORD = re.compile(r"\w{4,}")  # shorter ones carry no meaning of their own


def answer(rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The answer that holds more words of the rubric is the better one; as many are a tie."""
    asked = set(_WORD.findall(str(payload.get("rubric", "")).lower()))
    held = [asked.intersection(_words(payload, name)) for name in ("answer_1", "answer_2")]
    first, second = map(len, held)
    verdict = "tie" if first == second else "1" if first > second else "2"
    shown = ", ".join(sorted(held[0] ^ held[1])) or "none"
    return {"verdict": verdict, "reason": f"of the rubric's words only one answer holds: {shown}"}


def _words(payload: Mapping[str, Any], name: str) -> list[str]:
    return _WORD.findall(str(payload.get(name, "")).lower())
