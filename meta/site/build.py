"""Turns facts into pages: Jinja templates with autoescape, one stylesheet, one script, nothing from elsewhere."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from eval.ab.sequential import LOWER_SHARE
from meta.site import draw
from meta.site.facts import Comparison, Facts, Score, Texts, interval_of, kinds_that_fail
from meta.site.pictures import chart, promotions
from telemetry.edge.files import MANIFEST
from telemetry.edge.text import clean, cut, redact

if TYPE_CHECKING:
    from jinja2 import Environment

    from meta.worth.record import Agent

HERE = Path(__file__).parent
ASSETS = ("site.css", "site.js")
UNKNOWN = "–"
MAX_CASES = 150  # on one page; the rest on further ones
MAX_TEXT = 4_000  # characters of an answer in full
MAX_INPUT = 2_000  # of what a case asks
MOST_AGENTS = 8  # on the overview
MOST_FAILING = 12  # cases on the page of an agent
MAX_TESTS = 300  # comparisons with a page of their own
NEED_YOU = ("candidate", "loud", "revival")

Page = tuple[str, str, dict[str, Any]]  # path below the site, template, what it shows


def build(facts: Facts, out: Path) -> list[Path]:
    """Write the whole site; pages that are no longer there go. Returns what was written."""
    environment = _environment(facts)
    written = []
    for path, template, shown in pages(facts):
        depth = path.count("/")
        text = environment.get_template(template).render(shown, path=path, up="../" * depth)
        _write(out / path, text.encode())
        written.append(out / path)
    for name in ASSETS:
        _write(out / name, (HERE / "assets" / name).read_bytes())
    known = {*written, *(out / name for name in ASSETS)}
    for old in out.rglob("*.html"):
        if old not in known:
            old.unlink()
    return written


def _write(path: Path, data: bytes) -> None:
    """A page, not atomically: it is made anew at will, and a large site has thousands of them."""
    try:
        path.write_bytes(data)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def pages(facts: Facts) -> Iterator[Page]:
    """Every page, what stands on it worked out when its turn comes."""
    results = {spec.name: facts.result(spec.name) for spec in facts.manifest.agents}
    rows = {row.agent: row for row in facts.agents}
    yield "index.html", "overview.html", _overview(facts, results)
    yield (
        "agents.html",
        "agents.html",
        {"agents": [_agent(facts, row, results) for row in facts.agents], "map": _worth_map(facts)},
    )
    for spec in facts.manifest.agents:
        yield (
            f"agents/{spec.name}.html",
            "agent.html",
            _agent_page(facts, rows[spec.name], results[spec.name]),
        )
        yield from _case_pages(facts, spec.name, results[spec.name])
    yield (
        "cases.html",
        "cases.html",
        {"suites": [(spec, results[spec.name]) for spec in facts.manifest.agents]},
    )
    texts = [facts.texts(prompt) for prompt in sorted(facts.manifest.prompts)]
    yield "prompts.html", "prompts.html", {"prompts": [(one, _told(facts, one)) for one in texts]}
    for one in texts:
        yield f"prompts/{one.stem}.html", "prompt.html", _prompt_page(facts, one)
    yield "tests.html", "tests.html", {"tests": facts.comparisons}
    for test in facts.comparisons[:MAX_TESTS]:
        yield f"tests/{test.pair}.html", "test.html", _test_page(facts, test)
    yield "decisions.html", "decisions.html", {"decisions": facts.decisions}
    yield (
        "data.html",
        "data.html",
        {"days": facts.days, "malformed": facts.malformed, "volume": facts.volume, "health": facts.health},
    )


def _overview(facts: Facts, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    month = facts.now.strftime("%Y-%m")
    return {
        "sentence": _sentence(facts),
        "testing": [one for one in facts.comparisons if one.verdict in ("continue", "blocked")],
        "tonight": facts.days[0] if facts.days else None,
        "month": [day for day in facts.days if day.date.startswith(month)],
        "drifts": [
            (agent, row) for agent, row in (facts.drift.get("agents") or {}).items() if row.get("drifts")
        ],
        "shutdown": facts.drift.get("shutdown"),
        "nights": chart(facts.nights, promotions(facts.repo)),
        "agents": _narrowest(facts, results),
        "needing": [row for row in facts.agents if row.state in NEED_YOU],
        "failing": kinds_that_fail(results.items()),
    }


def _narrowest(facts: Facts, results: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The agents that stand least above an empty answer."""

    def above(row: Agent) -> float:
        summary = (results.get(row.agent) or {}).get("summary") or {}
        if not summary.get("counted"):
            return math.inf
        return float(summary["passed"] / summary["counted"] - (summary.get("empty_rate") or 0.0))

    measured = [row for row in facts.agents if above(row) < math.inf]
    return [_agent(facts, row, results) for row in sorted(measured, key=above)[:MOST_AGENTS]]


def _sentence(facts: Facts) -> str:
    """The night in one sentence."""
    if facts.last_night is None:
        return "Nothing has been measured yet: run make night."
    nights = [line for line in facts.lines if line.run_type == "night"]
    steps = nights[-1].summary.get("steps") if nights else None
    failed = [name for name, one in (steps or {}).items() if one.get("status") in ("failed", "stopped")]
    waits = len(facts.changes)
    parts = [
        "nothing waits for you"
        if not waits
        else f"{waits} change{'s' if waits > 1 else ''} wait{'s' if waits == 1 else ''} for you",
        f"{' and '.join(failed)} did not come through" if failed else "every step came through",
    ]
    if facts.nights:
        parts.append(f"the champions pass {100 * facts.nights[-1][1]:.0f}\u00a0% of their cases")
    told = "; ".join(parts)
    return f"{told[0].upper()}{told[1:]}."


