"""Tests challengers against champions, in pairs on unseen cases, and promotes what is better."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from agents.llm_client import add_model_flags, model_options
from eval.ab import ALLOW
from eval.trials.shards import add_shard_flags, one_at_a_time
from telemetry.edge import cli
from telemetry.edge.cli import set_output
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import RESULTS, Repo, here
from telemetry.edge.records import plain

SHARD_TRIALS = 2_000  # that one machine should run; a night with more is worth several
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}")
MAX_SHARDS = 20  # machines at once on GitHub's free plan

if TYPE_CHECKING:
    from eval.ab.record import Arm, Report, Test
    from eval.ab.session import Night


def ab_test_prompts(
    prompt_paths: Sequence[str], min_trials: int = 1, promote_if_delta: float = 0.01
) -> dict[str, Any]:
    """Test these prompts (none: all that have a challenger), promote what is better, and return the report."""
    from eval.ab.session import Night, run_night

    settings = {"trials": min_trials, "min_effect": promote_if_delta}
    night = Night(tuple(map(str, prompt_paths)), only="prompts", settings=settings, quiet=True)
    report: dict[str, Any] = plain(run_night(here(), night))
    return report


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m eval.ab_testing")
    add = made.add_argument
    add("--prompt", action="append", default=[], metavar="FILE", help="only this prompt (repeatable)")
    add(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="compare only this model with those asked now (repeatable)",
    )
    both = "with --model and --prompt: the model under this text of the prompt, beside the champions of both"
    add("--variant", default="", metavar="NAME", help=both)
    kinds = "prompts, or the manifest's challenger_models, only (default: both)"
    add("--only", choices=["prompts", "models"], default="", help=kinds)
    goal = "what another model has to be: better, or cheaper and not worse than by the margin (manifest)"
    add("--goal", choices=["better", "cheaper"], help=goal)
    add(
        "--margin",
        type=float,
        metavar="M",
        help="score that a cheaper model may cost, 0.05 is 5 points (manifest)",
    )
    add("--trials", type=cli.whole(1), metavar="K", help="rounds tonight: trials per case and arm (manifest)")
    add("--rounds", type=cli.whole(1), metavar="N", help="rounds in all, over the nights (manifest)")
    add("--alpha", type=float, metavar="A", help="how often a useless challenger may be promoted (manifest)")
    add("--min-effect", type=float, metavar="E", help="smallest improvement worth having (manifest)")
    halves = "which cases (default: holdout; on any other nothing is promoted)"
    add("--split", choices=["holdout", "tune", "all"], default="holdout", help=halves)
    add_shard_flags(made, RESULTS / "ab_shards")
    add("--allow", action="append", choices=sorted(ALLOW), help="take a winner in spite of this guardrail")
    add(
        "--against",
        metavar="REV",
        help="compare this tree's prompts with those of REV; exit 1 if clearly worse",
    )
    add("--dry-run", action="store_true", help="say what would be compared; no call, nothing written")
    add("--force", action="store_true", help="also pairs that were decided before, from the start")
    add("--allow-unpinned", action="store_true", help="take suites that differ from their pin, this once")
    add_model_flags(made, seed="of the order of cases and of the offline noise")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Run a night, tell what came of it."""
    from eval.ab.record import MAX_LOST
    from eval.ab.session import run_night

    night = _night(args)
    if args.dry_run:
        return _dry_run(repo, night, args)
    try:
        report = run_night(repo, night)
    except KeyboardInterrupt:
        raise Stopped("interrupted; the same command goes on where it was") from None
    _tell(report, args)
    outage = any(arm.verdict == "inconclusive" and arm.failed_calls > MAX_LOST for _, arm in report.arms)
    if report.status == "stopped" or outage:
        return cli.STOPPED
    if report.settings.against and any(arm.ci_high < 0 for _, arm in report.arms):
        return cli.FOUND
    return cli.BAD_INPUT if report.problems and not report.arms else cli.OK


