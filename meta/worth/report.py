"""The retirement report as a reviewer meets it: who should go, who may come back, why, and what merging changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from eval.ledger.report import Form
from meta.worth.record import Agent, Report, Rule
from telemetry.edge.files import REPORTS, Repo
from telemetry.edge.text import Section, cell, code, details, first_screen, fitting, some, table, xychart

if TYPE_CHECKING:
    from agents.domain import Column

BLOCKS = "▁▂▃▄▅▆▇█"
MAX_NAMES = 30  # of agents in one sentence of the body
CURVE = 8  # points from which a curve is worth its space
MAX_ROWS = 150  # of the body's table; those to decide on come first
STATES = {
    "candidate": "candidate",
    "revival": "earns its keep again",
    "loud": "loud: its alerts come true no more often than chance",
    "probation": "on probation: below the floor, not certain",
    "active": "active",
    "exempt": "exempt by the manifest",
    "too_few_runs": "too few days to judge",
    "ungraded": "not judged: no signal is described, and its suite was not run",
    "no_telemetry": "in the manifest, but never ran",
    "retired": "retired",
    "not_in_manifest": "in the telemetry, but not in the manifest",
}


WORTH = "worth by its suite, less cost and time,"
BASES = {
    "settled_reward": "settled reward: what came true of what it said",
    "reward_and_pass_rate": "reward, and the pass rate on its suite against that of an empty answer",
    "reward": "reward alone: neither outcomes nor a graded suite are there",
    "pass_rate": "pass rate and cost: neither manifest nor domain says what a signal is",
    "nothing": "nothing: no signal is described, and its suite was not run",
}


def sentence(report: Report) -> str:
    if report.revived:
        return f"Earning their keep again: {', '.join(report.revived)}."
    told = [
        _counted("retirement candidate", [row.agent for row in report.candidates]),
        _counted("loud agent", _in_state(report, "loud")),
        _counted("agent", _in_state(report, "revival"), " worth reviving"),
    ]
    return "; ".join(filter(None, told)) + "." if any(told) else f"{NOBODY} {len(report.agents)} agents."


NOBODY = "No retirement candidate among"


def _counted(what: str, names: Sequence[str], then: str = "") -> str:
    return f"{len(names)} {what}{'s' * (len(names) > 1)}{then}: {', '.join(names)}" if names else ""


def _in_state(report: Report, state: str) -> list[str]:
    return [row.agent for row in report.agents if row.state == state]


def markdown(report: Report, columns: Sequence[Column] = ()) -> str:
    """The pull request's body; `columns` are those that the domain adds to the table."""
    others = (row for row in report.agents if row.state in ("loud", "revival"))
    revived = [row for row in report.agents if row.agent in report.revived]
    shown = revived or [*report.candidates, *others]
    parts = [Section(_evidence(row, report.rule), 40, code(row.agent)) for row in shown]
    parts += [*_table(report, columns), Section(_method(report.rule)), _your_turn(report)]
    return fitting([_headline(report), *parts], str((REVIVAL if report.revived else FORM).path))


_SCHEMA = Path(__file__).parents[1] / "retirement_report.schema.json"
FORM = Form(REPORTS / "retirement_report.json", _SCHEMA, Report, markdown)
REVIVAL = replace(FORM, path=REPORTS / "revival_report.json")


def of_domain(repo: Repo, form: Form[Report] = FORM) -> Form[Report]:
    """The report with the columns of the domain that a checkout's manifest names."""
    from agents.domain import load_domain
    from agents.manifest import load_manifest

    columns = load_domain(load_manifest(repo).domain).columns
    return replace(form, body=partial(markdown, columns=columns))


def revival_of_domain(repo: Repo) -> Form[Report]:
    return of_domain(repo, REVIVAL)


def _failing(row: Agent) -> bool:
    """Whether most of its runs came to nothing: that may be the model's doing."""
    return row.measured is not None and row.measured.own_failures > row.measured.runs / 2


