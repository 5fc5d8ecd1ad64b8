"""Tests promotions of the last 90 days again, on cases that came in since, and demotes what is no better there."""

from __future__ import annotations

import argparse
import sys
from datetime import date
from typing import TYPE_CHECKING

from agents.llm_client import add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import Stopped
from telemetry.edge.files import Repo
from telemetry.edge.records import plain

if TYPE_CHECKING:
    from eval.hindsight.record import Report, Tested
    from eval.hindsight.session import Asked

NOTHING = "no promotion to test again"


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m eval.backtest")
    add = made.add_argument
    add("--prompt", action="append", default=[], metavar="FILE", help="only this prompt (repeatable)")
    add("--dry-run", action="store_true", help="say what is due and what waits; no call, nothing written")
    add("--force", action="store_true", help="also what was tested on these cases before")
    today = "as if it were this day (default: today, UTC)"
    add("--today", type=date.fromisoformat, metavar="YYYY-MM-DD", help=today)
    add_model_flags(made, seed="of the order of cases and of the offline noise")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Test what is due, and tell what came of it."""
    from eval.hindsight.session import Asked, run_backtest

    asked = Asked(tuple(args.prompt), model_options(args), args.force, args.quiet, args.today)
    if args.dry_run:
        return _dry_run(repo, asked, args)
    try:
        report = run_backtest(repo, asked)
    except KeyboardInterrupt:
        raise Stopped("interrupted; the same command goes on where it was") from None
    set_output("demoted", "true" if report and report.demoted else "false")
    if report is None:
        cli.tell(args, {"tests": [], "demoted": []}, cli.found(NOTHING))
        return cli.OK
    _tell(report, args)
    return cli.STOPPED if report.status == "stopped" else cli.OK


def _dry_run(repo: Repo, asked: Asked, args: argparse.Namespace) -> int:
    from eval.hindsight.session import planned

    plan = planned(repo, asked)
    due = [{"prompt": one.prompt, "promotion": one.path, "cases": len(one.units)} for one in plan.promotions]
    lines = [f"{one['prompt']}: {one['promotion']} on {one['cases']} cases" for one in due]
    lines += [f"{one.prompt}: {one.promotion} waits, {one.reason}" for one in plan.waiting]
    cli.tell(args, {"due": due, "waiting": plain(plan.waiting)}, *lines or [NOTHING])
    return cli.OK


def _tell(report: Report, args: argparse.Namespace) -> None:
    from eval.hindsight.body import FORM, body

    job_summary(body(report))
    cli.found("; ".join(map(_sentence, report.tests)))
    if report.stop_reason:
        print(f"stopped early: {report.stop_reason}; the same command goes on", file=sys.stderr)
    lines = [f"{_sentence(one)}: {one.reason}" for one in report.tests]
    cli.tell(args, plain(report), *lines, f"report: {FORM.markdown}")


def _sentence(one: Tested) -> str:
    """What came of one promotion, in a few words."""
    from eval.ab.figures import points

    said = {"demote": "demote", "stands": "stands:"}.get(one.verdict, "inconclusive:")
    return f"{said} {one.stem} {one.name} ({points(one.effect)} points on {one.cases_used} new cases)"


if __name__ == "__main__":
    raise SystemExit(main())
