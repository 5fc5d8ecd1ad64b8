"""The A/B report as a pull-request body: the first screen is enough to decide, the rest is evidence. Pure.

Every number comes from the report; every word that a model wrote is made inert. A body that would grow beyond what
GitHub shows loses whole sections, the least needed first, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from eval.ab import ALLOW
from eval.ab.figures import bounds, circumstances, figures, odds, percent, points, practice, ruler, said
from eval.ab.folds import SHORT_DIFF, evidence, glance, guardrails, lost, method
from eval.ab.record import Arm, Report, Test
from eval.ledger.report import Form
from telemetry.edge.files import MANIFEST, REPORTS
from telemetry.edge.text import Section, cell, code, fenced, first_screen, fitting

VERDICTS = {
    "keep": "lost",
    "continue": "still being tested",
    "blocked": "better, but blocked",
    "promote": "better too",
}
YOUR_TURN = (
    "**Your turn:** merge it, or close it: this text does not come back for this champion. On GitHub, in a comment: "
    "`/ratchet reject <why>` closes it with a reason that the next proposal reads, `/ratchet more` plays the "
    "remaining rounds first, `/ratchet explain <case>` shows one."
)


def body(report: Report) -> str:
    """The whole text: what is asked, at a glance, the change itself, one answer that it changes; the rest folded."""
    losers = [(test, arm) for test, arm in report.arms if not arm.promoted and arm.cases_used]
    sections = [
        Section(_screen(report), 100),
        *(part for test, arm in report.winners for part in _shown(test, arm, len(report.winners) > 1)),
        Section(_circumstances(report), 92),
        *(part for test, arm in report.winners for part in evidence(test, arm)),
        Section(_others(report), 60, "the other comparisons"),
        *(lost(test, arm) for test, arm in losers),
        Section(method(report), 50, "how this was decided"),
        Section(YOUR_TURN if report.winners else "", 95),
    ]
    models = any(test.model for test in report.tests)
    return fitting(sections, str((MODEL_FORM if models else FORM).path))


def _screen(report: Report) -> str:
    asks = [line for test, arm in report.winners for line in _ask(test, arm)]
    asks += [
        f"**Not promoted:** {code(test.stem)} {cell(arm.name)} is {cell(arm.reason, 300)} "
        f"({points(arm.effect)} points). A person may take it in spite of that: {_allowing(arm)}."
        for test, arm in report.arms
        if arm.verdict == "blocked"
    ]
    alert = "[!WARNING]" if _worn(report) or (asks and not report.winners) else "[!TIP]" if asks else ""
    return first_screen(alert, *(asks or [_nothing(report)]), *_worn(report))


def _circumstances(report: Report) -> str:
    """What it took, and what all of it was measured with."""
    several = len(report.winners) > 1
    took = [_gained(test.stem if several else "", arm) for test, arm in report.winners if arm.bill]
    return "\n".join([*took, circumstances(report.spend, report.metadata)])


def _worn(report: Report) -> list[str]:
    """Which holdouts have been asked too often: what wins there may fit these cases, not the task."""
    worn = [test for test in report.tests if test.arms and test.wear > report.settings.wear_limit]
    return [
        f"**Worn holdout:** {code(', '.join(test.suites))} has given {test.wear} verdicts since its last fresh case "
        f"(limit {report.settings.wear_limit}); please add cases."
        for test in worn
    ]


def _allowing(arm: Arm) -> str:
    failed = {check.name for check in arm.guardrails if not check.passed}
    return ", ".join(f"`--allow {word}`" for word, name in ALLOW.items() if name in failed)


def _ask(test: Test, arm: Arm) -> list[str]:
    if test.model:
        asked = f"**Move from {code(test.model)} to {code(arm.name)}?** "
        becomes = f"`model:` of {', '.join(map(code, test.agents))} in `{MANIFEST}` becomes {code(arm.model)}"
        becomes += f", and {code(test.prompt)} its new text." if test.prompt else "."
    else:
        asked = f"**Promote {code(test.stem)} {cell(arm.name)}?** "
        becomes = f"{code(test.prompt)} becomes {cell(arm.name)} from tonight on."
    shown_to_be = f", not worse by more than {100 * test.margin:g} points" if test.margin else ""
    return [
        f"{asked}**{points(arm.effect)} points** on {arm.cases_available} unseen cases "
        f"({percent(arm.confidence)} interval {bounds(arm.ci_low, arm.ci_high)}){shown_to_be}, "
        f"evidence {odds(arm.e_value)}.",
        code(ruler(arm.ci_low, arm.effect, arm.ci_high)),
        f"**If you merge:** {becomes} **To undo:** revert the commit; nothing else changes.",
    ]


def _gained(name: str, arm: Arm) -> str:
    """What the points cost, from the proposal to the last pass."""
    calls, usd = (arm.bill.calls, arm.bill.cost_usd) if arm.bill else (None, None)
    gained = 100 * arm.effect
    per_call = "unknown per call" if not calls else f"{1000 * gained / calls:+.2f} points per 1,000 calls"
    per_usd = "unknown per dollar" if usd is None else f"{gained / usd:+.1f} per dollar" if usd else "free"
    spent = "an unknown sum" if usd is None else f"${usd:.2f}"
    took = "an unknown number of" if calls is None else f"{calls:,}"
    about = f" {code(name)}" if name else ""
    return f"**What it took{about}:** {took} calls and {spent}, its proposal included: {per_call}, {per_usd}."


def _nothing(report: Report) -> str:
    verdicts = [arm.verdict for _, arm in report.arms]
    skipped = sum(len(test.skipped) for test in report.tests)
    counts = {"keep": "lost", "continue": "still being tested", "inconclusive": "inconclusive"}
    told = ", ".join(
        [*(f"{verdicts.count(one)} {said}" for one, said in counts.items()), f"{skipped} not run"]
    )
    stop = f" The run stopped early: {cell(report.stop_reason, 300)}." if report.stop_reason else ""
    return f"**Nothing to promote.** {len(verdicts)} challenger(s) compared: {told}.{stop}"


def _shown(test: Test, arm: Arm, several: bool) -> Iterator[Section]:
    """What stands open: the figures, the change if it is short, and an answer that is another one now."""
    name = f"{test.stem} {arm.name}"
    head = f"### {cell(name)}\n\n" if several else ""
    yield Section(f"{head}{glance(arm)}", 90)
    if any(not check.passed for check in arm.guardrails):
        yield Section(guardrails(arm), 85, "the guardrails")
    if len(arm.diff.splitlines()) <= SHORT_DIFF:
        yield Section(fenced(arm.diff, "diff"), 85, f"the diff of {name}")
    if arm.newly_right:
        flip = arm.newly_right[0]
        before, after = (said(one.output_preview, 200) for one in (flip.champion, flip.challenger))
        yield Section(
            f"**For example** {code(flip.case, 60)}: the champion says _{before}_ "
            f"({flip.champion.score:.2f} of 1), {cell(arm.name)} says _{after}_ ({flip.challenger.score:.2f}).",
            80,
        )
    if arm.lineage and arm.lineage.reason:
        by = f" ({cell(arm.lineage.author, 60)})" if arm.lineage.author else ""
        practised = f" {told[:1].upper()}{told[1:]}." if (told := practice(arm)) else ""
        yield Section(f"**Why it may be better:** {cell(arm.lineage.reason, 500)}{by}.{practised}", 80)


def _others(report: Report) -> str:
    """What else was compared, a line each."""
    lines = [
        f"{cell(f'{test.stem} {arm.name}')}: {VERDICTS.get(arm.verdict, arm.verdict)}, {cell(figures(arm), 700)}"
        for test, arm in report.arms
        if not arm.promoted
    ]
    for test in report.tests:
        for skip in test.skipped:
            where = f" ({code(skip.reference)})" if skip.reference else ""
            lines.append(f"{cell(f'{test.stem} {skip.variant}')}: not run, {cell(skip.reason, 300)}{where}")
    lines += [f"Problem: {cell(problem, 300)}" for problem in report.problems]
    return "\n".join(["### Also compared\n", *(f"- {line}" for line in lines)]) if lines else ""


_SCHEMA = Path(__file__).parents[1] / "ab_test_report.schema.json"
FORM = Form(REPORTS / "ab_test_report.json", _SCHEMA, Report, body)
MODEL_FORM = replace(FORM, path=REPORTS / "model_test_report.json")


def parts(report: Report) -> Iterator[tuple[Form[Report], Report]]:
    """A report as it is written: texts and models are proposed apart, each by a pull request of its own."""
    for form, about_models in ((FORM, False), (MODEL_FORM, True)):
        tests = tuple(test for test in report.tests if bool(test.model) is about_models)
        if tests:
            promoted = tuple(test.changes for test in tests if test.promoted)
            yield form, replace(report, tests=tests, promoted=promoted)
