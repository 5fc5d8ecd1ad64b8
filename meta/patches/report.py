"""The sandbox's report as a record, and as the text of a draft pull request: every foreign word of it is quoted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from eval.ledger.report import Form
from meta.patches.confine import Walls
from meta.patches.exam import Scores
from meta.patches.size import Metrics
from meta.patches.trial import PASSED, Check
from telemetry.edge.files import REPORTS
from telemetry.edge.frozen import frozen
from telemetry.edge.text import (
    Section,
    cell,
    clean,
    code,
    details,
    fenced,
    first_screen,
    fitting,
    quote,
    redact,
    some,
    table,
)

TEXT_CHARS = 2_000  # kept of any foreign text
SHOWN_CASES, SHOWN_ASIDE = 20, 30
YOUR_TURN = "**Your turn:** read the code; then mark the draft as ready and merge it, or close it."


def kept(text: str) -> str:
    """What a report keeps of foreign text: cut and cleaned."""
    return redact(clean(text))[:TEXT_CHARS]


@frozen
class Recommended:
    """What somebody thinks should change, and why."""

    agent: str
    change: str
    why: str
    priority: str
    origin: str  # who says so

    @property
    def kept(self) -> tuple[str, str, str, str, str]:
        return kept(self.agent)[:100], kept(self.change), kept(self.why), self.priority, kept(self.origin)


@frozen
class NotTried(Recommended):
    """One that was set aside."""

    reason: str


def not_tried(one: Recommended, why: str) -> NotTried:
    return NotTried(*one.kept, kept(why))


@frozen
class Row(Recommended):
    verdict: str
    reasons: tuple[str, ...]
    said: str | None  # by the writer
    model: str | None
    provider: str | None
    patch: str
    patch_truncated: bool
    patch_sha256: str | None
    files: tuple[str, ...]
    metrics: Metrics | None
    checks: tuple[Check, ...]
    scores: Scores | None


@frozen
class Report:
    """What `meta/reports/sandbox_report.json` holds."""

    version: int
    patched: bool
    stopped: str | None
    time_limit_s: float
    walls: Walls
    evals_by: str
    attempts: tuple[Row, ...]
    set_aside: tuple[NotTried, ...]
    metadata: Mapping[str, Any]

    @property
    def passed(self) -> Row | None:
        """The one that is left in the tree."""
        return next((row for row in self.attempts if row.verdict == PASSED), None)


def sentence(report: Report) -> str:
    if (row := report.passed) and row.scores:
        return f"A patch for {row.agent} passed: {_effect(row.scores)}; it is left in the tree."
    if report.stopped:
        return "Stopped early; no patch is left in the tree."
    if not report.attempts:
        return "No recommendation asks for code: nothing was tried."
    return f"No patch held: {len(report.attempts)} tried, each with its reason."


def body(report: Report) -> str:
    """The pull request's text: enough to decide in the first block, the rest folded."""
    passed = report.passed
    parts: list[str | Section] = list(_passed(passed)) if passed else [f"**{sentence(report)}**"]
    lines = "\n".join(_refused(row) for row in report.attempts if row is not passed)
    parts.append(Section(f"### Tried and not kept\n\n{lines}" if lines else "", 40, "what was not kept"))
    lines = "\n".join(
        f"- {code(row.agent)}: {cell(row.change, 160)} -- {cell(row.reason, 300)}"
        for row in report.set_aside[:SHOWN_ASIDE]
    )
    parts.append(Section(details("Not tried", lines) if lines else "", 20, "what was not tried"))
    turn = Section(YOUR_TURN if passed else "", 95)
    return fitting([*parts, Section(_method(report), 60), turn], str(FORM.path))


_SCHEMA: Final = Path(__file__).parents[1] / "sandbox_report.schema.json"
FORM: Final = Form(REPORTS / "sandbox_report.json", _SCHEMA, Report, body)


