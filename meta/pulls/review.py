"""A person's own change of prompts, compared with the base: one comment, edited in place. Only numbers and names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agents.model.schema import problems, read_schema
from meta.publish.contents import arms
from meta.publish.judge import REPORT, read_bounded
from meta.publish.kinds import KINDS, Kind
from meta.pulls import claims
from meta.pulls.hub import from_environment
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, write_json
from telemetry.edge.records import load_json
from telemetry.edge.text import cell, code, table

MARKER: Final = "<!-- ratchet: prompt review -->"
WORSE: Final = "clearly worse"


def compare(repo: Repo, base: str, folder: Path) -> tuple[int, str]:
    """Run both texts on the same cases and leave the report: 1 only for a proven regression, and what to say."""
    command = [sys.executable, "-m", "eval.ab_testing", "--against", base, "--json"]
    done = subprocess.run(command, cwd=repo.root, stdout=subprocess.PIPE)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return cli.OK, "The comparison could not be run; its log says why. That is no regression."
    write_json(folder / REPORT, report)
    return (cli.FOUND if done.returncode == cli.FOUND else cli.OK), comment(report)


def tell(repo: Repo, folder: Path) -> str:
    """Say it below the pull request that this run is about; what was said."""
    try:
        event = load_json(Path(os.environ.get("GITHUB_EVENT_PATH", "")).read_bytes())
        number = int(event["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput("GITHUB_EVENT_PATH: not the event of a pull request") from None
    told = comment(checked(repo, KINDS["ab_champion"], folder))
    from_environment().say(number, MARKER, told)
    return told


def checked(repo: Repo, kind: Kind, folder: Path) -> Mapping[str, Any]:
    """The report that a run of that kind left, which anybody may have written."""
    report = claims.read(read_bounded(folder / REPORT))
    if wrong := problems(read_schema(repo / kind.schema), report):
        raise BadInput(f"{REPORT}: {wrong[0][:300]}")
    return report


def comment(report: Mapping[str, Any]) -> str:
    """The comparison as a person reads it."""
    rows = list(_rows(report))
    asked = "the **offline model**" if report["metadata"].get("provider") == "offline" else "the model"
    said = [f"### Your prompts beside those of the base, by {asked}"]
    if rows:
        titles = ("prompt", "how it does", "effect, points", "95 % interval", "cases")
        said.append(table(titles, rows, right=3))
    else:
        none = "No prompt that an enabled agent reads differs from the base"
        said.append(f"{none}, so there is nothing to compare.")
    said += [f"- {cell(problem, 300)}" for problem in report["problems"][:10]]
    if report["stop_reason"]:
        said.append(f"Stopped early: {cell(report['stop_reason'], 300)}. What is shown is what was measured.")
    spent = report["spend"]["cost_usd"]
    cost = "at an unknown cost" if spent is None else f"${spent:.4f}"
    said.append(f"{report['spend']['calls']} model calls, {cost}. Only a proven regression fails this check.")
    return "\n\n".join(said)


def _rows(report: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for test, arm in arms(report):
        effect, low, high = (f"{100 * arm[name]:+.1f}" for name in ("effect", "ci_low", "ci_high"))
        yield code(test["prompt"]), _verdict(arm), effect, f"{low} .. {high}", str(arm["cases_used"])


def _verdict(arm: Mapping[str, Any]) -> str:
    if arm["ci_high"] < 0:
        return f"**{WORSE}**"
    return "clearly better" if arm["ci_low"] > 0 else "no clear difference"
