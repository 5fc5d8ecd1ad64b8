"""How the offline model criticises: defects of items, kinds of cases that fail, telemetry, its own view."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agents.offline.review import review
from agents.offline.rules import Rules

Row = Mapping[str, Any]
Issue = dict[str, Any]
Found = Iterator[tuple[Issue, str]]  # with what to change, if anything

SEVERITIES = ("high", "med", "low")
PRIORITY = {"high": "P1", "med": "P2", "low": "P2"}  # P0 is for what loses money or data now: not its to say


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """The worst issues, and for each of them what to change."""
    parts = (_reviewed, _failing_kinds, _telemetry, _own_view)
    found = [pair for part in parts for pair in part(rules, payload)]
    found.sort(key=lambda pair: SEVERITIES.index(pair[0]["severity"]))
    chosen = found[: int(rules.number("max_issues"))]
    return {
        "issues": [issue for issue, _ in chosen],
        "recommendations": [
            {
                "change": change[:2000],
                "why": f"answers: {one['title']}",
                "priority": PRIORITY[one["severity"]],
            }
            for one, change in chosen
            if change
        ],
    }


def _issue(title: str, evidence: str, impact: str, severity: str) -> Issue:
    return {"title": title, "evidence": evidence, "impact": impact, "severity": severity}


def _reviewed(rules: Rules, payload: Row) -> Found:
    """What the review of single items finds, one issue per kind of defect."""
    first: dict[str, Row] = {}
    for finding in review(rules, payload)["items"]:
        first.setdefault(finding["defect"], finding)
    for defect, finding in first.items():
        change = f"Rule out the defect {defect}" if finding["item"] is not None else ""
        yield _issue(*(finding[name] for name in ("title", "evidence", "impact", "severity"))), change


def _failing_kinds(rules: Rules, payload: Row) -> Found:
    """Kinds of tune cases of which many fail."""
    for tag, counts in (payload.get("tags") or {}).items():
        failing, of = counts["failing"], counts["of"]
        share = failing / of if of else 0.0
        if failing < rules.number("min_failing") or share < rules.number("failing_share"):
            continue
        example = next((case for case in payload.get("failing_cases") or () if tag in case["tags"]), None)
        if example is None:
            continue
        reason = str(example["reasons"][0]) if example["reasons"] else str(example["id"])
        impact = f"{failing} of {of} tune cases are answered wrongly, such as {example['id']}"
        severity = "high" if share >= rules.number("failing_share_high") else "med"
        yield _issue(f"{tag} cases fail", reason[:1000], impact, severity), _advice(tag, reason)


def _advice(tag: str, reason: str) -> str:
    """What the prompt should say, by what went wrong; short, so that two pieces of advice are not taken for one."""
    if "false alarm" in reason:
        return f"Stay silent on {tag} cases"
    if "missed" in reason:
        return f"Report {tag} cases: name their signs"
    wanted = re.search(r'expected ("[^"]{1,60}"|[-\d.]{1,20})', reason)
    return f"Answer {tag} cases with {wanted[1]}" if wanted else f"Give {tag} cases a rule"


def _telemetry(rules: Rules, payload: Row) -> Found:
    figures = payload.get("telemetry") or {}
    errors, reward = figures.get("error_rate"), figures.get("avg_reward")
    if errors is not None and errors >= rules.number("max_error_share"):
        lost = "what these runs would have found is lost"
        yield _issue("runs fail", _quote(figures, "error_rate"), lost, "high"), ""
    if reward is not None and reward < rules.number("low_reward"):
        title = "the mean reward does not pay for a run"
        impact = "it costs more time and money than its signals are worth"
        yield _issue(title, _quote(figures, "avg_reward"), impact, "med"), ""


def _own_view(rules: Rules, payload: Row) -> Found:
    """Where critic and colleague tell different stories about the same day."""
    own = [row for row in payload.get("own_output") or () if isinstance(row, dict)]
    items = [row["item"] for row in payload.get("items") or () if isinstance(row.get("item"), dict)]
    if (loud := _loud(rules, items)) and own and _quiet(rules, own) == own:
        field = rules.word("alarm_field")
        title = f"a high {field.replace('_', ' ')} on a day that the critic calls quiet"
        said = _quote(loud[0], field)
        yield _issue(title, said, "readers are alarmed by what others do not mind", "low"), ""
    if _loud(rules, own) and (quiet := _quiet(rules, items)):
        said = _quote(quiet[0], _quiet_field(rules, quiet[0]))
        title = "a quiet note on a day that alarms the critic"
        yield _issue(title, said, "readers are lulled while others say otherwise", "low"), ""


def _loud(rules: Rules, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    alarm, field = rules.number("alarm_score"), rules.word("alarm_field")
    return [row for row in rows if isinstance(row.get(field), int | float) and row[field] >= alarm]


def _quiet(rules: Rules, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    loud = rules.terms("loud_values")
    quiet = [row for row in rows if _quiet_field(rules, row)]
    return [row for row in quiet if not any(value in loud for value in row.values())]


def _quiet_field(rules: Rules, row: Row) -> str:
    """The field that says so; empty if none does."""
    quiet = rules.terms("quiet_values")
    return next((field for field, value in row.items() if value in quiet), "")


def _quote(row: Row, field: str) -> str:
    """The field as it stands in the input's JSON."""
    return f'"{field}": {json.dumps(row[field], ensure_ascii=False)}'
