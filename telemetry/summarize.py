"""Shows how each agent is doing at a glance: the summary of `telemetry/rollup.py` as a table in the terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from telemetry import logger, rollup
from telemetry.edge import cli
from telemetry.edge.files import Repo, here
from telemetry.edge.text import clean, logged
from telemetry.read.rows import LAST_N, Window, window_of, with_window_flags

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console
    from rich.table import Table

WIDE = 110  # columns of a terminal that take the whole table
MANY_ERRORS = 0.05  # of an agent's runs: shown in red


def summarize(
    last_n: int = LAST_N,
    since: datetime | None = None,
    source: str | None = None,
    console: Console | None = None,
    *,
    repo: Repo | None = None,
) -> dict[str, Any]:
    """Print the table of the last `last_n` runs (0: all) and return the summary behind it."""
    from rich.console import Console

    summary = rollup.summary_of(repo or here(), Window(last_n=last_n, since=since, source=source, kind="run"))
    console = console or Console(highlight=False)
    if summary["available"]:
        console.print(agents_table(summary, wide=console.width >= WIDE))
    for line in remarks(summary):
        console.print(logged(clean(line)), markup=False)
    return summary


def agents_table(summary: dict[str, Any], wide: bool = True) -> Table:
    """One line an agent; a narrow terminal goes without the figures that are looked up least."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    headings = ["runs", "errors", "p50", "p95", "cost/run", "reward ± 95 %"]
    headings += ["p99", "cost", "last run (UTC)"] if wide else []
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("agent", overflow="fold", min_width=12)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, figures in summary["by_agent"].items():
        cells: list[str | Text] = [
            f"{figures['count']:,}",
            Text(f"{figures['error_rate']:.1%}", style="red" if figures["error_rate"] >= MANY_ERRORS else ""),
            duration(figures["p50_latency_ms"]),
            duration(figures["p95_latency_ms"]),
            money(figures["avg_cost_usd"]),
            reward(figures["avg_reward"], figures["reward_interval_95"]),
        ]
        if wide:
            cells += [duration(figures["p99_latency_ms"]), money(figures["total_cost_usd"])]
            cells.append(figures["last_ts"][:16].replace("T", " "))
        table.add_row(Text(logged(" ".join(clean(name).split()))), *cells)
    return table


def remarks(summary: dict[str, Any]) -> list[str]:
    """What the table cannot say, one sentence each; nothing that needs no saying."""
    if not summary["available"]:
        lines = ["No runs logged yet."]
    else:
        window = "The last" if summary["window_last_n_events"] else "All"
        source = f" of source {summary['source']}" if summary["source"] else ""
        since = f" since {summary['since'][:16]}Z" if summary["since"] else ""
        lines = [f"{window} {summary['count']:,} runs{source}{since}."]
    if summary["errors_by_kind"]:
        kinds = sorted(summary["errors_by_kind"].items(), key=lambda item: (-item[1], item[0]))
        lines.append("Errors: " + ", ".join(f"{number:,} {kind}" for kind, number in kinds) + ".")
    unpriced = sum(figures["unpriced_runs"] for figures in summary["by_agent"].values())
    if unpriced:
        lines.append(f"The cost of {unpriced:,} runs is unknown; sums and means leave them out.")
    if len(summary["scoring_versions"]) > 1:
        versions = ", ".join(sorted(summary["scoring_versions"]))
        lines.append(f"Several scoring versions ({versions}): rewards shown are of each agent's newest only.")
    if summary["malformed_lines"]:
        lines.append(f"{summary['malformed_lines']:,} malformed lines in {logger.LOG_PATH} are not counted.")
    return lines


def duration(milliseconds: float | None) -> str:
    """Three figures and a unit."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.3g} s"


def money(usd: float | None) -> str:
    """Dollars, finer the smaller they are; `-` for unknown, which is not zero."""
    if usd is None:
        return "-"
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.5f}"


def reward(mean: float | None, interval: list[float] | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:+.3f}" if interval is None else f"{mean:+.3f} ± {(interval[1] - interval[0]) / 2:.3f}"


def parser() -> cli.Parser:
    return with_window_flags(cli.Parser("Show telemetry by agent as a table."))


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    if args.json:
        cli.tell(args, rollup.summary_of(repo, window_of(args)))
    elif not args.quiet:
        summarize(args.last_n, args.since, args.source, repo=repo)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
