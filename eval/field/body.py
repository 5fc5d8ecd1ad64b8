"""The report on new cases as a pull-request body: each case with input, answer, what came true and label. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from eval.field.record import Harvested, Report
from eval.ledger.report import Form
from telemetry.edge.files import REPORTS
from telemetry.edge.text import Section, cell, code, details, fenced, first_screen, fitting, quote, table

_LEFT_OUT = {
    "known": "in the suite already",
    "alike": "nearly a case that is there",
    "refused": "refused before",
    "no_text": "input not kept, or not here",
    "too_large": "input too large to review",
    "nobody": "agent without a suite, or disabled",
    "later": "for another week",
}


def sentence(report: Report) -> str:
    """What it found, in one line."""
    chosen, settled = Counter(one.agent for one in report.cases), sum(report.settled.values())
    listed = ", ".join(f"{count} {agent}" for agent, count in chosen.items())
    told = f"{_counted(len(report.cases), 'new case')} from the field" + (f" ({listed})" if listed else "")
    return f"{told}; {settled} settled" if settled else told


def body(report: Report) -> str:
    """The whole text: agent by agent, and first the cases that the live answer got wrong."""
    cases = sorted(report.cases, key=lambda one: (one.agent, one.agrees, one.day))
    sections = [
        Section(_screen(report), 100),
        Section(_summary(cases), 95),
        *(Section(_case(one), 80 - at, "cases") for at, one in enumerate(cases)),
        Section(_turn(report), 99),
        Section(_rest(report), 50, "what was left out"),
    ]
    return fitting(sections, str(FORM.path))


def _screen(report: Report) -> str:
    agents = len({one.agent for one in report.cases})
    settled = sum(report.settled.values())
    agreed = sum(one.agrees for one in report.cases)
    asks = (
        f"**Add {_counted(len(report.cases), 'case')} from the field?** Runs of {_counted(agents, 'agent')} in the "
        f"last {report.days} days whose right answer is known by now; the live answer was right in {agreed} of them."
    )
    joins = (
        f"{_counted(settled, 'fresh case')}, 90 days old, {'joins' if settled == 1 else 'join'} the half of their "
        "family: tune or holdout."
    )
    return first_screen(
        asks if report.cases else "**No new case from the field.**",
        joins if settled else "",
        "**If you merge:** they test promotions that are live, and decide nothing else for 90 days; scores of today "
        "do not move. **If you close it:** they are not asked again. **To undo:** revert this commit.",
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _summary(cases: Iterable[Harvested]) -> str:
    by_agent: dict[str, list[Harvested]] = {}
    for one in cases:
        by_agent.setdefault(one.agent, []).append(one)
    rows = []
    for agent, own in by_agent.items():
        reasons = Counter(one.reason for one in own)
        told = ", ".join(f"{count} by {name}" for name, count in reasons.most_common())
        rows.append([cell(agent), cell(told), str(len(own)), str(sum(one.agrees for one in own))])
    return table(["agent", "chosen", "cases", "live answer right"], rows, right=2) if rows else ""


def _case(one: Harvested) -> str:
    right = ", ".join(map(code, one.proposed)) or "nothing"
    named = ", ".join(map(code, one.named)) or "nothing"
    wanted, was = ", ".join(one.proposed) or "nothing", "right" if one.agrees else "wrong"
    title = f"{one.agent}, {one.day}: a right answer names {wanted} ({one.reason}; live answer {was})"
    facts = [
        f"- **Label:** a right answer names {right}. The live answer named {named}: **{was}**.",
        f"- **Why it is here:** {cell(one.why, 300)}.",
        *([f"- **What came true:** {cell('; '.join(one.came_true), 600)}."] if one.came_true else []),
        *([f"- **Personal data:** {one.removed} replaced."] if one.removed else []),
        f"- {code(one.id)}, run {code(one.run_id)}",
    ]
    parts = [
        "\n".join(facts),
        *([quote(one.note, 1000)] if one.note else []),
        f"Input:\n\n{fenced(one.input)}",
        f"Answer:\n\n{fenced(one.answer or 'not kept')}",
        f"In {code(one.suite)}:\n\n{fenced(one.expect)}",
    ]
    return details(title, "\n\n".join(parts))


def _turn(report: Report) -> str:
    if not report.cases:
        return ""
    suites = " ".join(dict.fromkeys(PurePosixPath(one.suite).stem for one in report.cases))
    return (
        "**Your turn:** a label says what happened, not what could be known: take out what nobody could have "
        "answered. To edit or remove one, change its line on this branch, pin, and push; your commit is kept:\n\n"
        + fenced(f"$EDITOR eval/suites/{suites.split()[0]}.jsonl\npython -m eval.suites pin {suites}", "sh")
        + "\n\nWhat you write in a review on a case's line is kept with it and reaches whoever proposes prompts."
    )


def _rest(report: Report) -> str:
    rows = [[_LEFT_OUT[name], str(count)] for name, count in report.left_out.items() if count]
    told = table(["left out", "runs"], rows, right=1) if rows else "Nothing was left out."
    method = (
        "- What came true is picked by the hash of the input, without looking at the answer; corrections and "
        "disagreements are picked because of it, so they test no promotion and settle as tune cases.\n"
        "- A family is one week of one agent. Personal data is found by pattern: names are not, look for them.\n"
    )
    return details(
        "What was left out, and how these were chosen", f"{told}\n\n{method}\n{fenced(report.command, 'sh')}"
    )


_SCHEMA = Path(__file__).parents[1] / "new_cases_report.schema.json"
FORM = Form(REPORTS / "new_cases_report.json", _SCHEMA, Report, body)
