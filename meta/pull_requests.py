"""What became of the pull requests, and what is to be done with an open one? A workflow's steps around publishing.

`read` (read-only token) puts on record what people refused: closed unmerged, or merged and reverted. `hold` says
whether the branch of a kind holds a person's commit, so that it must not be rebuilt. `settle` takes back an open one
that the latest run no longer bears out. `answer` does what a comment asks for (`/ratchet ...`). `compare` runs a
person's own prompts beside those of the base (exit code 1 only for a proven regression), `review` comments on it.
`reject`, on a laptop, refuses a local branch of `meta.night` with a reason.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SCRATCH, Repo
from telemetry.edge.records import load_json
from telemetry.edge.text import cell, code

REPORT = "report.json"  # of the hand-over
MAX_EVENT = 4 << 20  # bytes of the event that a workflow was started by


def parser() -> cli.Parser:
    """The command line."""
    flags = cli.Parser(__doc__)
    flags.add_argument("action", choices=sorted(ACTIONS))
    flags.add_argument("--kind", help="kind of change: " + kinds.names())
    left = "settle, compare, review: what the run leaves"
    flags.add_argument("--handover", type=Path, default=SCRATCH / "review", metavar="DIR", help=left)
    flags.add_argument(
        "--base", default="HEAD^1", metavar="REV", help="compare: whose prompts are the champions"
    )
    flags.add_argument("--why", default="", help="reject: the reason, told to whoever proposes next")
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Do one of them, and say what was done."""
    ended, told = ACTIONS[args.action](args, Repo(repo.root.resolve()))
    if told:
        job_summary(told)
    cli.tell(args, {"action": args.action, "told": told}, told or "Nothing to do.")
    return ended


def _kind(args: argparse.Namespace) -> kinds.Kind:
    if args.kind is None:
        raise BadInput(f"--kind: {args.action} needs one of {kinds.names()}")
    return kinds.kind(args.kind)


Told = tuple[int, str]  # the exit code, and what to say; empty: nothing


def read(args: argparse.Namespace, repo: Repo) -> Told:
    """What people refused since the last look goes on record."""
    from meta.pulls.closed import look
    from meta.pulls.hub import from_environment

    standing = look(from_environment(), repo, _kind(args))
    set_output("open", "true" if standing.open else "false")
    lines = [f"- {code(one.subject)} {cell(one.told)}" for one in standing.refused]
    return cli.OK, "\n".join(["Newly on record:", "", *lines]) if lines else ""


def hold(args: argparse.Namespace, _repo: Repo) -> Told:
    """Whether a person's commit is there."""
    from meta.pulls import settle
    from meta.pulls.hub import from_environment

    told = settle.hold(from_environment(), _kind(args))
    set_output("hold", "true" if told else "false")
    return cli.OK, told


def settle(args: argparse.Namespace, repo: Repo) -> Told:
    """Take back what was overtaken."""
    from meta.pulls import settle
    from meta.pulls.hub import from_environment

    kind = _kind(args)
    return cli.OK, settle.settle(from_environment(), repo, kind, _tonight(args, kind, repo))


def _tonight(args: argparse.Namespace, kind: kinds.Kind, repo: Repo) -> Mapping[str, Any]:
    """The report that the run handed over, if it did and if it is one."""
    from agents.model.schema import problems, read_schema
    from meta.publish.judge import read_bounded
    from meta.pulls import claims

    if not (args.handover / REPORT).exists():
        return {}
    report = claims.read(read_bounded(args.handover / REPORT))
    if wrong := problems(read_schema(repo / kind.schema), report):
        raise BadInput(f"{REPORT}: {wrong[0][:300]}")
    return report


def answer(args: argparse.Namespace, repo: Repo) -> Told:
    """Do what the comment asks for, and say so below it."""
    from eval.ledger import refusals, remarks
    from meta.pulls import commands
    from meta.pulls.hub import from_environment

    path = Path(os.environ.get("GITHUB_EVENT_PATH", ""))
    if not path.is_file() or path.stat().st_size > MAX_EVENT:
        raise BadInput("GITHUB_EVENT_PATH: not the event of a comment")
    hub, event = from_environment(), load_json(path.read_bytes())
    done = commands.answer(hub, repo, event)
    hub.comment(int(event["issue"]["number"]), done.said)
    if done.refused:
        refusals.push(repo, refusals.record(repo, done.refused))
    if done.remarks:
        remarks.push(repo, remarks.record(repo, done.remarks))
    return cli.OK, done.said


def compare(args: argparse.Namespace, repo: Repo) -> Told:
    """Compare a person's own prompts with those of the base."""
    from meta.pulls.review import compare

    ended, told = compare(repo, args.base, args.handover)
    set_output("report", "true" if (args.handover / REPORT).exists() else "false")
    return ended, told


def review(args: argparse.Namespace, repo: Repo) -> Told:
    """Say that below the pull request, as one comment."""
    from meta.pulls.review import tell

    return cli.OK, tell(repo, args.handover)


def reject(args: argparse.Namespace, repo: Repo) -> Told:
    """Refuse a local branch."""
    from meta.nightly.branches import reject

    return cli.OK, reject(repo, _kind(args), args.why)


ACTIONS: Mapping[str, Callable[[argparse.Namespace, Repo], Told]] = {
    one.__name__: one for one in (read, hold, settle, answer, compare, review, reject)
}


if __name__ == "__main__":
    raise SystemExit(main())
