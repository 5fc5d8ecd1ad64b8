"""The critiques as a pull-request body: what is wrong with whom, new things first. Pure.

Every word of a model is made inert; what an earlier night said already stands in one line with its first date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from telemetry.edge.markdown import cell, code, fitting, quote

Row = Mapping[str, Any]

MARKS = {"high": "**high**", "med": "med", "low": "low"}


def sentence(report: Row) -> str:
    """The finding in one line."""
    issues = _issues(report)
    high = sum(issue["severity"] == "high" for _, issue in issues)
    many = len(report["critiques"])
    critiques = f"{many} critique{'s' * (many != 1)}"
    if not issues:
        return f"No issue in {critiques}."
    return f"{len(issues)} issue{'s' * (len(issues) > 1)} in {critiques}, {high} of high severity."


def markdown(report: Row) -> str:
    """The whole text."""
    today = report["generated_at"][:10]
    issues = _issues(report)
    new = [pair for pair in issues if pair[1]["first_seen"] == today]
    known = [pair for pair in issues if pair[1]["first_seen"] != today]
    parts = [_first_screen(report, new, known)]
    if new:
        parts.append("### New\n\n" + "\n\n".join(_issue(*pair) for pair in new))
    if known:
        parts.append(_known(known))
    parts += [_recommendations(report), _refused(report), _method(report)]
    return fitting(parts, "meta/reports/cross_critiques.json")


def _first_screen(report: Row, new: Sequence[tuple[Row, Row]], known: Sequence[tuple[Row, Row]]) -> str:
    high = sum(issue["severity"] == "high" for _, issue in new)
    lines = [
        f"**{len(new)} new issues**, {high} of high severity; {len(known)} earlier ones are still there.",
        "**If you merge:** only this report changes. The next proposals try to answer it; nothing goes live.",
    ]
    if new:
        critique, issue = new[0]
        lines.append(
            f"**The worst:** {code(critique['target_agent'])}: {cell(issue['title'], 200)} ({code(issue['id'])})."
        )
    model = report["model"]
    asked = (
        "the **offline model**" if "Offline" in str(model.get("provider")) else code(str(model.get("model")))
    )
    lines.append(f"Critics asked {asked}.")
    if report["failed"]:
        pairs = ", ".join(f"{row['critic_agent']} on {row['target_agent']}" for row in report["failed"])
        lines.append(f"Failed tonight, their earlier words are kept: {cell(pairs, 400)}.")
    return "\n".join(f"> {line}" for line in lines)


def _issue(critique: Row, issue: Row) -> str:
    others = f", also seen by {', '.join(map(code, issue['also_by']))}" if issue["also_by"] else ""
    support = "" if issue["supported"] else " _The quotation is not in what the critic was shown._"
    return (
        f"#### {code(critique['target_agent'])}: {cell(issue['title'], 200)}\n\n"
        f"{MARKS[issue['severity']]}, by {code(critique['critic_agent'])}{others}, {code(issue['id'])}.{support}\n\n"
        f"{quote(issue['evidence'], 1000)}\n\n{cell(issue['impact'], 500)}"
    )


def _known(known: Sequence[tuple[Row, Row]]) -> str:
    lines = [
        "### Known, still there",
        "",
        "| agent | issue | severity | first seen | id |",
        "|---|---|---|---|---|",
    ]
    for critique, issue in known:
        lines.append(
            f"| {code(critique['target_agent'])} | {cell(issue['title'], 200)} | {issue['severity']} "
            f"| {cell(issue['first_seen'])} | {code(issue['id'])} |"
        )
    return "\n".join(lines)


def _recommendations(report: Row) -> str:
    rows = [(critique, row) for critique in report["critiques"] for row in critique["recommendations"]]
    if not rows:
        return ""
    rows.sort(key=lambda pair: pair[1]["priority"])
    lines = ["### Recommended", "", "| priority | agent | change | why |", "|---|---|---|---|"]
    for critique, row in rows:
        lines.append(
            f"| {row['priority']} | {code(critique['target_agent'])} | {cell(row['change'], 400)} "
            f"| {cell(row['why'], 300)} |"
        )
    return "\n".join(lines)


def _refused(report: Row) -> str:
    rows = [(critique, row) for critique in report["critiques"] for row in critique["refused"]]
    if not rows:
        return ""
    lines = [
        f"<details><summary>Refused ({len(rows)})</summary>",
        "",
        "| critic | what | why not |",
        "|---|---|---|",
    ]
    for critique, row in rows:
        lines.append(
            f"| {code(critique['critic_agent'])} | {row['kind']}: {cell(row['start'], 120)} "
            f"| {cell(row['reason'], 200)} |"
        )
    return "\n".join([*lines, "", "</details>"])


def _method(report: Row) -> str:
    unseen = ", ".join(f"{row['critic_agent']} on {row['target_agent']}" for row in report["nothing_to_see"])
    nothing = f" Nothing to look at yet for: {cell(unseen, 400)}." if unseen else ""
    return (
        "<details><summary>How this came about, and how to reproduce it</summary>\n\n"
        "Every pair of `critique_pairs` in `agents/manifest.yaml`: the critic sees the colleague's latest output, its "
        "telemetry and the tune cases it fails, never a holdout case. A quotation is looked up in what the critic was "
        "shown; an issue without one is put last. Recommendations that touch a protected path are refused. Issues that "
        "several critics raise are merged; one that an earlier report holds keeps its id and its words."
        f"{nothing}\n\n`python -m meta.critique_loops`\n\n</details>"
    )


def _issues(report: Row) -> list[tuple[Row, Row]]:
    """All issues with their critiques, the supported and severe first."""
    pairs = [(critique, issue) for critique in report["critiques"] for issue in critique["issues"]]
    order = {"high": 0, "med": 1, "low": 2}
    return sorted(pairs, key=lambda pair: (not pair[1]["supported"], order[pair[1]["severity"]]))
