"""The A/B report as a pull-request body: the first screen is enough to decide, the rest is evidence. Pure.

Every number comes from the report; every word that a model wrote is made inert. A body that would grow beyond what
GitHub shows loses whole sections, the least needed first, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from eval.ab import ALLOW
from eval.ab.figures import (
    MAX_DIFF,
    SIDES,
    across_families,
    bounds,
    by_agent,
    circumstances,
    diff_section,
    figures,
    flips_section,
    flips_table,
    how_decided,
    odds,
    percent,
    points,
    practice,
    ruler,
    said,
)
from eval.ab.record import AgentChange, Arm, Figures, Report, Test
from eval.ledger.report import Form
from telemetry.edge.files import MANIFEST, REPORTS
from telemetry.edge.text import Section, cell, code, details, fenced, first_screen, fitting, table, xychart

SHORT_DIFF = 15  # lines that are shown, not folded
LOST = {"keep": "lost", "continue": "still being tested"}
VERDICTS = {**LOST, "blocked": "better, but blocked", "promote": "better too"}
YOUR_TURN = (
    "**Your turn:** merge it, or close it: this text does not come back for this champion. On GitHub, in a comment: "
    "`/ratchet reject <why>` closes it with a reason that the next proposal reads, `/ratchet more` plays the "
    "remaining rounds first, `/ratchet explain <case>` shows one."
)


def body(report: Report) -> str:
    """The whole text: what is asked, at a glance, the change itself, one answer that it changes; the rest folded."""
    winners, several = report.winners, len(report.winners) > 1
    took = [_gained(test.stem if several else "", arm) for test, arm in winners if arm.bill]
    sections = [
        Section(_screen(report), 100),
        *(part for test, arm in winners for part in _shown(test, arm, several)),
        Section("\n".join([*took, circumstances(report.spend, report.metadata)]), 92),
        *(part for test, arm in winners for part in _evidence(test, arm)),
        Section(_others(report), 60, "the other comparisons"),
        *(_lost(test, arm) for test, arm in report.arms if not arm.promoted and arm.cases_used),
        Section(_method(report), 50, "how this was decided"),
        Section(YOUR_TURN if winners else "", 95),
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
    # What wins on a holdout that was asked too often may fit these cases, not the task.
    worn = [
        f"**Worn holdout:** {code(', '.join(test.suites))} has given {test.wear} verdicts since its last fresh case "
        f"(limit {report.settings.wear_limit}); please add cases."
        for test in report.tests
        if test.arms and test.wear > report.settings.wear_limit
    ]
    alert = "[!WARNING]" if worn or (asks and not report.winners) else "[!TIP]" if asks else ""
    return first_screen(alert, *(asks or [_nothing(report)]), *worn)


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


def _nothing(report: Report) -> str:
    verdicts = [arm.verdict for _, arm in report.arms]
    counts = {**LOST, "inconclusive": "inconclusive"}
    told = ", ".join(f"{verdicts.count(one)} {said}" for one, said in counts.items())
    skipped = sum(len(test.skipped) for test in report.tests)
    stop = f" The run stopped early: {cell(report.stop_reason, 300)}." if report.stop_reason else ""
    return f"**Nothing to promote.** {len(verdicts)} challenger(s) compared: {told}, {skipped} not run.{stop}"


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


def _shown(test: Test, arm: Arm, several: bool) -> Iterator[Section]:
    """What stands open: the figures, the change if it is short, and an answer that is another one now."""
    name = f"{test.stem} {arm.name}"
    head = f"### {cell(name)}\n\n" if several else ""
    yield Section(f"{head}{_glance(arm)}", 90)
    if arm.judged:
        whose = "by the night's default model, which is not told whose answer it reads"
        yield Section(f"**Judged by a model:** {arm.judged} of {arm.cases_available} cases, {whose}.", 85)
    if any(not check.passed for check in arm.guardrails):
        yield Section(_guardrails(arm), 85, "the guardrails")
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


def _glance(arm: Arm) -> str:
    """Four rows, for somebody who has a minute."""

    def of_both(share: str) -> list[str]:
        return [f"{fmean(getattr(one, share + side) for one in arm.agents.values()):.1%}" for side in SIDES]

    held, checks = sum(check.passed for check in arm.guardrails), len(arm.guardrails)
    cost = next((check.measured for check in arm.guardrails if check.name == "cost per case"), "")
    flips = f"newly right **{len(arm.newly_right)}**, newly wrong **{len(arm.newly_wrong)}**"
    rows = [
        ["unseen cases right", *of_both("passed_"), flips],
        ["mean score", *of_both(""), f"**{points(arm.effect)}**, {across_families(arm)}"],
        ["cost, p95 per case", *map(_per_case, (arm.champion, arm.challenger)), cell(cost, 80)],
        ["guardrails", "", f"{held} of {checks}", "all held" if held == checks else "**see below**"],
    ]
    return table(["", "champion", cell(arm.name), ""], rows)


def _per_case(figures: Figures) -> str:
    cost, p95 = figures.cost_per_case_usd, figures.p95_latency_ms
    dollars = "unknown" if cost is None else "$0" if cost == 0 else f"${cost:.2g}"
    return f"{dollars}, {'unknown' if p95 is None else f'{p95:,.0f} ms' if p95 >= 10 else f'{p95:.1f} ms'}"


def _guardrails(arm: Arm) -> str:
    checks = [
        [cell(one.name), cell(one.limit), cell(one.measured, 200), "pass" if one.passed else "**fail**"]
        for one in arm.guardrails
    ]
    return table(["guardrail", "limit", "measured", ""], checks)


def _evidence(test: Test, arm: Arm) -> Iterator[Section]:
    """What stands behind a promotion, folded part by part."""
    name = f"{test.stem} {arm.name}"
    drawn = [_side_by_side(arm.agents)] if len(arm.agents) > 1 else []
    rate = ""
    if arm.win_rate is not None:
        within = f"{arm.win_rate_low:.0%} .. {arm.win_rate_high:.0%}"
        rate = f" (win rate {arm.win_rate:.0%}, 95 % interval {within})"
    wins = f"Wins {arm.wins}, ties {arm.ties}, losses {arm.losses}{rate}."
    told = "\n\n".join([by_agent(arm.agents, arm.confidence), *drawn, wins, _guardrails(arm)])
    yield Section(details(f"By agent and guardrail: {name}", told), 55, f"the figures of {name}")
    yield flips_section(f"newly wrong cases of {name}", arm.newly_wrong, 45)
    if len(arm.diff.splitlines()) > SHORT_DIFF:
        yield diff_section(name, arm.diff, "Manifest" if test.model else "Prompt")
    yield flips_section(f"newly right cases of {name}", arm.newly_right, 35)


def _side_by_side(agents: Mapping[str, AgentChange]) -> str:
    """What a change does to each of several agents: as a chart, and as lines of characters where there is none."""
    ends = [end for one in agents.values() for end in (one.ci_low, one.ci_high, 0.0)]
    low, high = math.floor(100 * min(ends)), math.ceil(100 * max(ends))
    bars = ", ".join(f"{100 * one.difference:z.1f}" for one in agents.values())
    names = ", ".join(f'"{name}"' for name in agents)
    up = f'"points" {low} --> {high}'
    chart = xychart("Points by agent", f"[{names}]", up, f"bar [{bars}]", sideways=True)
    wide = max(map(len, agents))
    lines = (
        f"{name:<{wide}} {ruler(one.ci_low, one.difference, one.ci_high, beside=ends)} {points(one.difference)}"
        for name, one in agents.items()
    )
    return f"{chart}\n\n{fenced(chr(10).join(lines))}"


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


def _lost(test: Test, arm: Arm) -> Section:
    """What a challenger that is not promoted changed, in one fold."""
    name = f"{test.stem} {arm.name}"
    flips = (("wrong", arm.newly_wrong), ("right", arm.newly_right))
    told = [f"**Newly {side}:** {len(rows)}\n\n{flips_table(rows)}" for side, rows in flips if rows]
    text = "\n\n".join([fenced(arm.diff, "diff", MAX_DIFF), *told])
    return Section(details(f"What {name} changed", text), 20, f"what {name} changed")


def _method(report: Report) -> str:
    settings = report.settings
    alphas = " or ".join(sorted({f"{arm.alpha:g}" for _, arm in report.arms}))
    needed = " or ".join(odds(one) for one in sorted({arm.e_needed for _, arm in report.arms}))
    margin = max((test.margin for test in report.tests), default=0.0)
    wear = max((test.wear for test in report.tests), default=0)
    null = f'"not better", an effect of at least {points(settings.min_effect)} points'
    if margin:
        null = f'"worse by {100 * margin:g} points or more", a lower cost'
    facts = [
        f"Champion and challengers ran side by side, once per case and round, up to {settings.trials} rounds a "
        f"night and {settings.rounds} in all, each in a random order fixed by seed {settings.seed}; evidence of "
        "earlier nights counts on. Agents count equally, those with fewer than 30 cases less.",
        f"Promotion needs evidence of {needed or 'enough'} against {null} (a betting martingale, valid whenever it "
        f"stops; error rate {alphas} for each challenger), a fresh pass over all cases that agrees, and all "
        "guardrails. An estimate that stopped when it looked good overstates: a promotion's effect and interval are "
        "the fresh pass's.",
        f"All of it for this mix of cases, whose holdout has given {wear} verdicts since it last got fresh ones. "
        f"Only the split {code(settings.split)} was used; proposals never see holdout cases.",
        f"Scoring version {code(str(report.metadata.get('scoring_version')))}, suites and prompts by hash in the "
        "report.",
    ]
    return how_decided(facts, report.command, report.metadata)


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
