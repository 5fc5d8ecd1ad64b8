"""The critiques as records, and as a pull-request body: what is wrong with whom, new things first.

Every word of a model is made inert; what an earlier night said already stands in one line with its first date.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eval.ledger.report import Asked, Form
from telemetry.edge.files import REPORTS
from telemetry.edge.text import Section, cell, code, details, first_screen, fitting, quote, table

SCHEMA_VERSION = 1
SEVERITIES: Final = ("high", "med", "low")
MAX_ROWS = 40  # of a table in the body; the report has all


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong with an agent; its id and date come when it is linked to earlier nights."""

    title: str
    evidence: str
    impact: str
    severity: str
    supported: bool  # the evidence is in what the critic was shown
    also_by: tuple[str, ...] = ()
    id: str = ""
    first_seen: str = ""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What should change, and why."""

    change: str
    why: str
    priority: str
    also_by: tuple[str, ...] = ()


Finding = Issue | Recommendation


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a critic said and nobody gets to read."""

    kind: str  # issue | recommendation
    start: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pairing:
    """Who looks at whom."""

    critic_agent: str
    target_agent: str

    @property
    def told(self) -> str:
        return f"{self.critic_agent} on {self.target_agent}"


@dataclass(frozen=True, slots=True)
class Critique(Pairing):
    """What one critic says about one colleague."""

    issues: tuple[Issue, ...]
    recommendations: tuple[Recommendation, ...]
    refused: tuple[Refusal, ...]

    @property
    def findings(self) -> list[Finding]:
        """All that it says."""
        return [*self.issues, *self.recommendations]


@dataclass(frozen=True, slots=True)
class Failed(Pairing):
    """A critique that did not come about."""

    error_kind: str
    error: str


@dataclass(frozen=True, slots=True)
class Report:
    """What `meta/reports/cross_critiques.json` holds."""

    schema_version: int
    generated_at: str
    critiques: tuple[Critique, ...]
    failed: tuple[Failed, ...]
    nothing_to_see: tuple[Pairing, ...]
    model: Asked


Found = tuple[Critique, Issue]


def rank(issue: Issue) -> tuple[bool, int]:
    """The supported first, the severe before the slight."""
    return not issue.supported, SEVERITIES.index(issue.severity)


def sentence(report: Report) -> str:
    """The finding in one line."""
    issues = [issue for critique in report.critiques for issue in critique.issues]
    critiques = f"{len(report.critiques)} critique{'s' * (len(report.critiques) != 1)}"
    if not issues:
        return f"No issue in {critiques}."
    return f"{len(issues)} issue{'s' * (len(issues) > 1)} in {critiques}, {_high(issues)} of high severity."


def markdown(report: Report) -> str:
    """The whole text."""
    found = [(critique, issue) for critique in report.critiques for issue in critique.issues]
    found.sort(key=lambda pair: rank(pair[1]))
    today = report.generated_at[:10]
    new = [pair for pair in found if pair[1].first_seen == today]
    known = [pair for pair in found if pair[1].first_seen != today]
    parts: list[str | Section] = [_first_screen(report, new, known)]
    for place, pair in enumerate(new):
        head = "" if place else "### New\n\n"
        parts.append(Section(head + _issue(*pair), 50, code(pair[1].id)))
    parts += [_known(known), _advice(report), _refused(report), _method(report)]
    return fitting(parts, str(FORM.path))


FORM: Final = Form(
    REPORTS / "cross_critiques.json",
    Path(__file__).parents[1] / "cross_critiques.schema.json",
    Report,
    markdown,
)


def _first_screen(report: Report, new: Sequence[Found], known: Sequence[Found]) -> str:
    worst = failed = ""
    if new:
        critique, issue = new[0]
        worst = f"**The worst:** {code(critique.target_agent)}: {cell(issue.title, 200)} ({code(issue.id)})."
    if report.failed:
        failed = f"Failed tonight, their earlier words are kept: {_pairs(report.failed)}."
    return first_screen(
        f"**{len(new)} new issues**, {_high(issue for _, issue in new)} of high severity; "
        f"{len(known)} earlier ones are still there.",
        "**If you merge:** only this report changes. The next proposals try to answer it; nothing goes live.",
        worst,
        f"Critics asked {report.model.told}.",
        failed,
    )


def _issue(critique: Critique, issue: Issue) -> str:
    others = f", also seen by {', '.join(map(code, issue.also_by))}" if issue.also_by else ""
    support = "" if issue.supported else " _The quotation is not in what the critic was shown._"
    severity = "**high**" if issue.severity == "high" else issue.severity
    return (
        f"#### {code(critique.target_agent)}: {cell(issue.title, 200)}\n\n"
        f"{severity}, by {code(critique.critic_agent)}{others}, {code(issue.id)}.{support}\n\n"
        f"{quote(issue.evidence, 1000)}\n\n{cell(issue.impact, 500)}"
    )


def _known(known: Sequence[Found]) -> Section:
    rows = [
        [code(row.target_agent), cell(one.title, 200), one.severity, cell(one.first_seen), code(one.id)]
        for row, one in known
    ]
    return _tabled("### Known, still there", ["agent", "issue", "severity", "first seen", "id"], rows, 45)


def _advice(report: Report) -> Section:
    found = [(row, critique) for critique in report.critiques for row in critique.recommendations]
    rows = [
        [row.priority, code(critique.target_agent), cell(row.change, 400), cell(row.why, 300)]
        for row, critique in sorted(found, key=lambda pair: pair[0].priority)
    ]
    return _tabled("### Recommended", ["priority", "agent", "change", "why"], rows, 40)


def _refused(report: Report) -> Section:
    rows = [
        [code(critique.critic_agent), f"{row.kind}: {cell(row.start, 120)}", cell(row.reason, 200)]
        for critique in report.critiques
        for row in critique.refused
    ]
    shown = table(["critic", "what", "why not"], rows[:MAX_ROWS])
    return Section(details(f"Refused ({len(rows)})", shown) if rows else "", 20, "what was refused")


def _tabled(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], worth: int) -> Section:
    more = f"\n\n_And {len(rows) - MAX_ROWS} more in `{FORM.path}`._" if len(rows) > MAX_ROWS else ""
    text = f"{title}\n\n{table(columns, rows[:MAX_ROWS])}{more}" if rows else ""
    return Section(text, worth, f"the table “{title.strip('# ')}”")


def _method(report: Report) -> Section:
    unseen = _pairs(report.nothing_to_see)
    nothing = f" Nothing to look at yet for: {unseen}." if unseen else ""
    text = details(
        "How this came about, and how to reproduce it",
        "Every pair of `critique_pairs` in `agents/manifest.yaml`: the critic sees the colleague's latest output, its "
        "telemetry and the tune cases it fails, never a holdout case. A quotation is looked up in what the critic was "
        "shown; an issue without one is put last. Recommendations that touch a protected path are refused. Issues that "
        "several critics raise are merged; one that an earlier report holds keeps its id and its words."
        f"{nothing}\n\n`python -m meta.critique_loops`",
    )
    return Section(text, 70)


def _pairs(rows: Iterable[Pairing]) -> str:
    return cell(", ".join(row.told for row in rows), 400)


def _high(issues: Iterable[Issue]) -> int:
    return sum(issue.severity == "high" for issue in issues)
