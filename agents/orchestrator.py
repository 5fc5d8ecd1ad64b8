"""Run the agents of the manifest: all at once, each under its time limit, one row and one output file per agent.

Writes `agents/outputs/<agent>.json` and telemetry. `--replay N` runs those that read the domain's sample over its last
N days instead, each as of its day. Exit codes: 0 done, also when some agents failed (their rows say why); 2 bad
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
from telemetry.edge.files import MANIFEST, Repo

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
def main(args: argparse.Namespace, repo: Repo) -> int:
    import asyncio

    from agents.manifest import load_manifest

    manifest = load_manifest(repo)
    return asyncio.run(_run(repo, manifest, _chosen(manifest, args), args))


def _chosen(manifest: Manifest, args: argparse.Namespace) -> list[AgentSpec]:
    from agents.run.order import watchers

    if args.replay and args.source_mode == "live":
        raise BadInput("--replay: only the sample can be replayed; leave out --source-mode live")
    if args.as_of and (args.replay or args.source_mode == "live"):
        raise BadInput("--as-of: only for a single run on the sample")
    chosen = [spec for spec in manifest.agents if spec.enabled is not args.shadow]
    if args.agent:
        wanted = [manifest.agent(name) for name in dict.fromkeys(args.agent)]
        for spec in wanted:
            if spec not in chosen:
                off, on = (
                    "false; it is switched off (--shadow runs it)",
                    "true; --shadow runs disabled agents only",
                )
                raise BadInput(f"{MANIFEST}: agents.{spec.name}.enabled: {on if spec.enabled else off}")
        chosen = wanted
    if args.replay:
        watching = watchers(chosen)
        for spec in chosen:
            if spec not in watching and args.agent:
                raise BadInput(f"--replay: {spec.name} reads {spec.inputs}, not the sample")
        chosen = watching
    return chosen


def _usual_mode(args: argparse.Namespace) -> str:
    """What the environment says: a deployment is live, a replay or a chosen day is always of the sample."""
    return "snapshot" if args.replay or args.as_of else os.environ.get("RATCHET_SOURCE_MODE") or "snapshot"


async def _run(repo: Repo, manifest: Manifest, chosen: list[AgentSpec], args: argparse.Namespace) -> int:
    from agents.domain import SourceError, domain_of
    from agents.run import order, report
    from agents.run.runner import Runner
    from agents.run.source import Inputs, open_source
    from agents.texts.prompt_set import PromptSet
    from telemetry import logger

    domain = domain_of(repo, manifest.agents)
    prompts = PromptSet(repo)
    for spec in chosen:
        prompts.system(spec)  # an unreadable prompt stops us before the first call, not in the middle
    source = open_source(domain, args.source_mode or _usual_mode(args), repo.root)
    asked = model_options(args).within(manifest.budget)
    model = asked.model((spec.model for spec in chosen), domain.analysts)
    inputs = Inputs(source)
    try:
        days = source.days()
    except SourceError as problem:
        if args.replay:
            raise Stopped(str(problem)) from problem
        days = []  # every agent that needs the source gets its error row below
    if args.as_of and days and args.as_of not in days:
        raise BadInput(f"--as-of {args.as_of}: no day of the sample ({days[0]} to {days[-1]})")
    async with aclosing(model):
        if args.replay:
            from agents.run.runner import replay

            days, at_once = days[-args.replay :], min(args.concurrency, REPLAY_CONCURRENCY)
            tell = report.counter(len(chosen) * len(days), args.quiet)
            runner = Runner(prompts, model, source.mode, args.agent_timeout_s, tell)
            outcome = await replay(chosen, days, runner, inputs, at_once)
            return report.report_replay(outcome, args)
        # The live source is asked for "now", not for a date that may be over by the time it answers.
        day = args.as_of or (days[-1] if days and source.mode == "snapshot" else None)
        runner = Runner(prompts, model, source.mode, args.agent_timeout_s, report.teller(args.quiet))
        with logger.source("shadow" if args.shadow else "runtime"):
            results = await order.run_waves(manifest, chosen, runner, inputs, day)
        if not args.shadow:
            order.write_outputs(results, repo.root)
        return report.report(results, {spec.name for spec in order.watchers(chosen)}, args)


if __name__ == "__main__":
    raise SystemExit(main())
