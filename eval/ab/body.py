"""The A/B report as a pull-request body: the first screen is enough to decide, the rest is evidence. Pure.

Every number comes from the report; every word that a model wrote is made inert. A body that would grow beyond what
GitHub shows loses whole sections, the least needed first, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from telemetry.edge.markdown import MAX_BODY, cell, code, fenced

MAX_FLIPS = 40  # of each kind, in the body; the report has all
MAX_DIFF = 12_000

Rows = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Section:
    """A piece of the body; the lowest `worth` is dropped first."""

    text: str
    worth: int
    name: str = ""


def body(report: Rows) -> str:
    """The whole text."""
    sections = [_Section(_first_screen(report), 100)]
    promoted = [(test, _winner(test)) for test in report["tests"] if test["promoted"]]
    for test, arm in promoted:
        sections.append(_Section(_tables(test, arm), 90))
    for test, arm in promoted:
        sections += _evidence(test, arm)
    sections.append(_Section(_all_comparisons(report), 60, "the table of all comparisons"))
    for test in report["tests"]:
        for arm in test["arms"]:
            if not arm["promoted"] and arm["cases_used"]:
                sections += _evidence(test, arm, worth=-20)
    sections.append(_Section(_method(report), 50, "how this was decided"))
    return _fitting(sections)


def points(value: float) -> str:
    """A difference of scores as percentage points with its sign; one just above zero is not shown as zero."""
    shown = f"{100 * value:+.1f}"
    return shown if float(shown) or abs(value) < 5e-5 else f"{100 * value:+.2f}"


def bounds(low: float, high: float) -> str:
    """An interval in points."""
    return f"{points(low)} .. {points(high)}"


def _fitting(sections: Iterable[_Section]) -> str:
    kept = [section for section in sections if section.text]
    dropped: list[str] = []
    while sum(len(section.text) + 2 for section in kept) > MAX_BODY - 400 and len(kept) > 1:
        least = min(kept, key=lambda section: (section.worth, -len(section.text)))
        kept.remove(least)
        dropped.append(least.name or "a section")
    if dropped:
        listed = ", ".join(dict.fromkeys(dropped))
        note = f"_Left out to fit: {listed[:300]}; all of it is in `meta/reports/ab_test_report.json`._"
        kept.append(_Section(note, 100))
    return "\n\n".join(section.text for section in kept).rstrip()[: MAX_BODY - 1] + "\n"


def _first_screen(report: Rows) -> str:
    lines: list[str] = []
    for test in report["tests"]:
        if test["promoted"]:
            lines += [*_ask(test, _winner(test)), ">"]
    if not lines:
        lines = [*_nothing(report), ">"]
    return "\n".join([*lines, f"> {_circumstances(report)}"])


def _ask(test: Rows, arm: Rows) -> list[str]:
    cost = next((check["measured"] for check in arm["guardrails"] if check["name"] == "cost per case"), "")
    return [
        f"> **Promote {code(_stem(test))} challenger {cell(arm['variant'])}?** "
        f"**{points(arm['effect'])} points** on unseen cases "
        f"({_percent(arm['confidence'])} interval {bounds(arm['ci_low'], arm['ci_high'])}), "
        f"evidence {_odds(arm['e_value'])}, {arm['cases_used']} of {arm['cases_available']} cases used, "
        f"cost per case {cell(cost)}.",
        f"> **If you merge:** {code(test['prompt'])} becomes challenger {cell(arm['variant'])} from tonight on. "
        "**To undo:** revert this commit; nothing else changes.",
    ]


def _nothing(report: Rows) -> list[str]:
    arms = [arm for test in report["tests"] for arm in test["arms"]]
    counts = {verdict: sum(arm["verdict"] == verdict for arm in arms) for verdict in ("keep", "inconclusive")}
    skipped = sum(len(test["skipped"]) for test in report["tests"])
    told = [f"{counts['keep']} kept out", f"{counts['inconclusive']} inconclusive", f"{skipped} not run"]
    stop = f" The run stopped early: {cell(report['stop_reason'], 300)}." if report["stop_reason"] else ""
    return [f"> **Nothing to promote.** {len(arms)} challenger(s) compared: {', '.join(told)}.{stop}"]


def _circumstances(report: Rows) -> str:
    spend, about = report["spend"], report["metadata"]
    models = about.get("model_answered") or about.get("model_asked") or "none"
    spent = "unknown" if spend["cost_usd"] is None else f"${spend['cost_usd']:.2f}"
    cap = "" if spend["max_usd"] is None else f" of ${spend['max_usd']:.2f}"
    parts = [
        f"Model {code(models if isinstance(models, str) else ', '.join(models))}",
        f"spend {spent}{cap}",
        f"{spend['trials']} trials",
    ]
    if about.get("run_url"):
        parts.append(f"run [#{about['run_id']}]({about['run_url']})")
    if about.get("git_commit"):
        parts.append(
            f"commit {code(about['git_commit'][:7])}" + (" (dirty)" if about.get("git_dirty") else "")
        )
    return ", ".join(parts) + "."


def _tables(test: Rows, arm: Rows) -> str:
    name = cell(arm["variant"])
    rows = [
        f"| {cell(agent)} | {one['cases']} | {one['champion']:.1%} | {one['challenger']:.1%} "
        f"| **{points(one['difference'])}** | {bounds(one['ci_low'], one['ci_high'])} |"
        for agent, one in arm["agents"].items()
    ]
    why = _why(arm)
    return "\n".join(
        [
            f"### {_stem(test)}: challenger {name} against the champion",
            "",
            f"| agent | cases | champion | challenger {name} | difference | {_percent(arm['confidence'])} interval |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            *_guardrails(arm),
            "",
            f"Wins {arm['wins']}, ties {arm['ties']}, losses {arm['losses']}{_win_rate(arm)}. "
            f"Newly right {len(arm['newly_right'])} cases, newly wrong {len(arm['newly_wrong'])}.",
            *(["", why] if why else []),
        ]
    )


def _guardrails(arm: Rows) -> list[str]:
    rows = [
        f"| {cell(check['name'])} | {cell(check['limit'])} | {cell(check['measured'], 200)} "
        f"| {'pass' if check['passed'] else '**fail**'} |"
        for check in arm["guardrails"]
    ]
    return ["| guardrail | limit | measured | |", "|---|---|---|---|", *rows]


def _win_rate(arm: Rows) -> str:
    if arm["win_rate"] is None:
        return ""
    low, high = arm["win_rate_low"], arm["win_rate_high"]
    return f" (win rate {arm['win_rate']:.0%}, 95 % interval {low:.0%} .. {high:.0%})"


def _why(arm: Rows) -> str:
    origin = arm["lineage"]
    if not origin or not origin.get("reason"):
        return ""
    by = f" ({cell(origin['author'], 60)})" if origin.get("author") else ""
    return f"**Why it may be better:** {cell(origin['reason'], 500)}{by}."


def _evidence(test: Rows, arm: Rows, worth: int = 0) -> list[_Section]:
    name = f"{_stem(test)} {arm['variant']}"
    diff = arm["diff"].splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in diff)
    gone = sum(line.startswith("-") and not line.startswith("---") for line in diff)
    change = f"Prompt diff of {cell(name)} (+{added} -{gone} lines)"
    return [
        _flips(f"newly wrong cases of {name}", arm["newly_wrong"], worth + 45),
        _Section(_details(change, fenced(arm["diff"], "diff", MAX_DIFF)), worth + 40, f"the diff of {name}"),
        _flips(f"newly right cases of {name}", arm["newly_right"], worth + 35),
    ]


def _flips(title: str, flips: list[Rows], worth: int) -> _Section:
    if not flips:
        return _Section("", worth)
    rows = [
        f"| {code(flip['case'], 60)} | {code(flip['expected'], 160)} "
        f"| {flip['champion']['score']:.2f} {code(flip['champion']['output_preview'], 160)} "
        f"| {flip['challenger']['score']:.2f} {code(flip['challenger']['output_preview'], 160)} |"
        for flip in flips[:MAX_FLIPS]
    ]
    more = [f"\n… and {len(flips) - MAX_FLIPS} more in the report."] if len(flips) > MAX_FLIPS else []
    table = ["| case | expected | champion | challenger |", "|---|---|---|---|", *rows, *more]
    return _Section(_details(f"The {len(flips)} {cell(title)}", "\n".join(table)), worth, f"the {title}")


def _details(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _all_comparisons(report: Rows) -> str:
    rows = []
    for test in report["tests"]:
        for arm in test["arms"]:
            rows.append(
                f"| {cell(_stem(test))} | {cell(arm['variant'])} | {arm['verdict']} | {points(arm['effect'])} "
                f"| {bounds(arm['ci_low'], arm['ci_high'])} | {_odds(arm['e_value'])} "
                f"| {arm['cases_used']}/{arm['cases_available']} | {cell(arm['reason'], 300)} |"
            )
        for skip in test["skipped"]:
            where = f" ({code(skip['reference'])})" if skip["reference"] else ""
            rows.append(
                f"| {cell(_stem(test))} | {cell(skip['variant'])} | not run | | | | "
                f"| {cell(skip['reason'], 300)}{where} |"
            )
    if not rows:
        return ""
    head = "| prompt | challenger | verdict | points | interval | evidence | cases | why |"
    problems = [f"- {cell(problem, 300)}" for problem in report["problems"]]
    return "\n".join(
        [
            "### All comparisons",
            "",
            head,
            "|---|---|---|---|---|---|---|---|",
            *rows,
            *(["", "Problems:", *problems] if problems else []),
        ]
    )


def _method(report: Rows) -> str:
    about, settings = report["metadata"], report["settings"]
    needed = sorted({arm["e_needed"] for test in report["tests"] for arm in test["arms"]})
    facts = [
        "Champion and challengers ran side by side on every case, "
        f"{settings['trials']} trial(s) each, in a random order fixed by seed {settings['seed']}; every agent "
        "counts equally.",
        "Promotion needs evidence of "
        f'{" or ".join(_odds(one) for one in needed) or "enough"} against "not better" (a betting martingale, '
        f"valid whenever it stops), an effect of at least {points(settings['min_effect'])} points, and all "
        f"guardrails; error rate {settings['alpha']:g} for each prompt, over all of its challengers.",
        f"Intervals hold at the stopping time. Only cases of the split {code(settings['split'])} were used; "
        "proposals never see holdout cases.",
        f"Scoring version {code(str(about.get('scoring_version')))}, suites and prompts by hash in the report.",
    ]
    text = "\n".join(f"- {fact}" for fact in facts)
    commit = about.get("git_commit")
    lines = [f"git checkout {commit}"] if commit else []
    text += f"\n\n{fenced(chr(10).join([*lines, report['command']]), 'sh')}"
    return _details("How this was decided, and how to reproduce it", text)


def _winner(test: Rows) -> Rows:
    arm: Rows = next(arm for arm in test["arms"] if arm["promoted"])
    return arm


def _stem(test: Rows) -> str:
    return str(test["prompt"]).rpartition("/")[2].removesuffix(".md")


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _odds(e_value: float) -> str:
    return f"{e_value:,.0f}:1" if e_value >= 10 else f"{e_value:.2g}:1"
