"""Makes new eval cases of runs in the field whose right answer is known by now, for a person to confirm.

What came true, what a person corrected, and where agents, rounds or models disagree; each with input, answer and a
proposed label. They enter their suite as `fresh`, dated, test promotions, and join tune or holdout after 90 days.
`--correct RUN --right A,B` puts on record what a run should have named (`none`: nothing), `--why` in your words;
with `--case` instead of a run, the words go to whoever proposes prompts.
"""

from __future__ import annotations

import argparse
from datetime import date
from typing import TYPE_CHECKING

from eval.field import DAYS, MOST
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.records import plain

if TYPE_CHECKING:
    from eval.field.record import Report


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m eval.harvest")
    add = made.add_argument
    most, days = "cases in one pull request (%(default)s)", "look at the runs of so many days (%(default)s)"
    add("--most", type=cli.whole(1), default=MOST, metavar="N", help=most)
    add("--days", type=cli.whole(1), default=DAYS, metavar="N", help=days)
    add("--dry-run", action="store_true", help="say what would be added; nothing is written")
    today = "as if it were this day (default: today, UTC)"
    add("--today", type=date.fromisoformat, metavar="YYYY-MM-DD", help=today)
    add("--correct", metavar="RUN", help="put on record what this run should have said")
    add("--case", metavar="ID", help="put on record what you say of this case")
    add("--right", default="", metavar="A,B", help="--correct: what a right answer names; none for nothing")
    add("--why", default="", help="--correct, --case: your words")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Harvest, or put a correction on record."""
    if args.correct or args.case:
        return _remark(args, repo)
    from eval.field.session import Asked, harvest

    asked = Asked(args.most, args.days, *filter(None, [args.today]))
    report = harvest(repo, asked, dry_run=args.dry_run)
    set_output("harvested", "true" if report.cases or report.settled else "false")
    _tell(report, args)
    return cli.OK


def _remark(args: argparse.Namespace, repo: Repo) -> int:
    from eval.ledger.remarks import Remark, fits, record

    subject = args.correct or args.case
    if not fits(subject, args.right) or (args.correct and not args.right):
        raise BadInput(
            "--correct RUN needs --right: what it should have named, by commas, no spaces (or none)"
        )
    if args.case and not args.why:
        raise BadInput("--case: needs --why, your words")
    record(repo, [Remark(subject, args.why, args.right if args.correct else "")])
    cli.tell(args, {"subject": subject}, f"{subject}: on record; the next harvest or proposal reads it")
    return cli.OK


def _tell(report: Report, args: argparse.Namespace) -> None:
    from eval.field.body import FORM, body, sentence

    if report.cases or report.settled:
        job_summary(body(report))
    lines = [f"{one.agent} {one.day} {one.id}: {one.expect} ({one.why})" for one in report.cases]
    left = [f"left out, {name}: {count}" for name, count in report.left_out.items() if count]
    where = [] if args.dry_run or not (report.cases or report.settled) else [f"report: {FORM.markdown}"]
    cli.tell(args, plain(report), *lines, *left, cli.found(sentence(report)), *where)


if __name__ == "__main__":
    raise SystemExit(main())
