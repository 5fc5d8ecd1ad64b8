"""How does the offline model criticise? By rules: defects of items, kinds of cases that fail, telemetry, its own view.

Keys of the `rules` block beside those of `review` (agents/analysts.py), with their naive defaults:
  `min_failing` 1, `failing_share` 0   a kind of tune case is an issue from so many failures, and this share, on
  `failing_share_high` 1.1             ... of high severity from this share on
  `max_issues` 12
  `max_error_share` 1.1                runs that failed
  `low_reward` -1e9                    mean reward below this does not pay
  `alarm_score` 101                    a risk score from here on should show in the critic's own signals
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agents.offline import analysts
from agents.offline.analysts import review as analyst_review
from agents.offline.rules import Rules

Row = Mapping[str, Any]
Issue = dict[str, Any]
Advice = dict[str, Any]

SEVERITIES = ("high", "med", "low")
PRIORITY = {"high": "P1", "med": "P2", "low": "P2"}  # P0 is for what loses money or data now: not its to say
NEVER = 1e9


def answer(rules: Rules, payload: Row) -> dict[str, Any]:
    """The worst issues, and for each of them what to change."""
    found = [
        *_reviewed(rules, payload),
        *_failing_kinds(rules, payload),
        *_telemetry(rules, payload),
        *_own_view(rules, payload),
    ]
    found.sort(key=lambda pair: SEVERITIES.index(pair[0]["severity"]))
    chosen = found[: int(rules.number("max_issues", 12))]
    return {
        "issues": [issue for issue, _ in chosen],
        "recommendations": [_advice(issue, change) for issue, change in chosen if change],
    }


def _advice(issue: Issue, change: str) -> Advice:
    return {
        "change": change[:2000],
        "why": f"answers: {issue['title']}",
        "priority": PRIORITY[issue["severity"]],
    }


def _reviewed(rules: Rules, payload: Row) -> Iterator[tuple[Issue, str]]:
    """What the review of single items finds, one issue per kind of defect."""
    seen: set[str] = set()
    for finding in analyst_review.answer(rules, payload)["items"]:
        if finding["defect"] in seen:
            continue
        seen.add(finding["defect"])
        change = f"Rule out the defect {finding['defect']}" if finding["item"] is not None else ""
        yield {name: finding[name] for name in ("title", "evidence", "impact", "severity")}, change


def _failing_kinds(rules: Rules, payload: Row) -> Iterator[tuple[Issue, str]]:
    """Kinds of tune cases of which many fail."""
    tags = payload.get("tags") or {}
    for tag, counts in tags.items():
        failing, of = counts["failing"], counts["of"]
        share = failing / of if of else 0.0
        if failing < rules.number("min_failing", 1) or share < rules.number("failing_share", 0.0):
            continue
        example = next((case for case in payload.get("failing_cases") or () if tag in case["tags"]), None)
        if example is None:
            continue
        high = share >= rules.number("failing_share_high", 1.1)
        reason = str(example["reasons"][0]) if example["reasons"] else str(example["id"])
        issue = {
            "title": f"{tag} cases fail",
            "evidence": reason[:1000],
            "impact": f"{failing} of {of} tune cases of this kind are answered wrongly, such as {example['id']}",
            "severity": "high" if high else "med",
        }
        yield issue, f"Settle {tag} cases by a rule"


def _telemetry(rules: Rules, payload: Row) -> Iterator[tuple[Issue, str]]:
    figures = payload.get("telemetry") or {}
    errors, reward = figures.get("error_rate"), figures.get("avg_reward")
    if errors is not None and errors >= rules.number("max_error_share", 1.1):
        yield (
            _issue(
                "runs fail", _quote(figures, "error_rate"), "what these runs would have found is lost", "high"
            ),
            "",
        )
    if reward is not None and reward < rules.number("low_reward", -NEVER):
        yield (
            _issue(
                "the mean reward does not pay for a run",
                _quote(figures, "avg_reward"),
                "it costs more time and money than its signals are worth",
                "med",
            ),
            "",
        )


def _own_view(rules: Rules, payload: Row) -> Iterator[tuple[Issue, str]]:
    """Where critic and colleague tell different stories about the same day."""
    own = [row for row in payload.get("own_output") or () if isinstance(row, dict)]
    items = [row["item"] for row in payload.get("items") or () if isinstance(row.get("item"), dict)]
    alarm = rules.number("alarm_score", 101)
    quiet = [
        row for row in own if row.get("regime") in ("calm", "normal") and row.get("signal") != "risk_off"
    ]
    loud = [
        row for row in items if isinstance(row.get("risk_score"), int | float) and row["risk_score"] >= alarm
    ]
    if loud and quiet and len(quiet) == len(own):
        yield (
            _issue(
                "a high risk score on a day without stress in the markets",
                _quote(loud[0], "risk_score"),
                "readers are alarmed by news that the markets do not mind",
                "low",
            ),
            "",
        )
    threats = [
        row for row in own if isinstance(row.get("risk_score"), int | float) and row["risk_score"] >= alarm
    ]
    calm = [row for row in items if row.get("regime") == "calm"]
    if threats and calm:
        yield (
            _issue(
                "a calm regime on a day of grave news",
                _quote(calm[0], "regime"),
                "readers are lulled while the news says otherwise",
                "low",
            ),
            "",
        )


def _issue(title: str, evidence: str, impact: str, severity: str) -> Issue:
    return {"title": title, "evidence": evidence, "impact": impact, "severity": severity}


def _quote(row: Row, field: str) -> str:
    """The field as it stands in the input's JSON."""
    return f'"{field}": {json.dumps(row[field], ensure_ascii=False)}'


analysts.register("critique", answer)
