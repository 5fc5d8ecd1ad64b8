"""The proposals as a pull-request body: what is to be tested, why, and that nothing goes live. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from telemetry.edge.markdown import cell, code, fenced, fitting

Row = Mapping[str, Any]

MAX_DIFF = 8_000


def sentence(report: Row) -> str:
    """The finding in one line."""
    if not report["proposals"]:
        return "No new challenger."
    names = ", ".join(f"{_stem(row)} {row['variant']}" for row in report["proposals"])
    return f"{len(report['proposals'])} new challenger{'s' * (len(report['proposals']) > 1)}: {names}."


def markdown(report: Row) -> str:
    """The whole text."""
    parts = [_first_screen(report)]
    if report["proposals"]:
        parts.append(_table(report))
    parts += [_proposal(row) for row in report["proposals"]]
    parts += [_left_over(report), _method()]
    return fitting(parts, "meta/reports/proposals.json")


def _first_screen(report: Row) -> str:
    rows = report["proposals"]
    names = ", ".join(f"{code(_stem(row))} {cell(row['variant'])}" for row in rows)
    lines = [
        f"**Test {'these challengers' if len(rows) > 1 else 'this challenger'}?** {names}" if rows else ""
    ]
    if rows:
        best = max(rows, key=lambda row: _points(row))
        lines.append(
            f"On practice cases (*tune*) up to **{_points(best):+.1f} points** ({code(_stem(best))}: "
            f"{best['tune']['before']['passed']} -> {best['tune']['after']['passed']} of {best['tune']['cases']})."
        )
    if report["cleared"]:
        lost = ", ".join(f"{code(_stem(row))} {cell(row['variant'])}" for row in report["cleared"])
        lines.append(f"Out of the race, because they lost: {lost}.")
    lines.append(
        "**If you merge:** they only become challengers. The next A/B test compares each with its champion"
        " on cases that nobody who proposes has seen, and asks you again before it changes a live prompt."
    )
    lines.append("**To undo:** revert this commit.")
    offline = "Offline" in str(report["model"].get("provider"))
    lines.append(
        f"Written by {'the **offline model**' if offline else code(str(report['model'].get('model')))}."
    )
    return "\n".join(f"> {line}" for line in lines if line)


def _table(report: Row) -> str:
    lines = [
        "| prompt | challenger | tune before | tune after | difference | newly right | newly wrong | lines |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in report["proposals"]:
        tune = row["tune"]
        lines.append(
            f"| {code(row['prompt'])} | {cell(row['variant'])} | {_rate(tune, 'before')} | {_rate(tune, 'after')} "
            f"| **{_points(row):+.1f}** | {tune['newly_right']} | {tune['newly_wrong']} "
            f"| +{row['lines_added']} -{row['lines_removed']} |"
        )
    return "\n".join(lines)


def _proposal(row: Row) -> str:
    answers = ", ".join(map(code, row["answers"]))
    kinds = ", ".join(f"{cell(name)} ({count})" for name, count in row["tune"]["mended_kinds"].items())
    changes = "\n".join(f"- {cell(change, 300)}" for change in row["changes"])
    return "\n\n".join(
        part
        for part in (
            f"### {code(_stem(row))} {cell(row['variant'])}",
            f"**Why it may be better:** {cell(row['reason'], 600)}",
            f"Answers {answers}." if answers else "",
            f"Mended kinds of cases: {kinds}." if kinds else "",
            changes,
            f"<details><summary>Prompt diff (+{row['lines_added']} -{row['lines_removed']} lines)</summary>\n\n"
            f"{fenced(row['diff'], 'diff', MAX_DIFF)}\n\n</details>",
        )
        if part
    )


def _left_over(report: Row) -> str:
    rows = [*report["skipped"], *report["refused"]]
    if not rows:
        return ""
    lines = [f"- {code(_stem(row))}: {cell(row['reason'], 300)}" for row in rows[:40]]
    return "\n".join(["<details><summary>Not proposed, and why</summary>", "", *lines, "", "</details>"])


def _method() -> str:
    return (
        "<details><summary>How these came about, and how to reproduce it</summary>\n\n"
        "For every prompt that fails tune cases: the model sees them, the critiques and what was tried before, and "
        "proposes changes. Each is tried in memory on tune cases and kept if it mends more than it breaks in both "
        "halves of them. Before a text is written it is checked: sections, rules block and output words kept, few "
        "lines changed, no protected path, no secret, no copy of a case or its id, no text that was tried before. A "
        "challenger that lost gives its letter "
        "to the next one.\n\n`python -m meta.propose`\n\n</details>"
    )


def _stem(row: Row) -> str:
    return PurePosixPath(row["prompt"]).stem


def _rate(tune: Row, which: str) -> str:
    return f"{100 * tune[which]['passed'] / tune['cases']:.1f} %"


def _points(row: Row) -> float:
    tune = row["tune"]
    difference: float = 100 * (tune["after"]["passed"] - tune["before"]["passed"]) / tune["cases"]
    return difference
