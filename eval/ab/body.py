"""The A/B report as a pull-request body: the first screen is enough to decide, the rest is evidence. Pure.

Every number comes from the report; every word that a model wrote is made inert. A body that would grow beyond what
GitHub shows loses whole sections, the least needed first, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from eval.ab import ALLOW
from eval.ab.record import Arm, Figures, Flip, Report, Spend, Test
from eval.ledger.report import Form
from telemetry.edge.files import MANIFEST, REPORTS
from telemetry.edge.text import Section, cell, code, details, fenced, first_screen, fitting, table

MAX_FLIPS = 40  # of each kind, in the body; the report has all
MAX_DIFF = 12_000
SHORT_DIFF = 15  # lines that are shown, not folded
MOST_ODDS = 1_000_000  # beyond it, digits say nothing more
SEEN_ONLY = 0.03  # a gain on practice cases from which it is told that unseen ones do not bear it out
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
        *(part for test, arm in report.winners for part in _evidence(test, arm)),
        Section(_others(report), 60, "the other comparisons"),
        *(_lost(test, arm) for test, arm in losers),
        Section(_method(report), 50, "how this was decided"),
        Section(YOUR_TURN if report.winners else "", 95),
    ]
    models = any(test.model for test in report.tests)
    return fitting(sections, str((MODEL_FORM if models else FORM).path))


def points(value: float) -> str:
    """A difference of scores as percentage points with its sign; one just above zero is not shown as zero."""
    shown = f"{100 * value:+.1f}"
    return shown if float(shown) or abs(value) < 5e-5 else f"{100 * value:+.2f}"


def bounds(low: float, high: float) -> str:
    """An interval in points."""
    return f"{points(low)} .. {points(high)}"


def figures(arm: Arm) -> str:
    """A comparison in one line: effect, intervals, evidence, what it stands on, and why it ended."""
    families = f"; {_across_families(arm)}" if arm.family_low is not None else ""
    parts = (
        f"{points(arm.effect)} points ({bounds(arm.ci_low, arm.ci_high)}{families})",
        f"evidence {_odds(arm.e_value)}, {arm.cases_used} of {arm.cases_available} cases, {rounds(arm)}",
        *(arm.reason, practice(arm)),
    )
    return "; ".join(filter(None, parts))


def rounds(arm: Arm) -> str:
    """How many were played."""
    return f"{arm.rounds} round{'s' * (arm.rounds != 1)}"


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
        f"({_percent(arm.confidence)} interval {bounds(arm.ci_low, arm.ci_high)}){shown_to_be}, "
        f"evidence {_odds(arm.e_value)}.",
        code(ruler(arm.ci_low, arm.effect, arm.ci_high)),
        f"**If you merge:** {becomes} **To undo:** revert the commit; nothing else changes.",
    ]


def ruler(low: float, value: float, high: float, width: int = 36) -> str:
    """An interval beside zero in characters: it survives e-mail."""
    least, most = min(low, 0.0), max(high, 0.0)
    pad = (most - least) * 0.06 or 1.0
    least, most = least - pad, most + pad
    marks = ["·"] * width

    def place(at: float) -> int:
        return round((at - least) / (most - least) * (width - 1))

    marks[place(low) : place(high) + 1] = "─" * (place(high) + 1 - place(low))
    for at, mark in ((low, "├"), (high, "┤"), (value, "●"), (0.0, "0")):
        marks[place(at)] = mark
    return "".join(marks)


def _across_families(arm: Arm) -> str:
    """The interval of whoever asks about other cases of these kinds."""
    if arm.family_low is None or arm.family_high is None:
        return f"{arm.families} families: too few to say how they differ"
    return f"{bounds(arm.family_low, arm.family_high)} across {arm.families} families"


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


def circumstances(spend: Spend, about: Mapping[str, Any]) -> str:
    """Which model, at which cost, in which run, of which commit."""
    models = about.get("model_answered") or about.get("model_asked") or "none"
    spent = "unknown" if spend.cost_usd is None else f"${spend.cost_usd:.2f}"
    cap = "" if spend.max_usd is None else f" of ${spend.max_usd:.2f}"
    parts = [
        f"Model {code(models if isinstance(models, str) else ', '.join(models))}",
        f"spend {spent}{cap}",
        f"{spend.trials} trials",
    ]
    if about.get("run_url"):
        parts.append(f"run [#{about['run_id']}]({about['run_url']})")
    if commit := about.get("git_commit"):
        parts.append(f"commit {code(commit[:7])}" + (" (dirty)" if about.get("git_dirty") else ""))
    return ", ".join(parts) + "."


def _shown(test: Test, arm: Arm, several: bool) -> Iterator[Section]:
    """What stands open: the figures, the change if it is short, and an answer that is another one now."""
    name = f"{test.stem} {arm.name}"
    head = f"### {cell(name)}\n\n" if several else ""
    yield Section(f"{head}{_glance(arm)}", 90)
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


def practice(arm: Arm) -> str:
    """What the text gained on the cases it was made with, beside unseen ones; empty where nobody measured it."""
    if arm.lineage is None or (gained := arm.lineage.practice) is None:
        return ""
    seen_only = gained >= SEEN_ONLY and gained > arm.ci_high
    judged = ": it helps mostly with kinds of cases it has seen" if seen_only else ""
    return f"on its practice cases it gained {points(gained)} points{judged}"


_SYNTAX = re.compile(r'[\[\]{}"]+')


def said(preview: str, limit: int) -> str:
    """An answer in plain words: what stands in the JSON, also in one that was cut, without its brackets."""
    return cell(" ".join(_SYNTAX.sub("", preview).split()), limit) or "nothing"


def _glance(arm: Arm) -> str:
    """Four rows, for somebody who has a minute."""
    sides = ("champion", "challenger")
    right = [fmean(getattr(one, f"passed_{side}") for one in arm.agents.values()) for side in sides]
    held = sum(check.passed for check in arm.guardrails)
    flips = f"newly right **{len(arm.newly_right)}**, newly wrong **{len(arm.newly_wrong)}**"
    rows = [
        ["unseen cases right", *(f"{one:.1%}" for one in right), flips],
        ["mean score", *_means(arm), f"**{points(arm.effect)}**, {_across_families(arm)}"],
        [
            "cost, p95 per case",
            *map(_per_case, (arm.champion, arm.challenger)),
            _measured(arm, "cost per case"),
        ],
        [
            "guardrails",
            "",
            f"{held} of {len(arm.guardrails)}",
            "all held" if held == len(arm.guardrails) else "**see below**",
        ],
    ]
    return table(["", "champion", cell(arm.name), ""], rows)


def _means(arm: Arm) -> list[str]:
    sides = ("champion", "challenger")
    return [f"{fmean(getattr(one, side) for one in arm.agents.values()):.1%}" for side in sides]


def _per_case(figures: Figures) -> str:
    cost, p95 = figures.cost_per_case_usd, figures.p95_latency_ms
    dollars = "unknown" if cost is None else "$0" if cost == 0 else f"${cost:.2g}"
    return f"{dollars}, {'unknown' if p95 is None else f'{p95:,.0f} ms' if p95 >= 10 else f'{p95:.1f} ms'}"


def _measured(arm: Arm, name: str) -> str:
    return cell(next((check.measured for check in arm.guardrails if check.name == name), ""), 80)


def _guardrails(arm: Arm) -> str:
    checks = [
        [cell(one.name), cell(one.limit), cell(one.measured, 200), "pass" if one.passed else "**fail**"]
        for one in arm.guardrails
    ]
    return table(["guardrail", "limit", "measured", ""], checks)


def _by_agent(arm: Arm) -> str:
    titles = ["agent", "cases", "passed", "mean score", "difference", f"{_percent(arm.confidence)} interval"]
    rows = [
        [
            *(cell(agent), str(one.cases), f"{one.passed_champion:.1%} -> {one.passed_challenger:.1%}"),
            *(f"{one.champion:.1%} -> {one.challenger:.1%}", f"**{points(one.difference)}**"),
            bounds(one.ci_low, one.ci_high),
        ]
        for agent, one in arm.agents.items()
    ]
    rate = ""
    if arm.win_rate is not None:
        within = f"{arm.win_rate_low:.0%} .. {arm.win_rate_high:.0%}"
        rate = f" (win rate {arm.win_rate:.0%}, 95 % interval {within})"
    return f"{table(titles, rows)}\n\nWins {arm.wins}, ties {arm.ties}, losses {arm.losses}{rate}."


def _evidence(test: Test, arm: Arm) -> Iterator[Section]:
    """What stands behind a promotion, folded part by part."""
    name = f"{test.stem} {arm.name}"
    figures = f"{_by_agent(arm)}\n\n{_guardrails(arm)}"
    yield Section(details(f"By agent and guardrail: {name}", figures), 55, f"the figures of {name}")
    yield flips_section(f"newly wrong cases of {name}", arm.newly_wrong, 45)
    if len(arm.diff.splitlines()) > SHORT_DIFF:
        yield diff_section(name, arm.diff, 40, "Manifest" if test.model else "Prompt")
    yield flips_section(f"newly right cases of {name}", arm.newly_right, 35)


def _lost(test: Test, arm: Arm) -> Section:
    """What a challenger that is not promoted changed, in one fold."""
    name = f"{test.stem} {arm.name}"
    flips = (("wrong", arm.newly_wrong), ("right", arm.newly_right))
    told = [f"**Newly {side}:** {len(rows)}\n\n{_flips(rows)}" for side, rows in flips if rows]
    text = "\n\n".join([fenced(arm.diff, "diff", MAX_DIFF), *told])
    return Section(details(f"What {name} changed", text), 20, f"what {name} changed")


def diff_section(name: str, diff: str, worth: int, what: str = "Prompt") -> Section:
    """What changes in a text, folded."""
    lines = diff.splitlines()
    added, gone = (sum(line[:1] == mark and line[:3] != 3 * mark for line in lines) for mark in "+-")
    change = f"{what} diff of {name} (+{added} -{gone} lines)"
    return Section(details(change, fenced(diff, "diff", MAX_DIFF)), worth, f"the diff of {name}")


def flips_section(
    title: str, flips: Sequence[Flip], worth: int, arms: Sequence[str] = ("champion", "challenger")
) -> Section:
    """Cases that changed sides, with what both arms said, folded."""
    if not flips:
        return Section("")
    return Section(details(f"The {len(flips)} {title}", _flips(flips, arms)), worth, f"the {title}")


def _flips(flips: Sequence[Flip], arms: Sequence[str] = ("champion", "challenger")) -> str:
    rows = [
        [
            code(flip.case, 60),
            said(flip.why or flip.expected, 160),
            *(f"{arm.score:.2f} {said(arm.output_preview, 160)}" for arm in (flip.champion, flip.challenger)),
        ]
        for flip in flips[:MAX_FLIPS]
    ]
    more = f"\n\n… and {len(flips) - MAX_FLIPS} more in the report." if len(flips) > MAX_FLIPS else ""
    return table(["case", "what was wrong", *arms], rows) + more


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


def _method(report: Report) -> str:
    about, settings = report.metadata, report.settings
    alphas = sorted({f"{arm.alpha:g}" for _, arm in report.arms})
    needed = " or ".join(_odds(one) for one in sorted({arm.e_needed for _, arm in report.arms}))
    facts = [
        f"Champion and challengers ran side by side, once per case and round, up to {settings.trials} rounds a "
        f"night and {settings.rounds} in all, each in a random order fixed by seed {settings.seed}; evidence of "
        "earlier nights counts on. Agents count equally, those with fewer than 30 cases less.",
        f"Promotion needs evidence of {needed or 'enough'} against {_null(report)} (a betting martingale, "
        f"valid whenever it stops; error rate {' or '.join(alphas)} for each challenger), a fresh pass over all "
        f"cases that agrees, and all guardrails. An "
        "estimate that stopped when it looked good overstates: a promotion's effect and interval are the fresh pass's.",
        f"All of it for this mix of cases{_wear(report)}. Only the split {code(settings.split)} was used; "
        "proposals never see holdout cases.",
        f"Scoring version {code(str(about.get('scoring_version')))}, suites and prompts by hash in the report.",
    ]
    checkout = f"git checkout {about['git_commit']}\n" if about.get("git_commit") else ""
    text = "\n".join(f"- {fact}" for fact in facts) + "\n\n" + fenced(checkout + report.command, "sh")
    return details("How this was decided, and how to reproduce it", text)


def _null(report: Report) -> str:
    """What had to be refuted."""
    margin = max((test.margin for test in report.tests), default=0.0)
    better = f'"not better", an effect of at least {points(report.settings.min_effect)} points'
    return f'"worse by {100 * margin:g} points or more", a lower cost' if margin else better


def _wear(report: Report) -> str:
    most = max((test.wear for test in report.tests), default=0)
    return f", whose holdout has given {most} verdicts since it last got fresh ones"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _odds(e_value: float) -> str:
    if e_value > MOST_ODDS:
        return f"over {MOST_ODDS:,}:1"
    return f"{e_value:,.0f}:1" if e_value >= 10 else f"{e_value:.2g}:1"


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