def _tell(report: Report, args: argparse.Namespace) -> None:
    from eval.ab.body import parts
    from eval.ab.figures import figures
    from eval.ab.session import NOTHING

    sentences = [_sentence(test, arm) for test, arm in report.arms] or [NOTHING]
    cli.found("; ".join([*sentences, *report.problems]))
    for problem in report.problems:
        print(f"{'warning' if report.arms else 'error'}: {problem}", file=sys.stderr)
    if report.stop_reason:
        print(f"stopped early: {report.stop_reason}; the same command goes on", file=sys.stderr)
    lines = []
    for test in report.tests:
        for arm in test.arms:
            verdict = "PROMOTED" if arm.promoted else arm.verdict
            lines.append(f"{test.changes} {arm.name}: {verdict}, {figures(arm)}")
        for skip in test.skipped:
            where = f" ({skip.reference})" if skip.reference else ""
            lines.append(f"{test.changes} {skip.variant}: not run, {skip.reason}{where}")
    if args.shard[1] > 1:
        lines.append("shard done; decide with --merge DIR once all are there")
    else:
        written = [f"report: {form.markdown}" for form, part in parts(report) if part.arms]
        lines += ["nothing was written"] if report.settings.against and report.arms else written or [NOTHING]
    cli.tell(args, plain(report), *lines)


def _sentence(test: Test, arm: Arm) -> str:
    """What came of one comparison, in a few words."""
    from eval.ab.figures import points, rounds

    named, gain = f"{test.stem} {arm.name}", f"({points(arm.effect)} points)"
    return {
        "promote": f"promote {named} {gain}" if arm.promoted else f"{named} is better too {gain}",
        "keep": f"champion stays, {named} lost {gain}",
        "continue": f"{named} still being tested {gain}, {rounds(arm)}",
        "blocked": f"{named} is {arm.reason}",
    }.get(arm.verdict, f"{arm.verdict}: {named}, {arm.reason}")


def _dry_run(repo: Repo, night: Night, args: argparse.Namespace) -> int:
    from agents.manifest import load_manifest
    from eval.ab import forecast
    from eval.ab.session import asked, planned
    from eval.ledger.provenance import model_identity

    manifest = load_manifest(repo)
    identity = model_identity(asked(night, manifest).model())
    plan = planned(repo, night, manifest, identity)
    tests, lines = [], []
    for test in plan.tests:
        names = [arm.label.removeprefix("model/") if arm.model else arm.variant.name for arm in test.arms]
        cases = len(test.units(plan.order))
        about = {"prompt": test.prompt, "model": test.model, "agents": test.agents, "challengers": names}
        takes = list(forecast.margins(plan, test)) if test.margin and test.arms else []
        tests.append({**about, "cases": cases, "alpha": test.alpha, "skipped": test.skipped, "takes": takes})
        lines.append(
            f"{test.model or f'{test.prompt}: champion'} against {', '.join(names) or 'nothing new'} "
            f"on {cases} cases of {', '.join(test.agents)}"
        )
        lines += [f"  {line}" for line in takes]
        lines += [f"  {skip.variant}: not run, {skip.reason}" for skip in test.skipped]
    lines.append(f"{forecast.told(plan, asked(night, manifest).max_usd)}; nothing was called or written")
    value = {
        "tests": tests,
        "max_trials": plan.max_calls,
        "max_finish": plan.max_finish,
        "problems": plan.problems,
        "model": identity,
    }
    cli.tell(args, plain(value), *lines)
    if (of := min(MAX_SHARDS, ceil(plan.max_calls / SHARD_TRIALS))) > 1:  # to GitHub: a matrix of shards
        set_output("of", str(of))
        set_output("parts", str(list(range(1, of + 1))))
    return cli.OK


def _night(args: argparse.Namespace) -> Night:
    from eval.ab.session import Night

    one_at_a_time(args)
    flags = ("trials", "rounds", "alpha", "min_effect", "split", "force", "allow_unpinned", "against")
    names = (*flags, "goal", "margin")
    for name in args.model:
        if not MODEL_NAME.fullmatch(name):
            raise BadInput(f"--model {name[:80]!r}: not a model name (letters, digits and . _ : / @ -)")
    return Night(
        prompts=tuple(args.prompt),
        models=tuple(args.model),
        variant=args.variant,
        only=args.only,
        settings={name: getattr(args, name) for name in names} | {"allow": tuple(args.allow or ())},
        ask=model_options(args),
        shard=args.shard,
        merge=args.merge,
        quiet=args.quiet,
    )


if __name__ == "__main__":
    raise SystemExit(main())
