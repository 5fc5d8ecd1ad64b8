"""The back-test report as a pull-request body: the first screen is enough to decide, the rest is evidence. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eval.ab.figures import (
    bounds,
    by_agent,
    circumstances,
    diff_section,
    flips_section,
    how_decided,
    points,
    ruler,
)
from eval.hindsight.record import Report, Tested
from eval.hindsight.run import ARMS
from eval.ledger.report import Form
from telemetry.edge.files import REPORTS
from telemetry.edge.text import Section, cell, code, first_screen, fitting

YOUR_TURN = (
    "**Your turn:** merge it, or close it: then the text stays, and is asked about again when half as many cases more "
    "have come in. On GitHub, `/ratchet explain <case>` in a comment shows one."
)


def body(report: Report) -> str:
    """The whole text."""
    sections = [
        Section(_screen(report), 100),
        *(Section(_table(one), 90) for one in report.fallen),
        *(part for one in report.fallen for part in _evidence(one)),
        Section(_all(report), 60, "the list of all back-tests"),
        Section(_method(report), 50, "how this was decided"),
        Section(YOUR_TURN if report.fallen else "", 95),
    ]
    return fitting(sections, str(FORM.path))


def _screen(report: Report) -> str:
    asks = [line for one in report.fallen for line in _ask(one)]
    again = f"{len(report.tests)} promotion{'s' * (len(report.tests) != 1)} tested again"
    nothing = f"**Nothing to demote.** {again}."
    alert = "[!WARNING]" if asks else ""
    return first_screen(alert, *(asks or [nothing]), circumstances(report.spend, report.metadata))


def _ask(one: Tested) -> list[str]:
    promised = "" if one.promised is None else f"; it was promoted with {points(one.promised)}"
    return [
        f"**Demote {code(one.stem)} {cell(one.name)}?** **{points(one.effect)} points** of score against the text "
        f"it replaced, on {one.cases_used} cases that came in since it was promoted on {cell(one.promoted_on)} "
        f"(95 % interval {bounds(one.ci_low, one.ci_high)}){promised}.",
        code(ruler(one.ci_low, one.effect, one.ci_high)),
        f"**If you merge:** {code(one.prompt)} is {code(one.replaced_sha256[:7])} again, the text before, from tonight "
        "on. **To undo:** revert this commit.",
    ]


def _table(one: Tested) -> str:
    return (
        f"### {one.stem}: from what was replaced to what is live\n\n{by_agent(one.agents, 0.95)}\n\n"
        f"Better on {one.wins} cases, even on {one.ties}, worse on {one.losses}."
    )


def _evidence(one: Tested) -> Iterator[Section]:
    name = f"{one.stem} {one.name}"
    yield flips_section(f"cases that {name} gets wrong now", one.newly_wrong, 45, ARMS)
    yield diff_section(name, one.diff)
    yield flips_section(f"cases that {name} gets right now", one.newly_right, 35, ARMS)


def _all(report: Report) -> str:
    """One line for each: a table of them would be wider than a telephone."""
    lines = [
        f"- {code(one.stem)} {cell(one.name)} **{one.verdict}**: {points(one.effect)} points "
        f"({bounds(one.ci_low, one.ci_high)}) on {one.cases_used} of {one.cases_available} cases; "
        f"{cell(one.reason, 300)}"
        for one in report.tests
    ]
    lines += [
        f"- {code(one.prompt)} {code(one.promotion)} **waits**: {cell(one.reason, 300)}"
        for one in report.waiting
    ]
    listed = "\n".join(lines)
    return f"### All promotions of {report.settings.days} days\n\n{listed}" if lines else ""


def _method(report: Report) -> str:
    settings = report.settings
    facts = [
        f"Promotions of the last {settings.days} days whose text is live, against the text they replaced, on cases "
        "dated after the promotion (or added after it, by git): neither text was made or chosen with them.",
        f"Both texts answered every case side by side, in an order fixed by seed {settings.seed}. From "
        f"{settings.least} cases on a mean of 0 or less demotes; what stands is looked at again when half as many "
        "cases more have come in. A promotion had to be proven; taking one back does not: read the interval.",
    ]
    return how_decided(facts, report.command, report.metadata)


_SCHEMA = Path(__file__).parents[1] / "backtest_report.schema.json"
FORM = Form(REPORTS / "backtest_report.json", _SCHEMA, Report, body)
