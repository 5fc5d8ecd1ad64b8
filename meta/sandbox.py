"""Can a recommendation be carried out in code? The meta agent writes a patch; only one that holds is left in the tree.

Recommendations come from the last critiques, or from `--recommendation FILE`: {"agent", "change", "why"}. A patch is
tried in a throw-away worktree: guard, lint, that agent's evals, tests, each with a time limit, no secret in its
environment and no network where the platform allows. The first one that passes and is not worse stays applied, with
`meta/reports/sandbox_report.{json,md}` as the text of its draft pull request; each rejection says why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agents.llm_client import add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.records import plain

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from agents.model.call import Model
    from meta.patches.recommendations import Recommendation
    from meta.patches.report import Report
    from meta.patches.trial import Commands

TIME_LIMIT_S = 900.0  # of each command; the whole test suite takes minutes on two cores


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m meta.sandbox")
    add, limit = made.add_argument, TIME_LIMIT_S
    add(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="only patches for this agent (repeatable)",
    )
    add("--recommendation", type=Path, metavar="FILE", help="carry out this one instead of the critiques'")
    add("--time-limit", type=cli.number(), default=limit, metavar="S", help="of each command (default: 900)")
    add_model_flags(made, seed="of the evals and of the offline noise", without=["--concurrency"])
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Read, try, leave what holds, tell."""
    from agents.manifest import load_manifest
    from meta.offline import analysts
    from meta.patches import recommendations

    manifest = load_manifest(repo)
    for name in args.agent:
        if not manifest.agent(name).sandbox_editable:
            raise BadInput(f"--agent {name}: agents/manifest.yaml does not say sandbox_editable: true")
    given = recommendations.read(repo, args.recommendation)
    ask = model_options(args).within(manifest.budget)
    report = run(
        repo,
        given,
        manifest,
        ask.model([manifest.agent("meta_agent").model], analysts(manifest)),
        only=args.agent,
        triage=args.recommendation is None,
        time_limit_s=args.time_limit,
        seed=args.seed,
        say=None if args.quiet or args.json else lambda line: print(line, file=sys.stderr),
    )
    return told(repo, report, args)


def run(
    repo: Repo,
    given: Sequence[Recommendation],
    manifest: Manifest,
    model: Model,
    *,
    only: Sequence[str] = (),
    triage: bool = True,
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
    commands: Commands | None = None,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Try recommendations until a patch holds, leave it in the tree, and write the report, which is returned."""
    import asyncio

    from eval.ledger.provenance import GitState
    from meta.patches.bench import Bench
    from meta.patches.outcome import write
    from telemetry import logger

    git_state = GitState(repo)
    bench = Bench(repo, manifest, model, time_limit_s, seed, commands, say or (lambda _: None))
    with logger.source("critique"):
        done = asyncio.run(bench.all(given, only, triage))
    return write(repo, done, git_state, time_limit_s=time_limit_s, seed=seed)


def told(repo: Repo, report: Report, args: argparse.Namespace) -> int:
    """Say what came of it; the exit code."""
    from meta.patches.report import FORM, sentence

    set_output("patched", "true" if report.patched else "false")
    job_summary((repo / FORM.markdown).read_text(encoding="utf-8"))
    lines = [
        f"  {row.agent}: {row.verdict}{''.join(f'; {why}' for why in row.reasons)}" for row in report.attempts
    ]
    lines += [f"  {row.agent}: not tried: {row.reason}" for row in report.set_aside]
    cli.tell(args, plain(report), sentence(report), *lines)
    if report.stopped:
        print(f"stopped early: {report.stopped}", file=sys.stderr)
        return cli.STOPPED
    if not report.patched and any(row.verdict == "inconclusive" for row in report.attempts):
        print("inconclusive: a check fails without any patch, too", file=sys.stderr)
        return cli.STOPPED
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
