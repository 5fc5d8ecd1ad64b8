"""Reviews another agent's outputs: Python measures, the model names defects and quotes its evidence.

Per reviewed item the model gets, beside the item itself: `rationale_words`, `numbers_not_in_item` (numbers its
rationale cites that no field of the item holds), `age_days` (of the item's own date, if it has one). For the
agent as a whole: `ratios` of its telemetry to the baseline. Evidence that is not in the input word for word is
kept but ranked last, and counted on the run's row as `unquoted_evidence`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from agents.base import AnswerError, BaseAgent, Inputs, Item, items_of
from agents.model.schema import listed, record, text
from telemetry.edge.records import is_number

DEFECTS: Final = (
    "schema", "out_of_range", "contradiction", "unsupported", "duplicate", "stale", "missing_rationale",
    "cost_spike", "latency_spike", "error_rate",
)  # fmt: skip
SEVERITIES: Final = ("low", "med", "high")
DATES: Final = ("as_of", "date", "ts", "published")  # fields that say when an item is from
SAME_NUMBER = 0.02  # relative: a rationale may round, "about 4.1" for 4.13
BLINK_MS = 100.0  # latencies below this are alike: nobody waits, and the machine's own jitter doubles them
MAX_ITEMS = 50  # reviewed at once; an agent with more has another problem

_INDEX: Final = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "index of the item, null for the agent",
}
JUDGEMENT: Final = listed(
    record(
        defect=text(*DEFECTS),
        item=_INDEX,
        title=text(minLength=1, maxLength=200),
        evidence=text(minLength=1, maxLength=1000, description="quoted from the input"),
        impact=text(minLength=1, maxLength=500),
        severity=text(*SEVERITIES),
    )
)

# A number of its own: not part of a name or date ("10-year", "Q3", "2026-03-02")
_NUMBER = re.compile(r"(?<![\w.])(?<!\w-)[-+]?\d++(?:,\d{3})*+(?:\.\d++)?+(?![\w.]*[A-Za-z]|-\w)")


class Reviewer(BaseAgent):
    """Reviews an agent's outputs together with its telemetry."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """One item per defect, the worst first; unquoted evidence last."""
        given = payload(inputs)
        answer = await self.ask(given, JUDGEMENT)
        findings: list[Item] = answer["items"]
        for finding in findings:
            if finding["item"] is not None and finding["item"] >= len(given["items"]):
                raise AnswerError(f"the answer names item {finding['item']}, there are {len(given['items'])}")
        unquoted = [not quoted(finding["evidence"], inputs) for finding in findings]
        if any(unquoted):
            self.note(unquoted_evidence=sum(unquoted))
        ranked = sorted(
            zip(unquoted, findings, strict=True),
            key=lambda pair: (pair[0], -SEVERITIES.index(pair[1]["severity"])),
        )
        return [finding for _, finding in ranked]


def quoted(evidence: str, inputs: Inputs) -> bool:
    """Is this text really in the input, give or take white space?"""
    wanted = " ".join(evidence.split())
    return bool(wanted) and any(wanted in " ".join(text.split()) for text in _texts(inputs))


def payload(inputs: Inputs) -> dict[str, Any]:
    """What the model is asked about: items with their measured features, and telemetry against the baseline."""
    outputs = items_of(inputs, "outputs", "outputs inputs")
    telemetry, baseline = _numbers(inputs.get("telemetry")), _numbers(inputs.get("baseline"))
    items = [
        {"index": index, "item": item, **_features(item, inputs.get("as_of"))}
        for index, item in enumerate(outputs[:MAX_ITEMS])
    ]
    return {
        "agent": inputs.get("agent"),
        "as_of": inputs.get("as_of"),
        "items": items,
        "items_left_out": max(0, len(outputs) - MAX_ITEMS),
        "telemetry": telemetry,
        "baseline": baseline,
        "ratios": {
            "cost": _ratio(telemetry.get("avg_cost_usd"), baseline.get("avg_cost_usd")),
            "latency": _latency_ratio(telemetry.get("p95_latency_ms"), baseline.get("p95_latency_ms")),
        },
        "failing_cases": list(inputs.get("failing_cases") or ())[:20],
    }


def _features(item: object, as_of: object) -> dict[str, Any]:
    fields = item if isinstance(item, dict) else {}
    rationale = fields.get("rationale")
    text = rationale if isinstance(rationale, str) else ""
    dates = (_moment(fields.get(key)) for key in DATES if key in fields)
    then, now = next((date for date in dates if date), None), _moment(as_of)
    return {
        "rationale_words": len(text.split()),
        "numbers_not_in_item": sorted(_strange_numbers(text, fields)),
        "age_days": None if then is None or now is None else round((now - then).total_seconds() / 86_400, 2),
    }


def _strange_numbers(text: str, fields: Mapping[str, Any]) -> Iterator[str]:
    """Numbers cited in the rationale that no field holds, neither as they are nor as a percentage."""
    elsewhere = " ".join(
        str(value) for key, value in fields.items() if key != "rationale" and isinstance(value, str)
    )
    held = [abs(float(value)) for value in fields.values() if is_number(value)]
    held += [abs(float(number.replace(",", ""))) for number in _NUMBER.findall(elsewhere)]
    for cited in set(_NUMBER.findall(text)):
        number = abs(float(cited.replace(",", "")))
        decimals = len(cited.partition(".")[2])
        rounding = 0.5 * 10**-decimals + SAME_NUMBER * number
        if not any(abs(value * scale - number) <= rounding for value in held for scale in (1, 100)):
            yield cited


def _texts(value: object) -> Iterator[str]:
    """The input as JSON, and every string in it as it is."""
    yield json.dumps(value, ensure_ascii=False, default=str)
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            stack.extend(part.values())
        elif isinstance(part, list | tuple):
            stack.extend(part)


def _moment(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value)).replace(tzinfo=None)
    except ValueError:
        return None


def _numbers(value: object) -> dict[str, float]:
    given = value.items() if isinstance(value, Mapping) else ()
    return {key: number for key, number in given if is_number(number)}


def _latency_ratio(now: float | None, before: float | None) -> float | None:
    """How many times slower, a blink counting as the least that can be told apart."""
    return None if now is None or before is None else _ratio(max(now, BLINK_MS), max(before, BLINK_MS))


def _ratio(now: float | None, before: float | None) -> float | None:
    return None if now is None or not before or before < 0 else round(now / before, 4)
