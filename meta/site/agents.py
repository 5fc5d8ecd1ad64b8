"""What stands on the pages of agents and of their cases: worth, scores by prompt version, each case with its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from agents.manifest import AgentSpec
from meta.site import draw
from meta.site.facts import Facts
from meta.site.recorded import Score, Tried, interval_of
from meta.worth.record import Agent
from telemetry.edge.frozen import frozen
from telemetry.edge.text import clean, cut, redact

MAX_CASES = 150  # on one page; the rest on further ones
MAX_TEXT = 4_000  # characters of an answer in full
MAX_INPUT = 2_000  # of what a case asks
MOST_FAILING = 12  # cases on the page of an agent

# Its path below the site, its template, and what works out what it shows.
Page = tuple[str, str, Callable[[], dict[str, Any]]]
Results = Mapping[str, Mapping[str, Any]]  # by agent


@frozen
class Case:
    """One case with its newest answer and its recent record."""

    id: str
    split: str | None
    family: str | None
    tags: Sequence[str]
    ok: bool | None
    score: float | None
    reasons: Sequence[str]
    error: str | None
    asked: str | None
    answer: str | None
    tried: Sequence[Tried]

    @property
    def flaky(self) -> bool:
        return any(one.flaky for one in self.tried)


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


def agent_row(facts: Facts, row: Agent, results: Results) -> dict[str, Any]:
    """One row of the table of agents."""
    found = results.get(row.agent, {}).get("summary", {})
    summary = found if "passed" in found else {}
    spans = Markup("")
    if summary.get("counted"):
        low, high = interval_of(summary["passed"], summary["counted"])
        rate = summary["passed"] / summary["counted"]
        told = f"{rate:.0%}, 95 % interval {low:.0%} to {high:.0%}"
        if (empty := summary.get("empty_rate")) is not None:
            told += f", an empty answer {empty:.0%}"
        spans = draw.span(told, low, rate, high, empty)
    curve = draw.spark("Reward, oldest first", row.trend[-20:], facts.manifest.retirement.reward_floor)
    return {"row": row, "summary": summary, "span": spans, "spark": curve, "known": row.agent in results}


def agent_page(
    facts: Facts, spec: AgentSpec, shown: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    """The page of one agent, which says again what stands in its row of the table."""
    scores = facts.scores.get(spec.name, [])
    output, as_of = facts.output(spec.name)
    failing = [
        (case_path(spec.name, place // MAX_CASES + 1), str(one.get("id")), _why(one))
        for place, one in enumerate(_cases(result))
        if one.get("ok") is False
    ]
    return {
        **shown,
        "spec": spec,
        "result": result,
        "failing": failing[:MOST_FAILING],
        "failing_total": len(failing),
        "scores": _score_chart(spec.name, scores) if len(scores) > 1 else "",
        "versions": _versions(facts, spec.prompt, scores),
        "critiques": [one for one in facts.findings if one.target_agent == spec.name],
        "output": None if output is None else pretty(output),
        "as_of": as_of,
    }


def _score_chart(agent: str, scores: Sequence[Score]) -> Markup:
    changed = {
        place
        for place, (before, score) in enumerate(pairwise(scores), 1)
        if before.prompt and score.prompt and score.prompt != before.prompt
    }
    points = [
        draw.Point(place, score.rate, score.date, "new prompt" if place in changed else "")
        for place, score in draw.thinned(list(enumerate(scores)), lambda one: one[0] in changed)
    ]
    about = ", ".join(f"{score.date} {score.rate:.0%}" for score in scores[-12:])
    low = min(point.y for point in points)
    return draw.line(f"Cases that {agent} passed", about, points, low=max(0.0, low - 0.1), high=1.0)


def _versions(facts: Facts, prompt: str | None, scores: Sequence[Score]) -> list[tuple[str, str, str, Score]]:
    """(text, first night, last night, last score) by prompt version, the newest first."""
    named = facts.texts[prompt].by_hash if prompt else {}
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
    numbers = range(1, len(parts) + 1)
    for number, part in zip(numbers, parts, strict=True):
        yield case_path(agent, number), "suite.html", partial(_case_page, facts, agent, number, numbers, part)


def _case_page(
    facts: Facts, agent: str, number: int, numbers: Sequence[int], part: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    cases = [_case(facts, agent, one) for one in part]
    return {"agent": agent, "number": number, "numbers": numbers, "cases": cases}


def _cases(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The graded cases of a result, in the order of its pages: who looks for what failed finds it on the first."""
    found = [one for one in result.get("results") or () if isinstance(one, dict)]
    return sorted(found, key=lambda one: one.get("ok") is not False)


def _why(case: Mapping[str, Any]) -> str:
    """What went wrong in a case, in a line."""
    reasons = case.get("reasons") or ()
    return str(reasons[0] if reasons else case.get("error") or "")


def case_path(agent: str, number: int = 1) -> str:
    """Where a part of a suite stands."""
    return f"cases/{agent}.html" if number == 1 else f"cases/{agent}-{number}.html"


def _case(facts: Facts, agent: str, row: Mapping[str, Any]) -> Case:
    name, asked = str(row.get("id")), facts.asked(agent, str(row.get("id")))
    answer = row.get("output") if row.get("output_kept") else row.get("output_preview")
    return Case(
        name,
        row.get("split"),
        row.get("family"),
        row.get("tags") or (),
        row.get("ok"),
        row.get("score"),
        row.get("reasons") or (),
        row.get("error"),
        None if asked is None else pretty(asked, MAX_INPUT),
        None if facts.redacted else pretty(answer),
        facts.tried.get((agent, name), ()),
    )


def pretty(value: Any, most: int = MAX_TEXT) -> str:
    """An answer in full, readable; cut where it is endless."""
    text = value if isinstance(value, str) else _indented(value)
    shown, lost = cut(clean(redact(text)), most)
    return shown + ("\n… cut here" if lost else "")


def _indented(value: Any) -> str:
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
    except orjson.JSONEncodeError:  # an endless number, half a character: json writes those too
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