def _method(report: Report) -> str:
    limit = f"{report.time_limit_s:g}"
    return details(
        "How this was decided, and how to reproduce it",
        "The patch was guarded (only the code of that agent, no protected path, no new way to files, processes or the "
        "network), then linted, evaluated and tested on throw-away copies with a clean environment and "
        f"{limit} s for each command. Walls: {cell(report.walls.told)}. The evals "
        "ran with the offline model, because patched code gets neither key nor network; it saw inputs without "
        "answers, and what it said was graded outside. It is kept if every check passes, the score is lower neither on "
        "all, nor on holdout cases, nor on a second sample drawn for this trial, and its gain carries over to those."
        "\n\n"
        f"`python -m meta.sandbox --seed {report.metadata['seed']} --time-limit {limit}` at commit "
        f"`{str(report.metadata['git_commit'])[:12]}`",
    )


def _passed(row: Row) -> Iterator[str | Section]:
    assert row.scores is not None and row.metrics is not None
    lines = row.patch.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    deleted = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    yield first_screen(
        "[!TIP]",
        f"**Merge this patch to {code(row.agent)}?** {_effect(row.scores)}; guard, lint and tests passed.",
        f"**If you merge:** {code(row.files[0])} changes by +{added} -{deleted} lines. "
        "**To undo:** revert this commit; nothing else changes.",
        f"Written by {code(str(row.model))} ({cell(str(row.provider), 100)}), "
        f"recommended by {cell(row.origin or 'unknown', 200)}. A draft: read the code before you merge.",
    )
    scores = (
        [name, str(count), f"{before:.1%}", f"{after:.1%}", f"**{100 * (after - before):+.2f}**"]
        for name, count, before, after in row.scores.arms
    )
    yield table(["cases", "n", "before", "after", "points"], scores, right=4)
    shown = "\n".join(line for line in lines if not line.startswith(("diff --git ", "index ")))
    yield Section(fenced(shown, "diff", 20_000), 80, "the patch")
    why = f"{quote(row.change, 1500)}\n>\n{quote(row.why, 1500)}"
    yield Section(f"**What was recommended** ({row.priority})\n\n{why}", 50, "what was recommended")
    yield Section(f"**What the writer says**\n\n{quote(row.said or '', 1000)}", 45, "what the writer says")
    for title, cases in (("newly right", row.scores.newly_right), ("newly wrong", row.scores.newly_wrong)):
        listed = some([code(case) for case in cases], SHOWN_CASES)
        told = f"{len(cases)} case{'s' * (len(cases) > 1)} {title}"
        yield Section(details(told, listed) if cases else "", 30, f"cases {title}")
    checks = [[one.name, one.outcome, f"{one.seconds:g}"] for one in row.checks]
    tables = table(["check", "outcome", "seconds"], checks, right=1), table(*_size(row.metrics), right=1)
    yield Section(details("Its checks, and how small it is", "\n\n".join(tables)), 55, "its checks and size")


def _refused(row: Row) -> str:
    why = "; ".join(cell(reason, 400) for reason in row.reasons) or "no reason given"
    return f"- {code(row.agent)} **{row.verdict}**: {cell(row.change, 200)} -- {why}"


def _size(metrics: Metrics) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    return ["size", "measured"], [
        ["syntax kept (`ast_similarity`)", f"{metrics.ast_similarity:.3f}"],
        ["files (`file_touch_count`)", str(metrics.file_touch_count)],
        ["lines changed (`line_change_ratio`)", f"{metrics.line_change_ratio:.3f}"],
        ["scaffolding (`scaffolding_penalty`)", f"{metrics.scaffolding_penalty:.3f}"],
        ["all of it (`reward_multiplier`)", f"**{metrics.reward_multiplier:.3f}**"],
    ]


def _effect(scores: Scores) -> str:
    name, count, before, after = scores.arms[-1]
    sort = {"holdout": "unseen cases", "second sample": "newly drawn cases"}.get(name, "cases")
    where = f"{count} {sort}"
    effect = "no difference" if after == before else f"{100 * (after - before):+.2f} points"
    return f"{effect} on {where}"
