"""What a person sees of a run: a line per result while it runs, a table at the end; for machines, one document."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from agents.run.runner import Result
from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from telemetry.edge.files import OUTPUTS

if TYPE_CHECKING:
    from agents.run.runner import Replay

WIDTH = 140  # columns of the table where there is no terminal to ask


Tell = Callable[[Result], None]


def teller(quiet: bool) -> Tell:
    """Tells stderr of each result."""

    def tell(result: Result) -> None:
        items = "" if result.output is None else f"{len(result.output)} item{'s' * (len(result.output) != 1)}"
        if not quiet:
            print(f"  {result.name}: {items or f'{result.error_kind} error'}", file=sys.stderr)

    return tell


def counter(total: int, quiet: bool) -> Tell:
    """Tells stderr how far a long replay is, about ten times."""
    done = 0

    def tell(result: Result) -> None:
        nonlocal done
        done += 1
        if not quiet and done % max(1, total // 10) == 0:
            print(f"  replayed {done} of at most {total} runs, up to {result.as_of}", file=sys.stderr)

    return tell


def report(results: Sequence[Result], watchers: Collection[str], args: argparse.Namespace) -> int:
    """Show the results; the run was stopped if the budget was, or if nobody who watches came through.

    Reviewers and the meta agent live on what the others said: without it they come through by having nothing to do.
    """
    failed = [result for result in results if result.output is None]
    cli.found(_sentence(results, failed))
    if args.json:
        shown = [_shown(result) for result in results]
        print(json.dumps({"results": shown, "failed": len(failed)}, allow_nan=False))
    elif not args.quiet:
        _print(results, written=not args.shadow)
    for result in failed:
        if result.error_kind == "budget":
            raise Stopped(str(result.row.get("error")))
    first = [result for result in results if result.agent in watchers] or results
    if first and all(result.output is None for result in first):
        raise Stopped(f"no agent came through; {first[0].name}: {first[0].row.get('error')}")
    return cli.OK


def report_replay(outcome: Replay, args: argparse.Namespace) -> int:
    """Show what a replay did."""
    days = outcome.days
    errors = Counter(result.error_kind for result in outcome.results if result.error_kind)
    if args.json:
        shown = {"days": [days[0], days[-1]] if days else [], "runs": len(outcome.results)}
        print(json.dumps(shown | {"skipped": outcome.skipped, "errors": errors, "stopped": outcome.stopped}))
    elif not args.quiet:
        span = f"{len(days)} days, {days[0]} to {days[-1]}" if days else "no days"
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(errors.items())) or "none"
        runs = f"Replayed {len(outcome.results)} runs over {span}"
        print(f"{runs}; {outcome.skipped} were there already; errors: {kinds}.")
    if outcome.stopped:
        raise Stopped(outcome.stopped)
    return cli.OK


def _sentence(results: Sequence[Result], failed: Sequence[Result]) -> str:
    items = sum(len(result.output or ()) for result in results)
    names = ", ".join(dict.fromkeys(result.agent for result in failed))
    ran = len({result.agent for result in results})
    return f"{ran} agents ran, {items} signals and findings" + (f"; failed: {names}" if names else "")


def _shown(result: Result) -> dict[str, Any]:
    document = result.document()
    output = document.pop("output")
    return document | {"target_agent": result.target, "items": None if output is None else len(output)}


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
        error = f"{result.error_kind}: {row.get('error')}" if result.output is None else ""
        table.add_row(
            result.name,
            result.as_of or "-",
            "-" if result.output is None else str(len(result.output)),
            _figure(row.get("signal_strength"), "{:.2f}"),
            _figure(row.get("reward"), "{:+.3f}"),
            _figure(row.get("latency_ms"), "{:.0f}"),
            _figure(row.get("cost_usd"), "{:.4f}"),
            Text(error, style="red"),
        )
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
    providers = sorted({str(result.row["provider"]) for result in results if result.row.get("provider")})
    print(f"Model: {', '.join(providers) or 'none asked'}.", f"Outputs: {OUTPUTS}/." if written else "")


def _figure(value: Any, form: str) -> str:
    return form.format(value) if isinstance(value, int | float) else "-"
