"""What stands on the pages of agents and of their cases: worth, scores by prompt version, each case with its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from meta.site import draw
from meta.site.facts import Facts
from meta.site.recorded import Score, interval_of
from meta.worth.record import Agent
from telemetry.edge.text import clean, cut, redact

MAX_CASES = 150  # on one page; the rest on further ones
MAX_TEXT = 4_000  # characters of an answer in full
MAX_INPUT = 2_000  # of what a case asks
MOST_FAILING = 12  # cases on the page of an agent

Page = tuple[str, str, dict[str, Any]]  # path below the site, template, what it shows


def worth_map(facts: Facts) -> Markup:
    """Field reward against cost per run, the best at any cost joined."""
    known = [
        (row, row.measured.total_cost_usd / row.measured.runs)
        for row in facts.agents
        if row.measured
        and row.measured.runs
        and row.measured.total_cost_usd is not None
        and row.rolling_avg_reward is not None
    ]
    points, best = [], float("-inf")
    for row, cost in sorted(known, key=lambda one: (one[1], -(one[0].rolling_avg_reward or 0))):
        reward = row.rolling_avg_reward or 0.0
        front = reward > best
        best = max(best, reward)
        told = f"reward {reward:+.3f}, ${cost:.4f} a run"
        points.append(draw.Point(cost, reward, row.agent, told, "front" if front else ""))
    about = "; ".join(f"{point.label}: {point.note}" for point in points[:20])
    return draw.scatter("Field reward against cost", about, points, across="USD a run, from", up="reward")


def agent_row(facts: Facts, row: Agent, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One row of the table of agents."""
    summary = (results.get(row.agent) or {}).get("summary") or {}
    spans = Markup("")
    if summary.get("counted"):
        low, high = interval_of(summary["passed"], summary["counted"])
        rate = summary["passed"] / summary["counted"]
        told = f"{rate:.0%} passed, 95 % interval {low:.0%} to {high:.0%}"
        if (empty := summary.get("empty_rate")) is not None:
            told += f"; an empty answer passes {empty:.0%}"
        spans = draw.span(told, low, rate, high, empty)
    curve = draw.spark(
        f"Reward of {row.agent}, oldest first", row.trend[-20:], facts.manifest.retirement.reward_floor
    )
    return {"row": row, "summary": summary, "span": spans, "spark": curve, "known": row.agent in results}


def agent_page(facts: Facts, row: Agent, result: Mapping[str, Any]) -> dict[str, Any]:
    spec = facts.manifest.agent(row.agent)
    scores = facts.scores.get(row.agent, [])
    output, as_of = facts.output(row.agent)
    failing = [
        (case_path(row.agent, place // MAX_CASES + 1), str(one.get("id")), _why(one))
        for place, one in enumerate(_cases(result))
        if one.get("ok") is False
    ]
    return {
        **agent_row(facts, row, {row.agent: result}),
        "spec": spec,
        "result": result,
        "failing": failing[:MOST_FAILING],
        "failing_total": len(failing),
        "scores": _score_chart(row.agent, scores) if len(scores) > 1 else "",
        "versions": _versions(facts, spec.prompt, scores),
        "critiques": [one for one in facts.findings if one.target_agent == row.agent],
        "output": None if output is None else pretty(output),
        "as_of": as_of,
    }


def _score_chart(agent: str, scores: Sequence[Score]) -> Markup:
    points, before = [], None
    for place, score in enumerate(scores):
        note = "new prompt" if before and score.prompt and score.prompt != before else ""
        before = score.prompt or before
        points.append(draw.Point(place, score.rate, score.date, note))
    about = ", ".join(f"{score.date} {score.rate:.0%}" for score in scores[-12:])
    low = min((score.rate for score in scores), default=0.0)
    return draw.line(f"Cases that {agent} passed", about, points, low=max(0.0, low - 0.1), high=1.0)


def _versions(facts: Facts, prompt: str | None, scores: Sequence[Score]) -> list[tuple[str, str, str, Score]]:
    """(text, first night, last night, last score) by prompt version, the newest first."""
    named = facts.texts(prompt).by_hash if prompt else {}
    by_text: dict[str, list[Score]] = {}
    for score in scores:
        if score.prompt:
            by_text.setdefault(score.prompt, []).append(score)
    rows = [
        (named.get(text, (text[:7], ""))[0], own[0].date, own[-1].date, own[-1])
        for text, own in by_text.items()
    ]
    return sorted(rows, key=lambda row: row[2], reverse=True)


def case_pages(facts: Facts, agent: str, result: Mapping[str, Any]) -> Iterator[Page]:
    rows = _cases(result)
    parts = [rows[at : at + MAX_CASES] for at in range(0, len(rows), MAX_CASES)] or [[]]
    for number, part in enumerate(parts, 1):
        yield (
            case_path(agent, number),
            "suite.html",
            {
                "agent": agent,
                "number": number,
                "numbers": range(1, len(parts) + 1),
                "cases": [_case(facts, agent, one) for one in part],
            },
        )


def _cases(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The graded cases of a result, in the order of its pages."""
    return [one for one in result.get("results") or () if isinstance(one, dict)]


def _why(case: Mapping[str, Any]) -> str:
    """What went wrong in a case, in a line."""
    reasons = case.get("reasons") or ()
    return str(reasons[0] if reasons else case.get("error") or "")


def case_path(agent: str, number: int = 1) -> str:
    """Where a part of a suite stands."""
    return f"cases/{agent}.html" if number == 1 else f"cases/{agent}-{number}.html"


def _case(facts: Facts, agent: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """One case with its newest answer and its recent record."""
    tried = facts.tried.get((agent, str(row.get("id"))), ())
    answer = row.get("output") if row.get("output_kept") else row.get("output_preview")
    return {
        "id": str(row.get("id")),
        "split": row.get("split"),
        "family": row.get("family"),
        "tags": row.get("tags") or (),
        "ok": row.get("ok"),
        "score": row.get("score"),
        "reasons": row.get("reasons") or (),
        "error": row.get("error"),
        "asked": None
        if (asked := facts.asked(agent, str(row.get("id")))) is None
        else pretty(asked, MAX_INPUT),
        "answer": None if facts.redacted else pretty(answer),
        "tried": tried,
        "flaky": any(one.flaky for one in tried),
    }


def pretty(value: Any, most: int = MAX_TEXT) -> str:
    """An answer in full, readable; cut where it is endless."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    shown, lost = cut(clean(redact(text)), most)
    return shown + ("\n… cut here" if lost else "")