def _headline(report: Report) -> str:
    disabled, revived = _named(report.disabled), _named(report.revived)
    alert = "[!WARNING]" if disabled else "[!TIP]" if revived else ""
    loud, ready = _named(_in_state(report, "loud")), "" if revived else _named(_in_state(report, "revival"))
    certain = f"Evidence of more than {report.rule.convinced:g} to 1 that the reward floor is not earned."
    merged, undo = "", "**To undo:** revert this commit; nothing else changes."
    if revived:
        asked = f"**Bring {revived} back?** Its shadow runs are above the reward floor with 95 % confidence."
        merged = f"{revived} runs again (`enabled: true` in `agents/manifest.yaml`)."
    elif disabled:
        asked = f"**Retire {disabled}?** {certain}"
        merged = f"{disabled} stops running (`enabled: false` in `agents/manifest.yaml`)."
    elif report.candidates:
        asked = f"**Retirement candidates: {_named(row.agent for row in report.candidates)}.** {certain}"
        merged, undo = "only this report changes.", ""
    else:
        nothing = " Nothing to decide." * (not loud and not ready)
        asked, undo = f"**{NOBODY} {len(report.agents)} agents.**{nothing}", ""
    failing = _named(row.agent for row in report.candidates if _failing(row))
    no_better = "Many outcomes, and no better than chance: ask more of the prompt, or retire it."
    offline = "**offline model** (`provider: offline`): it shows the mechanism, not the world."
    return first_screen(
        alert,
        asked,
        merged and f"**If you merge:** {merged}",
        undo,
        failing and f"**Most runs failed: {failing}.** Answers that cannot be read: is it the right model?",
        loud and f"**Loud: {loud}.** {no_better}",
        ready and f"**Worth reviving:** {ready}; a draft of its own sets `enabled: true`.",
        f"Measured on the {offline}" if report.offline else "",
    )


def _your_turn(report: Report) -> Section:
    if report.disabled or report.revived:
        told = "merge it, or close it: the next report asks again only on new evidence."
    elif report.candidates:
        told = (
            "merge it to keep the report, or close it. To retire somebody: run the workflow *Agent retirement* with "
            "`mode: disable`, or `python -m meta.retirement --disable`; both ask you once more."
        )
    else:
        return Section("")
    return Section(f"**Your turn:** {told}", 80)


def chart(title: str, values: Sequence[float], floor: float) -> str:
    """A curve beside its floor as Mermaid draws it."""
    low, high = min([*values, floor, 0.0]), max([*values, floor]) or 0.1
    low, high = math.floor(100 * low) / 100, math.ceil(100 * high) / 100  # a curve stays within its axis
    lines = (", ".join(f"{value:z.3f}" for value in row) for row in (values, [floor] * len(values)))
    across, up = f'"oldest to newest" 1 --> {len(values)}', f'"reward" {low:.2f} --> {high:.2f}'
    return xychart(title, across, up, *(f"line [{line}]" for line in lines))


def _evidence(row: Agent, rule: Rule) -> str:
    """What is known of an agent that somebody has to decide on."""
    measured, listed, unique = row.measured, row.listed, row.unique
    lines = [f"### {code(row.agent)}", ""]
    if measured is not None:
        what, mean = "reward", row.rolling_avg_reward
        if measured.useful_runs is None:
            what, mean = WORTH, sum(row.trend) / len(row.trend) if row.trend else None
        over = f"over its last {row.n} days ({measured.runs} runs): mean **{_figure(mean)}**"
        lines.append(f"`{spark(row.trend)}` {what} {over}, floor {rule.reward_floor:+.3f}.")
        if len(row.trend) >= CURVE:
            lines += ["", chart(f"{row.agent}: reward and floor", row.trend, rule.reward_floor), ""]
        lines.append(f"- Judged by {BASES[measured.basis]}.")
        if measured.settled_reward is not None:
            settled = f"({_pct(measured.settled_share)} of its runs are settled)"
            lines.append(f"- Settled reward: **{_figure(measured.settled_reward)}** {settled}.")
        if measured.pass_rate is not None:
            empty = f"an empty answer passes {_pct(measured.empty_pass_rate)}"
            lines.append(f"- Passes {_pct(measured.pass_rate)} of its suite; {empty}.")
        if measured.lower_bound is not None:
            bound = _figure(measured.lower_bound)
            lines.append(f"- Lower 95 % bound of what it earns in shadow: **{bound}**.")
        elif measured.odds is not None:
            odds = f"{measured.odds:,.0f} to 1 since {measured.since}"
            lines.append(f"- Evidence that it does not earn the floor: {odds}.")
        if measured.longest_silence is not None:
            lines.append(f"- Longest silence: {measured.longest_silence} days without a useful signal.")
    if unique is not None and unique.unique_share is not None:
        lines.append(
            f"- {unique.unique_signals} of its {unique.signals} signals were given by no other agent the same day "
            f"(**{_pct(unique.unique_share)}** unique)."
        )
    if listed is not None and (hit := listed.hits):
        low, high = hit.hit_rate_interval or (None, None)
        lift = f", lift {hit.lift:.1f}x" if hit.lift is not None else ""
        lines.append(
            f"- {_pct(hit.hit_rate)} of its {hit.alerts} alerts came true ({_pct(low)} .. {_pct(high)}), "
            f"base rate {_pct(hit.base_rate)}{lift}."
        )
    if measured is not None and measured.useful_runs is not None:
        useful = f"{measured.useful_runs} of {measured.runs}"
        lines.append(f"- Useful runs: {useful}; cost per useful signal: {_cost(row)}.")
    if measured is not None and measured.own_failures:
        failed = f"{measured.own_failures} of {measured.runs} runs"
        lines.append(
            f"- Failed by its own fault (an answer that cannot be read, an error of its code): {failed}."
        )
    if listed is not None and listed.execution_sensitive:
        lines.append("- `execution_sensitive`: never switched automatically.")
    return "\n".join(lines)


