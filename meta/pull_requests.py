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
from pathlib import Path
from typing import TYPE_CHECKING

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SCRATCH, Repo
from telemetry.edge.records import load_json
from telemetry.edge.text import cell, code

if TYPE_CHECKING:
    from meta.pulls.hub import Hub

ACTIONS = ("answer", "compare", "hold", "read", "reject", "review", "settle")
MAX_EVENT = 4 << 20  # bytes of the event that a workflow was started by


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("action", choices=ACTIONS)
    flags.add_argument("--kind", help="kind of change: " + kinds.names())
    left, base = "settle, compare, review: what the run leaves", "compare: whose prompts are the champions"
    flags.add_argument("--handover", type=Path, default=SCRATCH / "review", metavar="DIR", help=left)
    flags.add_argument("--base", default="HEAD^1", metavar="REV", help=base)
    flags.add_argument("--why", default="", help="reject: the reason, told to whoever proposes next")
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    ended, told = _done(args, Repo(repo.root.resolve()))
    if told:
        job_summary(told)
    cli.tell(args, {"action": args.action, "told": told}, told or "Nothing to do.")
    return ended


def _done(args: argparse.Namespace, repo: Repo) -> tuple[int, str]:
    """Do it: the exit code, and what to say; empty when there was nothing to do."""
    from meta.publish.judge import REPORT
    from meta.pulls import closed, review, settle
    from meta.pulls.hub import from_environment

    match args.action:
        case "read":
            opened, refused = closed.look(from_environment(), repo, _kind(args))
            set_output("open", "true" if opened else "false")
            lines = [f"- {code(one.subject)} {cell(one.told)}" for one in refused]
            return cli.OK, "\n".join(["Newly on record:", "", *lines]) if lines else ""
        case "hold":
            told = settle.hold(from_environment(), _kind(args))
            set_output("hold", "true" if told else "false")
            return cli.OK, told
        case "settle":
            kind, handed = _kind(args), (args.handover / REPORT).exists()
            tonight = review.checked(repo, kind, args.handover) if handed else {}
            return cli.OK, settle.settle(from_environment(), repo, kind, tonight)
        case "compare":
            ended, told = review.compare(repo, args.base, args.handover)
            set_output("report", "true" if (args.handover / REPORT).exists() else "false")
            return ended, told
        case "review":
            return cli.OK, review.tell(repo, args.handover)
        case "reject":
            from meta.nightly import branches

            return cli.OK, branches.reject(repo, _kind(args), args.why)
        case _:
            return cli.OK, _answered(from_environment(), repo)


def _kind(args: argparse.Namespace) -> kinds.Kind:
    if args.kind is None:
        raise BadInput(f"--kind: {args.action} needs one of {kinds.names()}")
    return kinds.kind(args.kind)


def _answered(hub: Hub, repo: Repo) -> str:
    """Do what the comment asks for that started this workflow, and say so below it."""
    from eval.ledger import refusals, remarks
    from meta.pulls import commands

    path = Path(os.environ.get("GITHUB_EVENT_PATH", ""))
    if not path.is_file() or path.stat().st_size > MAX_EVENT:
        raise BadInput("GITHUB_EVENT_PATH: not the event of a comment")
    event = load_json(path.read_bytes())
    done = commands.answer(hub, repo, event)
    hub.comment(int(event["issue"]["number"]), done.said)
    if done.refused:
        refusals.push(repo, refusals.record(repo, done.refused))
    if done.remarks:
        remarks.push(repo, remarks.record(repo, done.remarks))
    return done.said


if __name__ == "__main__":
    raise SystemExit(main())
