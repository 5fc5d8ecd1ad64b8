"""Can a recommendation be carried out in code? The meta agent writes a patch; only one that holds is left in the tree.

Recommendations come from the last critiques, or from `--recommendation FILE`: {"agent", "change", "why"}. A patch is
tried behind walls: guard, lint, that agent's evals, tests, each with a time limit, on a copy of the tree without
answers, with no secret, no network and no file of ours. Where the platform lacks walls it refuses while a secret is in
the environment. The first one that passes and is not worse stays applied, with
`meta/reports/sandbox_report.{json,md}` as the text of its draft pull request; each rejection says why.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agents.llm_client import add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.records import plain

if TYPE_CHECKING:
    from meta.patches.report import Report

TIME_LIMIT_S = 900.0  # of each command; on a busy machine the tests take minutes


def parser() -> cli.Parser:
    made = cli.Parser(__doc__)
    add, limit, only = made.add_argument, TIME_LIMIT_S, "only patches for this agent (repeatable)"
    add("--agent", action="append", default=[], metavar="NAME", help=only)
    add("--recommendation", type=Path, metavar="FILE", help="carry out this one instead of the critiques'")
    add("--time-limit", type=cli.number(), default=limit, metavar="S", help="of each command (default: 900)")
    add_model_flags(made, seed="of the evals and of the offline noise")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from agents.manifest import load_manifest
    from meta.offline import analysts
    from meta.patches import confine, recommendations
    from meta.patches.bench import Bench

    walls, names = confine.probe(), confine.secrets_present()
    if names and not walls.complete:  # foreign code beside a key, with nothing between them: not run at all
        raise BadInput(f"{', '.join(names)[:200]}: unset it, or run where walls hold (here: {walls.told})")
    manifest = load_manifest(repo)
    for name in args.agent:
        if not manifest.agent(name).sandbox_editable:
            raise BadInput(f"--agent {name}: agents/manifest.yaml does not say sandbox_editable: true")
    given = recommendations.read(repo, args.recommendation)
    if args.agent:
        given = [one for one in given if one.agent in args.agent]
    ask = model_options(args).within(manifest)
    model = ask.model([manifest.agent("meta_agent").model], analysts(manifest))
    bench = Bench(repo, manifest, model, args.time_limit, args.seed)
    if not (args.quiet or args.json):
        bench.say = functools.partial(print, file=sys.stderr)
    return told(repo, bench.run(given, triage=args.recommendation is None), args)


def told(repo: Repo, report: Report, args: argparse.Namespace) -> int:
    """Say what came of it; the exit code."""
    from meta.patches.report import FORM, sentence

    set_output("patched", "true" if report.patched else "false")
    job_summary((repo / FORM.markdown).read_text(encoding="utf-8"))
    lines = [f"  {row.agent}: {'; '.join([row.verdict, *row.reasons])}" for row in report.attempts]
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
