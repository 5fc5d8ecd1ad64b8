"""The critiques as records, and as a pull-request body: what is wrong with whom, new things first.

Every word of a model is made inert; what an earlier night said already stands in one line with its first date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from eval.ledger.report import Asked, Form
from telemetry.edge.files import REPORTS
from telemetry.edge.frozen import frozen
from telemetry.edge.text import Section, cell, code, details, first_screen, fitting, quote, table

SCHEMA_VERSION = 1
SEVERITIES: Final = ("high", "med", "low")
MAX_ROWS = 40  # of a table in the body; the report has all
MAX_WORST = 15  # that somebody looks at over coffee; the others are among the words of the critics


@frozen
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


@frozen
class Recommendation:
    """What should change, and why."""

    change: str
    why: str
    priority: str
    also_by: tuple[str, ...] = ()


Finding = Issue | Recommendation


@frozen
class Refusal:
    """What a critic said and nobody gets to read."""

    kind: str  # issue | recommendation
    start: str
    reason: str


@frozen
class Pairing:
    """Who looks at whom."""

    critic_agent: str
    target_agent: str

    @property
    def told(self) -> str:
        return f"{self.critic_agent} on {self.target_agent}"


@frozen
class Critique(Pairing):
    """What one critic says about one colleague."""

    issues: tuple[Issue, ...]
    recommendations: tuple[Recommendation, ...]
    refused: tuple[Refusal, ...]

    @property
    def findings(self) -> list[Finding]:
        return [*self.issues, *self.recommendations]


@frozen
class Failed(Pairing):
    """A critique that did not come about."""

    error_kind: str
    error: str


@frozen
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
    issues = [issue for critique in report.critiques for issue in critique.issues]
    critiques = f"{len(report.critiques)} critique{'s' * (len(report.critiques) != 1)}"
    if not issues:
        return f"No issue in {critiques}."
    return f"{len(issues)} issue{'s' * (len(issues) > 1)} in {critiques}, {_high(issues)} of high severity."


def markdown(report: Report) -> str:
    """The whole text: the worst in one table with what to do about it; the words of the critics folded."""
    found = [(critique, issue) for critique in report.critiques for issue in critique.issues]
    found.sort(key=lambda pair: rank(pair[1]))
    today = report.generated_at[:10]
    new = [pair for pair in found if pair[1].first_seen == today]
    known = [pair for pair in found if pair[1].first_seen != today]
    tables = [_worst(report, new), _known(known), _advice(report, new), *_quoted(new), _refused(report)]
    first = _first_screen(report, new, known)
    return fitting([first, *tables, _method(report), _YOUR_TURN], str(FORM.path))


_SCHEMA: Final = Path(__file__).parents[1] / "cross_critiques.schema.json"
FORM: Final = Form(REPORTS / "cross_critiques.json", _SCHEMA, Report, markdown)


def _first_screen(report: Report, new: Sequence[Found], known: Sequence[Found]) -> str:
    earlier = f"; {len(known)} of earlier nights still there" if known else ""
    severe = f"{_high(issue for _, issue in new)} of high severity{earlier}."
    return first_screen(
        f"**{len(new)} new issue{'s' * (len(new) != 1)}**, {severe}",
        "**If you merge:** only this report changes. The next proposals try to answer it; nothing goes live.",
        f"Critics asked {report.model.told}.",
        f"Failed tonight, their earlier words are kept: {_pairs(report.failed)}." if report.failed else "",
    )


def _answer(report: Report, issue: Issue) -> str:
    """What somebody recommends against an issue: the recommendation that names it."""
    named = issue.title.casefold()
    advice = (row for critique in report.critiques for row in critique.recommendations)
    return next((row.change for row in advice if named in row.why.casefold()), "")


def _worst(report: Report, new: Sequence[Found]) -> Section:
    rows = [
        [
            f"{'**high** ' * (issue.severity == 'high')}{code(critique.target_agent)} {cell(issue.title, 200)}: "
            f"{cell(issue.impact, 300)}",
            cell(_answer(report, issue), 300) or "–",
        ]
        for critique, issue in new[:MAX_WORST]
    ]
    more = f"\n\n_And {len(new) - MAX_WORST} more, below._" if len(new) > MAX_WORST else ""
    shown = table(["what is wrong", "what to do"], rows)
    return Section(f"### New, the worst first\n\n{shown}{more}" if rows else "", 60, "the worst")


def _quoted(new: Sequence[Found]) -> Iterator[Section]:
    agents = dict.fromkeys(critique.target_agent for critique, _ in new)
    for agent in agents:
        own = [_issue(*pair) for pair in new if pair[0].target_agent == agent]
        text = details(f"What critics say about {agent} ({len(own)})", "\n\n".join(own))
        yield Section(text, 50, f"what critics say about {code(agent)}")


def _issue(critique: Critique, issue: Issue) -> str:
    others = f", also seen by {', '.join(map(code, issue.also_by))}" if issue.also_by else ""
    support = "" if issue.supported else " _The quotation is not in what the critic was shown._"
    return (
        f"**{cell(issue.title, 200)}** ({code(issue.id)}), {issue.severity}, by {code(critique.critic_agent)}{others}: "
        f"{cell(issue.impact, 500)}.{support}\n\n{quote(issue.evidence, 1000)}"
    )


def _known(known: Sequence[Found]) -> Section:
    rows = [
        [code(row.target_agent), cell(one.title, 200), one.severity, cell(one.first_seen), code(one.id)]
        for row, one in known
    ]
    return _tabled("### Known, still there", ["agent", "issue", "severity", "first seen", "id"], rows, 45)


def _advice(report: Report, new: Sequence[Found]) -> Section:
    """What is recommended beyond what the first table shows."""
    shown = {_answer(report, issue) for _, issue in new}
    rows = [
        [row.priority, code(critique.target_agent), cell(row.change, 400), cell(row.why, 300)]
        for critique in report.critiques
        for row in critique.recommendations
        if row.change not in shown
    ]
    rows.sort(key=lambda row: row[0])
    return _tabled("### Also recommended", ["", "agent", "what to do", "why"], rows, 40)


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


_YOUR_TURN: Final = Section(
    "**Your turn:** merge it to keep these findings on record, or close it; tonight's critics look again either way. "
    "A finding that is wrong is best answered by a case in the agent's suite.",
    80,
)


def _pairs(rows: Iterable[Pairing]) -> str:
    return cell(", ".join(row.told for row in rows), 400)


def _high(issues: Iterable[Issue]) -> int:
    return sum(issue.severity == "high" for issue in issues)
