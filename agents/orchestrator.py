"""Run the agents of the manifest: all at once, each under its time limit, one row and one output file per agent.

Writes `agents/outputs/<agent>.json` and telemetry. `--replay N` runs those that read the domain's sample over its last
N days instead, each as of its day. Exit codes: 0 done, also when some agents failed (their rows say why); 2 bad
input, nothing was run; 3 the budget is used up, or no agent came through.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from agents.llm_client import add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import MANIFEST, OUTPUTS, Repo

if TYPE_CHECKING:
    from agents.manifest import AgentSpec, Manifest
    from agents.run.inputs import Inputs
    from agents.run.replay import Replay
    from agents.run.runner import Result

# Runs under way at once in a replay: waiting for a model slot counts as the agent's time.
REPLAY_CONCURRENCY = 16
MAX_TOLD = 240  # characters of an error on the console
WIDTH = 140  # columns of the table where there is no terminal to ask
FIGURES = {"signal_strength": "{:.2f}", "reward": "{:+.3f}", "latency_ms": "{:.0f}", "cost_usd": "{:.4f}"}


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
    add(
        "--shadow",
        action="store_true",
        help="run the disabled agents, with source `shadow`, on a share of the budget",
    )
    add_model_flags(parse)
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
                off = "false; it is switched off (--shadow runs it)"
                why = "true; --shadow runs disabled agents only" if spec.enabled else off
                raise BadInput(f"{MANIFEST}: agents.{spec.name}.enabled: {why}")
        chosen = wanted
    if args.replay:
        watching = watchers(chosen)
        for spec in chosen:
            if spec not in watching and args.agent:
                raise BadInput(f"--replay: {spec.name} reads {spec.inputs}, not the sample")
        chosen = watching
    return chosen


async def _run(repo: Repo, manifest: Manifest, chosen: list[AgentSpec], args: argparse.Namespace) -> int:
    from agents.domain import domain_of
    from agents.run import order
    from agents.run.inputs import Inputs
    from agents.run.replay import planned, replay
    from agents.run.runner import Runner
    from agents.texts.prompt_set import PromptSet
    from telemetry import logger

    domain = domain_of(repo, manifest.agents)
    prompts = PromptSet(repo)
    for spec in chosen:
        prompts.system(spec)  # an unreadable prompt stops us before the first call, not in the middle
    # A deployment is live; a replay or a chosen day is always of the sample.
    usual = "snapshot" if args.replay or args.as_of else os.environ.get("RATCHET_SOURCE_MODE") or "snapshot"
    inputs = Inputs(repo, domain, args.source_mode or usual)
    budget = manifest.budget.share(manifest.retirement.shadow_share) if args.shadow else manifest.budget
    asked = model_options(args).within(manifest, budget)
    model = asked.model(manifest.asked_by(chosen), domain.analysts)
    if args.as_of:
        _check_day(args.as_of, order.watchers(chosen), inputs)
    plan = planned(chosen, args.replay, inputs) if args.replay else []
    tell = _counter(len(plan)) if args.replay else _tell
    pick = None
    if not args.replay and any(spec.models for spec in chosen):
        import random

        from agents.routing.models import open_router

        pick = open_router(repo, chosen, random.SystemRandom().random)
    runner = Runner(prompts, model, inputs, args.timeout_s, None if args.quiet else tell, pick)
    async with contextlib.aclosing(model):
        if args.replay:
            return _report_replay(await replay(plan, runner, min(asked.at_once, REPLAY_CONCURRENCY)), args)
        with logger.source("shadow" if args.shadow else "runtime"):
            results = await order.run_waves(manifest, chosen, runner, args.as_of)
        if not args.shadow:
            order.write_outputs([result for result in results if not result.skipped], repo.root)
        return _report(results, {spec.name for spec in order.watchers(chosen)}, args)


def _check_day(day: str, watching: Sequence[AgentSpec], inputs: Inputs) -> None:
    """A day must be one that the source of some agent has, if any of them has days."""
    from agents.sources.source import SourceError

    known: set[str] = set()
    for spec in watching:
        with contextlib.suppress(SourceError):  # told on the row of the agent that needs it
            known.update(inputs.days(spec))
    if known and day not in known:
        raise BadInput(f"--as-of {day}: no day of the sample ({min(known)} to {max(known)})")


def _tell(result: Result) -> None:
    """A line on stderr for each result."""
    items = "" if result.output is None else f"{len(result.output)} item{'s' * (len(result.output) != 1)}"
    ended = items or ("skipped" if result.skipped else f"{result.error_kind} error")
    print(f"  {result.name}: {ended}", file=sys.stderr)


def _counter(total: int) -> Callable[[Result], None]:
    """Tells stderr how far a long replay is, about ten times."""
    runs = itertools.count(1)

    def tell(result: Result) -> None:
        if (done := next(runs)) % max(1, total // 10) == 0:
            print(f"  replayed {done} of at most {total} runs, up to {result.as_of}", file=sys.stderr)

    return tell


def _report(results: Sequence[Result], watchers: Collection[str], args: argparse.Namespace) -> int:
    """Show the results; the run was stopped if the budget was, or if nobody who watches came through.

    Reviewers and the meta agent live on what the others said: without it they come through by having nothing to do.
    """
    skipped = {result.agent: result.row.get("error") for result in results if result.skipped}
    results = [result for result in results if not result.skipped]
    failed = [result for result in results if result.output is None]
    ran = len({result.agent for result in results})
    items = sum(len(result.output or ()) for result in results)
    names = ", ".join(dict.fromkeys(result.agent for result in failed))
    cli.found(
        f"{ran} agent{'s' * (ran != 1)} ran, {items} signals and findings"
        + (f"; failed: {names}" if names else "")
        + "".join(f"; {name} skipped: {why}" for name, why in skipped.items())
    )
    if args.json:
        import json

        shown = [_shown(result) for result in results]
        print(json.dumps({"results": shown, "failed": len(failed), "skipped": skipped}, allow_nan=False))
    elif not args.quiet:
        for name, why in skipped.items():
            print(f"{name}: skipped: {why}")
        if results or not skipped:
            _print(results, written=not args.shadow)
    for result in failed:
        if result.error_kind == "budget":
            raise Stopped(str(result.row.get("error")))
    first = [result for result in results if result.agent in watchers] or results
    if first and all(result.output is None for result in first):
        raise Stopped(f"no agent came through; {first[0].name}: {_brief(first[0].row)}")
    return cli.OK


def _report_replay(outcome: Replay, args: argparse.Namespace) -> int:
    """Show what a replay did."""
    days = outcome.days
    errors = Counter(result.error_kind for result in outcome.results if result.error_kind)
    shown = {"days": [days[0], days[-1]] if days else [], "runs": len(outcome.results)}
    shown |= {"skipped": outcome.skipped, "errors": errors, "stopped": outcome.stopped}
    span = f"{len(days)} days, {days[0]} to {days[-1]}" if days else "no days"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(errors.items())) or "none"
    runs = f"Replayed {len(outcome.results)} runs over {span}"
    cli.tell(args, shown, f"{runs}; {outcome.skipped} were there already; errors: {kinds}.")
    if outcome.stopped:
        raise Stopped(outcome.stopped)
    return cli.OK


def _shown(result: Result) -> dict[str, Any]:
    document = result.document()
    output = document.pop("output")
    return document | {"target_agent": result.target, "items": None if output is None else len(output)}


def _brief(row: Mapping[str, Any]) -> str:
    """What went wrong, without most of the answer that it may quote: the row has all of it."""
    return shorten(str(row.get("error")), MAX_TOLD, placeholder=" …")


def _print(results: Sequence[Result], written: bool) -> None:
    if not results:
        print("Nothing to do: no agent is enabled, or there are no outputs to review yet.")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("agent", "as of", "items", "signal", "reward", "ms", "USD", "error", box=None)
    for column in table.columns[2:7]:
        column.justify = "right"
    for result in results:
        row = result.row
        figures = [
            form.format(value) if isinstance(value := row.get(name), int | float) else "-"
            for name, form in FIGURES.items()
        ]
        error = f"{result.error_kind}: {_brief(row)}" if result.output is None else ""
        table.add_row(
            result.name,
            result.as_of or "-",
            "-" if result.output is None else str(len(result.output)),
            *figures,
            Text(error, style="red"),
        )
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
    asked = [result.row for result in results if result.row.get("provider")]
    # Whose answers these are; the offline model goes by that name.
    models = sorted({str(row["provider" if row["provider"] == "offline" else "model"]) for row in asked})
    print(f"Model: {', '.join(models) or 'none asked'}.", f"Outputs: {OUTPUTS}/." if written else "")


if __name__ == "__main__":
    raise SystemExit(main())
