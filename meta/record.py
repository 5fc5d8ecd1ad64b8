"""Adds what a run measured to the data branch: only rows that such a run can have measured, the others are counted.

The rows come from a job that ran model-driven code. So a row has to lie within the time of the run, to belong to an
agent of the manifest and to a source that this kind of run writes (`meta/publish/kinds.yaml`); a run that was started
from another branch is recorded under `source: branch/<name>`, where it decides nothing. Exit code 1 if nothing is left.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.cli import job_summary
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import Repo
from telemetry.edge.text import code

if TYPE_CHECKING:
    from telemetry.branch.segments import Bounds, Checked

PROPOSER = "proposer"  # who is named on the rows of a search where the manifest has no agent for it


def bounds(repo: Repo, kind: kinds.Kind, started: str, branch: str) -> Bounds:
    """What a run of that kind can have measured between its start and now."""
    from agents.manifest.check import unchecked
    from telemetry.branch.segments import Bounds

    try:
        start = datetime.fromisoformat(started)
    except ValueError:
        raise BadInput(f"--started {started[:40]!r}: must be a time like 2026-11-16T03:07:00+00:00") from None
    if start.tzinfo is None:
        raise BadInput(f"--started {started}: must have a zone, like +00:00")
    agents = frozenset({entry["name"] for entry in unchecked(repo.root)["agents"]} | {PROPOSER})
    return Bounds(start, datetime.now(UTC), agents, frozenset(kind.sources), branch)


def record(repo: Repo, logs: Mapping[str, Checked], run: str) -> list[str]:
    """Push what was taken, one segment a log; the paths of those that were not there yet."""
    from telemetry.branch import segments
    from telemetry.branch.remote import DataBranch

    day = datetime.now(UTC).date().isoformat()
    files = {segments.name(log, day, one.data, run=run): one.data for log, one in logs.items() if one.taken}
    return DataBranch(repo.root).publish(files, f"Telemetry of {day}: {run}")


def run_name(facts: Mapping[str, str]) -> str:
    """Which run of which workflow, as a part of a file's name."""
    workflow = re.sub(r"[^a-z0-9]+", "-", facts.get("GITHUB_WORKFLOW", "run").lower()).strip("-")[:60]
    numbers = (facts.get("GITHUB_RUN_ID", "0"), facts.get("GITHUB_RUN_ATTEMPT", "1"))
    return "-".join([workflow, *(re.sub(r"\D", "", number) or "0" for number in numbers)])


def foreign_branch(ref: str, default: str) -> str:
    """The branch or tag a run was started from, in plain characters; empty if it is the default branch."""
    name = re.sub(r"^refs/(heads|tags)/", "", ref)
    return "" if name in ("", default) else re.sub(r"[^A-Za-z0-9._/-]", "_", name)[:80]


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("folder", type=Path, metavar="DIR", help="events.jsonl and history.jsonl, as packed")
    flags.add_argument("--kind", required=True, help="kind of the run: " + kinds.names())
    flags.add_argument("--started", required=True, metavar="TIME", help="when the run began")
    flags.add_argument("--ref", default="", help="the branch that the run was started from")
    flags.add_argument("--default-branch", default="", help="the branch whose runs decide")
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from telemetry.branch import segments

    kind = kinds.kind(args.kind)
    try:
        within = bounds(repo, kind, args.started, foreign_branch(args.ref, args.default_branch))
        given = {log: segments.read_bounded(args.folder / f"{log}.jsonl") for log in segments.LOGS}
        logs = {log: segments.checked(log, raw, within) for log, raw in given.items()}
        told = [line for log, one in logs.items() for line in one.told(log)]
        taken = sum(one.taken for one in logs.values())
        if taken:
            new = record(Repo(repo.root.resolve()), logs, run_name(os.environ))
            told.append(f"{taken} rows recorded, {len(new)} new segments on the data branch.")
        else:
            told.append("Nothing was recorded: the run handed over no row that it can have measured.")
    except (BadInput, Stopped) as problem:
        job_summary(f"### {kind.title}: data\n\nNothing was recorded: {code(str(problem), None)}")
        raise
    listed = "\n".join(f"- {code(line, None)}" for line in told)
    job_summary(f"### {kind.title}: data\n\n{listed}")
    cli.tell(args, {"taken": taken, "told": told}, *told)
    return cli.OK if taken else cli.FOUND


if __name__ == "__main__":
    raise SystemExit(main())
