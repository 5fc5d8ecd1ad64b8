"""The parts of the A/B report's body that hold many figures: the table at a glance, and what is folded. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from eval.ab.figures import across_families, bounds, odds, percent, points, ruler, said
from eval.ab.record import AgentChange, Arm, Figures, Flip, Report, Test
from telemetry.edge.text import Section, cell, code, details, fenced, table, xychart

MAX_FLIPS = 40  # of each kind, in the body; the report has all
MAX_DIFF = 12_000
SHORT_DIFF = 15  # lines that are shown, not folded
SIDES = ("champion", "challenger")


def glance(arm: Arm) -> str:
    """Four rows, for somebody who has a minute."""
    right = [fmean(getattr(one, f"passed_{side}") for one in arm.agents.values()) for side in SIDES]
    held = sum(check.passed for check in arm.guardrails)
    flips = f"newly right **{len(arm.newly_right)}**, newly wrong **{len(arm.newly_wrong)}**"
    rows = [
        ["unseen cases right", *(f"{one:.1%}" for one in right), flips],
        ["mean score", *_means(arm), f"**{points(arm.effect)}**, {across_families(arm)}"],
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
    return [f"{fmean(getattr(one, side) for one in arm.agents.values()):.1%}" for side in SIDES]


def _per_case(figures: Figures) -> str:
    cost, p95 = figures.cost_per_case_usd, figures.p95_latency_ms
    dollars = "unknown" if cost is None else "$0" if cost == 0 else f"${cost:.2g}"
    return f"{dollars}, {'unknown' if p95 is None else f'{p95:,.0f} ms' if p95 >= 10 else f'{p95:.1f} ms'}"


def _measured(arm: Arm, name: str) -> str:
    return cell(next((check.measured for check in arm.guardrails if check.name == name), ""), 80)


def guardrails(arm: Arm) -> str:
    checks = [
        [cell(one.name), cell(one.limit), cell(one.measured, 200), "pass" if one.passed else "**fail**"]
        for one in arm.guardrails
    ]
    return table(["guardrail", "limit", "measured", ""], checks)


def evidence(test: Test, arm: Arm) -> Iterator[Section]:
    """What stands behind a promotion, folded part by part."""
    name = f"{test.stem} {arm.name}"
    figures = f"{_figures(arm)}\n\n{guardrails(arm)}"
    yield Section(details(f"By agent and guardrail: {name}", figures), 55, f"the figures of {name}")
    yield flips_section(f"newly wrong cases of {name}", arm.newly_wrong, 45)
    if len(arm.diff.splitlines()) > SHORT_DIFF:
        yield diff_section(name, arm.diff, 40, "Manifest" if test.model else "Prompt")
    yield flips_section(f"newly right cases of {name}", arm.newly_right, 35)


def by_agent(agents: Mapping[str, AgentChange], confidence: float) -> str:
    """What a change does to each agent; first what a telephone shows of it."""
    titles = ["agent", "points", f"{percent(confidence)} interval", "cases", "passed", "mean score"]
    rows = [
        [
            *(cell(agent), f"**{points(one.difference)}**", bounds(one.ci_low, one.ci_high), str(one.cases)),
            f"{one.passed_champion:.1%} → {one.passed_challenger:.1%}",
            f"{one.champion:.1%} → {one.challenger:.1%}",
        ]
        for agent, one in agents.items()
    ]
    return table(titles, rows)


def _figures(arm: Arm) -> str:
    drawn = f"\n\n{_side_by_side(arm.agents)}" if len(arm.agents) > 1 else ""
    rate = ""
    if arm.win_rate is not None:
        within = f"{arm.win_rate_low:.0%} .. {arm.win_rate_high:.0%}"
        rate = f" (win rate {arm.win_rate:.0%}, 95 % interval {within})"
    told = f"Wins {arm.wins}, ties {arm.ties}, losses {arm.losses}{rate}."
    return f"{by_agent(arm.agents, arm.confidence)}{drawn}\n\n{told}"


def _side_by_side(agents: Mapping[str, AgentChange]) -> str:
    """What a change does to each of several agents: as a chart, and as lines of characters where there is none."""
    ends = [end for one in agents.values() for end in (one.ci_low, one.ci_high, 0.0)]
    low, high = math.floor(100 * min(ends)), math.ceil(100 * max(ends))
    bars = ", ".join(f"{100 * one.difference:z.1f}" for one in agents.values())
    names = ", ".join(f'"{name}"' for name in agents)
    chart = xychart(
        "Points by agent", f"[{names}]", f'"points" {low} --> {high}', f"bar [{bars}]", sideways=True
    )
    wide = max(map(len, agents))
    lines = (
        f"{name:<{wide}} {ruler(one.ci_low, one.difference, one.ci_high, beside=ends)} {points(one.difference)}"
        for name, one in agents.items()
    )
    return f"{chart}\n\n{fenced(chr(10).join(lines))}"


def lost(test: Test, arm: Arm) -> Section:
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


def flips_section(title: str, flips: Sequence[Flip], worth: int, arms: Sequence[str] = SIDES) -> Section:
    """Cases that changed sides, with what both arms said, folded."""
    if not flips:
        return Section("")
    told = f"{len(flips)} {title}" if len(flips) > 1 else title.replace("cases", "case", 1)
    return Section(details(f"The {told}", _flips(flips, arms)), worth, f"the {title}")


def _flips(flips: Sequence[Flip], arms: Sequence[str] = SIDES) -> str:
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


def method(report: Report) -> str:
    about, settings = report.metadata, report.settings
    alphas = sorted({f"{arm.alpha:g}" for _, arm in report.arms})
    needed = " or ".join(odds(one) for one in sorted({arm.e_needed for _, arm in report.arms}))
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
