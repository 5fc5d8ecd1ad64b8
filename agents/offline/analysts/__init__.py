"""The tasks that the offline model knows in any domain: reviewing, triage, judging, and a plain threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agents.offline.analysts import judge, review, threshold, triage
from agents.offline.rules import Analyst

GENERIC: Final[Mapping[str, Analyst]] = {
    "review": Analyst(review.answer, review.KEYS, tasks=("reviewer",), subject=("items", "index", "item")),
    "triage": Analyst(triage.answer, triage.KEYS, tasks=("meta_agent",), payload="findings"),
    "judge": Analyst(judge.answer),
    "threshold": Analyst(threshold.answer, threshold.KEYS),
}