def _worth_map(facts: Facts) -> Markup:
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


def _agent(facts: Facts, row: Agent, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
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


def _agent_page(facts: Facts, row: Agent, result: Mapping[str, Any]) -> dict[str, Any]:
    spec = facts.manifest.agent(row.agent)
    scores = facts.scores.get(row.agent, [])
    output, as_of = facts.output(row.agent)
    failing = [
        (case_path(row.agent, place // MAX_CASES + 1), str(one.get("id")), _why(one))
        for place, one in enumerate(_cases(result))
        if one.get("ok") is False
    ]
    return {
        **_agent(facts, row, {row.agent: result}),
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


def _case_pages(facts: Facts, agent: str, result: Mapping[str, Any]) -> Iterator[Page]:
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


def _test_page(facts: Facts, test: Comparison) -> dict[str, Any]:
    curve = facts.evidence(test)
    needed = 1 / (facts.manifest.ab_test.alpha * LOWER_SHARE)
    about = f"{len(curve)} cases; at the end {curve[-1]:.6g} to 1" if curve else ""
    return {
        "test": test,
        "curve": draw.odds(f"Evidence for {test.stem} {test.challenger}", about, curve, needed),
        "weighed": len(curve),
        "agrees": bool(curve) and curve[-1] == test.number("e_value"),
    }


def _told(facts: Facts, texts: Texts) -> dict[str, Comparison]:
    """By hash of a text: the newest comparison that it was the challenger of."""
    found: dict[str, Comparison] = {}
    for one in facts.comparisons:
        if one.row.get("prompt") == texts.prompt:
            found.setdefault(str(one.row.get("sha256")), one)
    return found


def _prompt_page(facts: Facts, texts: Texts) -> dict[str, Any]:
    told = _told(facts, texts)
    order = [row.sha256 for row in texts.lineage if row.sha256 in texts.by_hash]
    order += [digest for digest in texts.by_hash if digest not in order]
    diffs = []
    for place, left in enumerate(order):
        for right in order[place + 1 :]:
            diffs.append(
                (
                    texts.by_hash[left][0],
                    texts.by_hash[right][0],
                    side_by_side(texts.by_hash[left][1], texts.by_hash[right][1]),
                )
            )
    return {
        "texts": texts,
        "told": told,
        "tree": _tree(texts),
        "diffs": diffs[-20:],
        "agents": facts.manifest.prompts[texts.prompt],
    }


def _tree(texts: Texts) -> list[tuple[int, Any]]:
    """(depth, origin) in the order of a tree: every text below the one it was made from."""
    children: dict[str | None, list[Any]] = {}
    known = {row.sha256 for row in texts.lineage}
    for row in texts.lineage:
        parent = row.parent_sha256 if row.parent_sha256 in known and row.parent_sha256 != row.sha256 else None
        children.setdefault(parent, []).append(row)
    out: list[tuple[int, Any]] = []
    seen: set[tuple[str, str]] = set()

    def walk(parent: str | None, depth: int) -> None:
        for row in children.get(parent, ()):
            if (row.variant, row.sha256) not in seen:
                seen.add((row.variant, row.sha256))
                out.append((depth, row))
                walk(row.sha256, depth + 1)

    walk(None, 0)
    return out


def side_by_side(left: str, right: str, around: int = 2) -> list[tuple[str, str, str]]:
    """(kind, left line, right line): what changed, with a little around it; `gap` rows stand for what was left out."""
    a, b = left.splitlines(), right.splitlines()
    rows: list[tuple[str, str, str]] = []
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(around):
        if rows:
            rows.append(("gap", "⋯", "⋯"))
        for kind, i, j, k, m in group:
            old, new = a[i:j], b[k:m]
            for at in range(max(len(old), len(new))):
                rows.append((kind, old[at] if at < len(old) else "", new[at] if at < len(new) else ""))
    return rows


def pretty(value: Any, most: int = MAX_TEXT) -> str:
    """An answer in full, readable; cut where it is endless."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    shown, lost = cut(clean(redact(text)), most)
    return shown + ("\n… cut here" if lost else "")


def _environment(facts: Facts) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "share": _known(lambda value: f"{100 * value:.1f} %"),
        "points": _known(lambda value: f"{100 * value:+.1f}"),
        "signed": _known(lambda value: f"{value:+.3f}"),
        "usd": _known(
            lambda value: "$0" if value == 0 else f"${value:.4f}" if value < 0.01 else f"${value:.2f}"
        ),
        "ms": _known(lambda value: f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"),
        "odds": _known(lambda value: f"{value:,.0f}:1" if value >= 10 else f"{value:.2g}:1"),
        "known": _known(str),
        "plain": lambda text: clean(redact(str(text))),
    }
    made.globals |= {
        "facts": facts,
        "source": _source(facts),
        "case_path": case_path,
        "manifest_path": str(MANIFEST),
    }
    return made


def _known(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    """Shows a value; what is not known is a dash, never 0."""
    return lambda value: UNKNOWN if value is None or value == "" else shown(value)


def _source(facts: Facts) -> Callable[[str], str]:
    """The address of a file: at its commit on GitHub, else beside the site."""

    def address(path: str, up: str = "") -> str:
        if facts.url and facts.commit:
            return f"{facts.url}/blob/{facts.commit}/{path}"
        return f"{up}../{path}"

    return address
