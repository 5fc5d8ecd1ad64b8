"""Run the agents of the manifest: all at once, each under its time limit, one row and one output file per agent.

Writes `agents/outputs/<agent>.json` and telemetry. `--replay N` runs the market agents over the last N days of the
sample instead, each as of its day. Exit codes: 0 done, also when some agents failed (their rows say why); 2 bad
input, nothing was run; 3 the budget is used up, or no agent came through.
"""

from __future__ import annotations

import argparse
import os
from contextlib import aclosing
from typing import TYPE_CHECKING

from agents.llm_client import add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.repo import here

if TYPE_CHECKING:
    from agents.manifest import AgentSpec, Manifest

# Runs under way at once in a replay: waiting for a model slot counts as the agent's time.
REPLAY_CONCURRENCY = 16


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    add = parse.add_argument
    add("--agent", action="append", metavar="NAME", help="only this one (may be repeated)")
    add(
        "--source-mode",
        choices=("snapshot", "live"),
        help="where inputs come from (default: RATCHET_SOURCE_MODE, else snapshot)",
    )
    add("--as-of", metavar="DAY", help="a day of the sample (default: its last)")
    add("--replay", type=cli.whole(1), metavar="N", help="back-test the last N days of the sample")
    add("--shadow", action="store_true", help="run the disabled agents, with source `shadow`")
    add(
        "--timeout-s",
        type=cli.number(),
        dest="agent_timeout_s",
        metavar="S",
        help="per agent, instead of the manifest's",
    )
    add_model_flags(parse, without=["--timeout-s"])
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace) -> int:
    import asyncio

    from agents.manifest import load_manifest

    manifest = load_manifest()
    chosen = _chosen(manifest, args)
    return asyncio.run(_run(manifest, chosen, args))


def _chosen(manifest: Manifest, args: argparse.Namespace) -> list[AgentSpec]:
    from agents.market.sources import KINDS

    if args.replay and args.source_mode == "live":
        raise BadInput("--replay: only the sample can be replayed; leave out --source-mode live")
    if args.as_of and (args.replay or args.source_mode == "live"):
        raise BadInput("--as-of: only for a single run on the sample")
    chosen = [spec for spec in manifest.agents if spec.enabled is not args.shadow]
    if args.agent:
        wanted = [manifest.agent(name) for name in dict.fromkeys(args.agent)]
        for spec in wanted:
            if spec not in chosen:
                said = (
                    "true; --shadow runs disabled agents only"
                    if spec.enabled
                    else "false; it is switched off (--shadow runs it)"
                )
                raise BadInput(f"agents/manifest.yaml: agents.{spec.name}.enabled: {said}")
        chosen = wanted
    if args.replay:
        for spec in chosen:
            if spec.inputs not in KINDS and args.agent:
                raise BadInput(f"--replay: {spec.name} reads {spec.inputs}, not the market")
        chosen = [spec for spec in chosen if spec.inputs in KINDS]
    return chosen


def _usual_mode(args: argparse.Namespace) -> str:
    """What the environment says: a deployment is live, a replay or a chosen day is always of the sample."""
    return "snapshot" if args.replay or args.as_of else os.environ.get("RATCHET_SOURCE_MODE") or "snapshot"


async def _run(manifest: Manifest, chosen: list[AgentSpec], args: argparse.Namespace) -> int:
    from agents.market.sources import KINDS, SourceError, open_source
    from agents.run import backtest as replay
    from agents.run import order as waves
    from agents.run import report as run_report
    from agents.run.runner import Inputs, Runner
    from agents.texts.prompt_set import PromptSet
    from telemetry import logger

    prompts = PromptSet()
    for spec in chosen:
        prompts.system(spec)  # an unreadable prompt stops us before the first call, not in the middle
    source = open_source(args.source_mode or _usual_mode(args))
    asked = model_options(args).within(manifest.budget)
    model = asked.model(spec.model for spec in chosen)
    runner = Runner(prompts, model, timeout_s=args.agent_timeout_s, source_mode=source.mode)
    inputs = Inputs(source)
    try:
        days = source.days()
    except SourceError as problem:
        if args.replay:
            raise Stopped(str(problem)) from problem
        days = []  # every agent that needs the source gets its error row below
    if args.as_of and days and args.as_of not in days:
        raise BadInput(f"--as-of {args.as_of}: no trading day of the sample ({days[0]} to {days[-1]})")
    async with aclosing(model):
        if args.replay:
            total = len(chosen) * min(args.replay, len(days))
            progress = run_report.counter(total, args.quiet)
            outcome = await replay.replay(
                chosen,
                days[-args.replay :],
                runner,
                inputs,
                progress,
                min(args.concurrency, REPLAY_CONCURRENCY),
            )
            return run_report.report_replay(outcome, args)
        # The live source is asked for "now", not for a date that may be over by the time it answers.
        day = args.as_of or (days[-1] if days and source.mode == "snapshot" else None)
        with logger.source("shadow" if args.shadow else "runtime"):
            tell = run_report.teller(args.quiet)
            results = await waves.run_waves(manifest, chosen, runner, inputs, day, tell)
        if not args.shadow:
            waves.write_outputs(results, here().root)
        watchers = {spec.name for spec in chosen if spec.inputs in KINDS}
        return run_report.report(results, watchers, args)


if __name__ == "__main__":
    raise SystemExit(main())
