"""How a comparison reads, in reports, on pages and in the log: figures in words, tables, what is folded. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval.ab.record import AgentChange, Arm, Flip, Spend
from telemetry.edge.text import Section, cell, code, details, fenced, table

MAX_FLIPS = 40  # of each kind, in a body; the report has all
MAX_DIFF = 12_000
RULER = 36  # characters
SIDES = ("champion", "challenger")

MOST_ODDS = 1_000_000  # beyond it, digits say nothing more
SEEN_ONLY = 0.03  # a gain on practice cases from which it is told that unseen ones do not bear it out
_SYNTAX = re.compile(r'[\[\]{}"]+')


def points(value: float) -> str:
    """A difference of scores as percentage points with its sign; one just above zero is not shown as zero."""
    shown = f"{100 * value:+.1f}"
    return shown if float(shown) or abs(value) < 5e-5 else f"{100 * value:+.2f}"


def bounds(low: float, high: float) -> str:
    """An interval in points."""
    return f"{points(low)} .. {points(high)}"


def odds(e_value: float) -> str:
    """Evidence as people bet."""
    if e_value > MOST_ODDS:
        return f"over {MOST_ODDS:,}:1"
    return f"{e_value:,.0f}:1" if e_value >= 10 else f"{e_value:.2g}:1"


def percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def ruler(low: float, value: float, high: float, beside: Iterable[float] = ()) -> str:
    """An interval beside zero in characters: it survives e-mail. Rulers that have to show `beside` have one scale."""
    shown = (low, high, 0.0, *beside)
    pad = (max(shown) - min(shown)) * 0.06 or 1.0
    least, most = min(shown) - pad, max(shown) + pad
    marks = ["·"] * RULER

    def place(at: float) -> int:
        return round((at - least) / (most - least) * (RULER - 1))

    marks[place(low) : place(high) + 1] = "─" * (place(high) + 1 - place(low))
    for at, mark in ((low, "├"), (high, "┤"), (value, "●"), (0.0, "0")):
        marks[place(at)] = mark
    return "".join(marks)


def figures(arm: Arm) -> str:
    """A comparison in one line: effect, intervals, evidence, what it stands on, and why it ended."""
    families = f"; {across_families(arm)}" if arm.family_low is not None else ""
    parts = (
        f"{points(arm.effect)} points ({bounds(arm.ci_low, arm.ci_high)}{families})",
        f"evidence {odds(arm.e_value)}, {arm.cases_used} of {arm.cases_available} cases, {rounds(arm)}",
        *(arm.reason, practice(arm)),
    )
    return "; ".join(filter(None, parts))


def rounds(arm: Arm) -> str:
    """How many were played."""
    return f"{arm.rounds} round{'s' * (arm.rounds != 1)}"


def across_families(arm: Arm) -> str:
    """The interval of whoever asks about other cases of these kinds."""
    if arm.family_low is None or arm.family_high is None:
        return f"{arm.families} families: too few to say how they differ"
    return f"{bounds(arm.family_low, arm.family_high)} across {arm.families} families"


def practice(arm: Arm) -> str:
    """What the text gained on the cases it was made with, beside unseen ones; empty where nobody measured it."""
    if arm.lineage is None or (gained := arm.lineage.practice) is None:
        return ""
    seen_only = gained >= SEEN_ONLY and gained > arm.ci_high
    judged = ": it helps mostly with kinds of cases it has seen" if seen_only else ""
    return f"on its practice cases it gained {points(gained)} points{judged}"


def said(preview: str, limit: int) -> str:
    """An answer in plain words: what stands in the JSON, also in one that was cut, without its brackets."""
    return cell(" ".join(_SYNTAX.sub("", preview).split()), limit) or "nothing"


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


def diff_section(name: str, diff: str, what: str = "Prompt") -> Section:
    """What changes in a text, folded."""
    lines = diff.splitlines()
    added, gone = (sum(line[:1] == mark and line[:3] != 3 * mark for line in lines) for mark in "+-")
    change = f"{what} diff of {name} (+{added} -{gone} lines)"
    return Section(details(change, fenced(diff, "diff", MAX_DIFF)), 40, f"the diff of {name}")


def flips_section(title: str, flips: Sequence[Flip], worth: int, arms: Sequence[str] = SIDES) -> Section:
    """Cases that changed sides, with what both arms said, folded."""
    if not flips:
        return Section("")
    told = f"{len(flips)} {title}" if len(flips) > 1 else title.replace("cases", "case", 1)
    return Section(details(f"The {told}", flips_table(flips, arms)), worth, f"the {title}")


def flips_table(flips: Sequence[Flip], arms: Sequence[str] = SIDES) -> str:
    """The same, open."""
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


def how_decided(facts: Iterable[str], command: str, about: Mapping[str, Any]) -> str:
    """The rule in a few sentences, and what to type to get the same again, folded."""
    checkout = f"git checkout {about['git_commit']}\n" if about.get("git_commit") else ""
    text = "\n".join(f"- {fact}" for fact in facts) + "\n\n" + fenced(checkout + command, "sh")
    return details("How this was decided, and how to reproduce it", text)
