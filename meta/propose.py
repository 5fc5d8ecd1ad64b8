"""Which challenger could beat each champion? Asks the model for changes, screens them on tune cases, keeps the best.

Nothing goes live: a challenger competes in the next A/B test, on cases that no proposal has seen. A prompt whose
challengers lost is searched less often, but never given up. Writes variants, lineage and
`meta/reports/proposals.{json,md}`, or nothing.
"""

from __future__ import annotations

import argparse
import functools
import sys
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from agents.llm_client import add_model_flags, model_options
from meta.proposals.options import Options
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.files import Repo, here
from telemetry.edge.records import plain

if TYPE_CHECKING:
    from agents.model.call import Model
    from meta.proposals.report import Report


def propose(
    options: Options | None = None, *, model: Model | None = None, repo: Repo | None = None
) -> dict[str, Any]:
    """Propose for the prompts asked for; writes what came of it, and returns the report."""
    return dict(plain(_proposed(options or Options(), model, repo or here())))


def _proposed(options: Options, model: Model | None, repo: Repo) -> Report:
    from agents.manifest import load_manifest
    from agents.offline.model import OfflineModel
    from agents.texts.prompt_set import PromptSet
    from meta.offline import analysts
    from meta.offline.screen import offline_screen
    from meta.proposals.draft import Drafter
    from meta.proposals.evolve import require_gepa
    from meta.proposals.run import run

    manifest = load_manifest(repo)
    options = replace(options, ask=options.ask.within(manifest))
    if model is None:
        model = options.ask.model([spec.model for spec in manifest.agents], analysts(manifest))
    free = offline_screen if isinstance(getattr(model, "inner", model), OfflineModel) else None
    if manifest.proposer == "gepa" and not free:
        require_gepa()
    return run(Drafter(PromptSet(repo), manifest, model, options, free))


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m meta.propose")
    many = functools.partial(made.add_argument, type=cli.whole(1), metavar="N")
    made.add_argument(
        "--prompt", action="append", default=[], metavar="FILE", help="only this prompt (repeatable)"
    )
    many("--candidates", default=3, help="ask for N proposals (default: 3; offline: many)")
    many("--screen-cases", default=24, help="try them on N tune cases (offline: on all)")
    many("--max-prompts", help="at most N new challengers")
    due = "decide which prompts are due as of this day (default: today)"
    made.add_argument("--today", type=_day, metavar="DATE", help=due)
    add_model_flags(made, seed="of the search, of the cases tried, and of the offline noise")
    return made


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: must be a day such as 2026-11-17") from None


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Propose, and tell what came of it."""
    from meta.proposals.report import sentence

    options = Options(
        tuple(args.prompt),
        args.candidates,
        args.screen_cases,
        args.max_prompts,
        model_options(args),
        args.today,
    )
    report = _proposed(options, None, repo)
    told = cli.found(sentence(report))
    set_output("proposed", str(len(report.proposals)))
    job_summary(f"### New challengers\n\n{told}")
    cli.tell(args, plain(report), told)
    if not (args.json or args.quiet):
        for row in report.skipped:
            print(f"  {row.prompt}: {row.reason}", file=sys.stderr)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