_SHOWN = 5  # columns that fit a pull request, all but the last also on a telephone; the others are folded


def _table(report: Report, columns: Sequence[Column]) -> Iterator[Section]:
    titles = ["agent", "reward", "odds against", "passed (empty)", "days"]
    titles += ["settled", "longest silence", "unique signals", "hit rate (base)"]
    titles += [*(column.title for column in columns), "cost per useful signal"]
    rows = [_cells(row, columns) for row in report.agents[:MAX_ROWS]]
    states = (STATES[row.state] for row in report.agents)
    named = [[f"{own[0]}, {state}", *own[1:_SHOWN]] for own, state in zip(rows, states, strict=False)]
    more = len(report.agents) - len(rows)
    told = f"\n\n_And {more} more agents, all in `{FORM.path}`._" if more else ""
    first = table(titles[:_SHOWN], named, right=_SHOWN - 1)
    yield Section(first + told, 60, "the table of all agents")
    rest = [titles[0], *titles[_SHOWN:]]
    further = table(rest, [[row[0], *row[_SHOWN:]] for row in rows], right=len(rest) - 1)
    yield Section(details("Further figures of all agents", further), 35, "further figures of all agents")


def _cells(row: Agent, columns: Sequence[Column]) -> list[str]:
    hit, measured, found = row.listed.hits if row.listed else None, row.measured, row.columns or {}
    passed, silence = (measured.pass_rate, measured.longest_silence) if measured else (None, None)
    return [
        cell(row.agent, 60),
        _figure(row.rolling_avg_reward),
        _figure(measured.odds if measured else None, "{:,.0f}:1"),
        f"{_pct(passed)} ({_pct(measured.empty_pass_rate)})" if measured and passed is not None else "–",
        str(row.n),
        _figure(measured.settled_reward if measured else None),
        _figure(silence, "{}"),
        _pct(row.unique.unique_share if row.unique else None),
        f"{_pct(hit.hit_rate)} ({_pct(hit.base_rate)})" if hit else "–",
        *(column.shown(found[column.name]) if found.get(column.name) else "–" for column in columns),
        _cost(row),
    ]


def _method(rule: Rule) -> str:
    return details(
        "How this was decided, and how to reproduce it",
        "A day is one observation: the mean over its runs; runs on the same input under the same prompt are one run. "
        f"An agent is a candidate when it has at least {rule.min_n} days and the evidence that it no longer earns "
        f"{rule.reward_floor:g} a day reaches {rule.convinced:g} to 1 within its last {rule.window} days. The evidence "
        "is an e-detector: it may be looked at every week, and an agent that speaks in spells is given more time. "
        f"Counted sources: {', '.join(map(cell, rule.sources))}. Failures of "
        "the endpoint or of a data source are left out; a run the agent broke itself counts as reward 0.\n\n"
        "Where the outcomes of at least half the runs are known, settled reward decides: a signal that came true "
        "counts, one that did not counts against, by odds at which claims at random earn nothing. Else reward decides, "
        "and an agent that passes clearly more of its suite than an empty answer would is no candidate. Where neither "
        "manifest nor domain says what a signal is, a day is worth what the agent passes of its suite beyond an empty "
        "answer (at the upper 95 % bound), less what its runs cost and how long they took. Loud is who "
        f"has outcomes of at least {rule.min_n} alerts that came true no more often than the base rate.\n\n"
        f"`python -m meta.retirement --min-n {rule.min_n} --reward-floor {rule.reward_floor:g} "
        f"--window {rule.window}`",
    )


def spark(values: Sequence[float]) -> str:
    """A line chart one character high, zero-based so that two of them can be compared."""
    top = max([*values, 0.1])
    return "".join(BLOCKS[max(0, min(7, int(value / top * 7.999)))] for value in values)


def _named(agents: Iterable[str]) -> str:
    return some([code(name) for name in agents], MAX_NAMES)


def _figure(value: float | None, form: str = "{:+.3f}") -> str:
    return "–" if value is None else form.format(value)


def _pct(share: float | None) -> str:
    return _figure(None if share is None else 100 * share, "{:.0f}\u00a0%")  # which no line break may part


def _cost(row: Agent) -> str:
    if row.measured is None:
        return "–"
    if (cost := row.measured.cost_per_useful_signal_usd) is not None:
        return f"${cost:.4f}"
    return "unknown" if row.measured.unpriced_runs else "–"
