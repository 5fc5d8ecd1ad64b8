"""Sums up how each agent is doing: rows to `telemetry/summary.json`, counts, errors, latency, cost and reward.

The log is parsed once, and folded where the rows are: to cells (agent, source, day, error kind, scoring version), and
those to agents, sources and days. Of many sealed days what they come to is kept (telemetry/read/days.py), and only
that is read. Only percentiles need all values; beyond a million or two a sketch stands for them, and the summary says
so. An unknown cost is left out of averages and counted as `unpriced_runs`. Reward is field reward: an agent's is the
mean over its days, as retirement has it (telemetry/read/field.py), and over the last N runs in the field; evals and
A/B trials have pass rates instead. Where `TELEMETRY_DSN` is set, the rows are those that telemetry.ship brought there.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from telemetry import logger
from telemetry.edge import cli
from telemetry.edge.files import SUMMARY, Repo, here, write_json
from telemetry.edge.frozen import frozen
from telemetry.read import cells, field, server, store
from telemetry.read.cells import Cell, Cells
from telemetry.read.intervals import Mean
from telemetry.read.rows import LAST_N, Window, in_utc, with_window_flags

EXACT: Final = 2_000_000  # runs up to which percentiles are exact; beyond, a sketch has to do

# What is asked of a row, so that a log is parsed once.
ONCE: Final = (
    *("agent", "source", "ts", "as_of", "error", "error_kind", "scoring_version"),
    *("cost_usd", "reward", "latency_ms", "input_hash", "prompt_hash"),
)
RUNS: Final = "(select * from lines where not malformed)"
LATENCY_SQL: Final = "select agent, {percentiles} from lines where not malformed group by agent"
SHARES: Final = (0.5, 0.95, 0.99)
PERCENTILES: Final = {
    True: "percentile_cont(array[0.5, 0.95, 0.99]) within group (order by latency_ms)",
    False: "approx_quantile(latency_ms, [0.5, 0.95, 0.99])",
}


@frozen
class Scanned:
    """What the rows of a window come to."""

    by: Mapping[str, Cells]  # agent, source and day
    latency: Mapping[str, Sequence[float] | None]  # by agent
    exact: bool  # the percentiles
    malformed: int
    earned: Mapping[str, field.Earned]  # by agent


def rollup(
    last_n: int = LAST_N,
    since: datetime | None = None,
    source: str | None = None,
    *,
    repo: Repo | None = None,
) -> dict[str, Any]:
    """Sum up the last `last_n` runs (0: all) and write the summary."""
    repo = repo or here()
    summary = summary_of(repo, Window(last_n, since, source, kind="run"))
    write_json(repo / SUMMARY, summary)
    return summary


def summary_of(repo: Repo, window: Window) -> dict[str, Any]:
    """The summary of a window, computed now."""
    before = _log_size(repo)
    found = _scan(repo, window)
    if found.malformed and _log_size(repo) != before:
        # One of the malformed lines may be a writer's half-written last line: look again while writers wait.
        with store.locked(repo) as log:
            found = _scan(repo, window)
        if log is not None:
            log.close()
    everything = list(chain.from_iterable(found.by["source"].values()))
    return {
        "available": bool(everything),
        "generated_at": f"{in_utc(datetime.now(UTC))}Z",
        "window_last_n_events": window.last_n,
        "since": None if window.since is None else f"{in_utc(window.since)}Z",
        "source": window.source,
        "malformed_lines": found.malformed,
        "count": sum(cell.runs for cell in everything),
        "errors_by_kind": _errors_by_kind(everything),
        "scoring_versions": {version: mean.n for version, mean in _rewards(everything).items()},
        "latency_percentiles": "exact" if found.exact else "approximate",
        "by_agent": {
            name: _figures(own)
            | _of_agent(own, found.latency.get(name) or [None] * 3, found.earned.get(name))
            for name, own in found.by["agent"].items()
        },
        "by_source": {name: _figures(own) for name, own in found.by["source"].items()},
        "by_day": {day: _figures(own) for day, own in found.by["day"].items()},
    }


def _log_size(repo: Repo) -> int:
    try:
        return (repo / logger.LOG_PATH).stat().st_size
    except FileNotFoundError:
        return 0


# Of field reward only what the agent earned is told here: nobody asks what its runs said.
FIELD_ROWS: Final = """
(select *, '' as signals, 0 as signal_strength, 0 as profit_pct, '' as provider from lines where not malformed)
"""


def _scan(repo: Repo, window: Window) -> Scanned:
    """Everything a summary says, with the log parsed once; of large sealed days only what they come to is read."""
    if dsn := os.environ.get(server.DSN, "").strip():
        return _scan_server(dsn, window)
    from telemetry.read import days, total

    now = store.snapshot(repo)
    sums = days.kept(repo, now.sealed, window)
    with store.connect(repo, window, once=ONCE, now=now, live_only=sums is not None) as con:
        [malformed] = con.execute("select count(*) from lines where malformed").fetchone() or (0,)
        if sums is not None:
            sealed = f"(select * from ({store.sealed_sql(now.sealed)}) where {window.condition()})"
            all_of_it = total.everything(con, sums, sealed, FIELD_ROWS, keep=window.since is None)
            latency = {agent: days.percentiles(own, SHARES) for agent, own in all_of_it.latency.items()}
            return Scanned(all_of_it.by, latency, False, int(malformed), all_of_it.earned)
        con.execute(f"create temp table cells as {days.CELLS_SQL.format(table=RUNS)}")
        by = cells.folded(con)
        exact = sum(cell.runs for cell in chain.from_iterable(by["source"].values())) <= EXACT
        latency = dict(con.execute(LATENCY_SQL.format(percentiles=PERCENTILES[exact])).fetchall())
        earned = {} if window.last_n else field.earned_in(con, FIELD_ROWS)
    if window.last_n:  # a night of evals must not crowd out the days before it
        with store.connect(repo, replace(window, among=logger.FIELD)) as con:
            earned = field.earned_in(con, "events")
    return Scanned(by, latency, exact, int(malformed), earned)


def _scan_server(dsn: str, window: Window) -> Scanned:
    """The same of what was shipped to a server: the same SQL, asked there; field reward from its rows, as here."""
    from telemetry.read import days

    newest = f" order by ts desc limit {window.last_n}" if window.last_n else ""
    with server.connected(dsn, "without the variable, what is here is read") as con:
        rows = f"select *, false as malformed from events where {window.condition()}{newest}"
        con.execute(f"create temp view lines as {rows}")
        con.execute(f"create temp table cells as {days.CELLS_SQL.format(table='lines')}")
        by = cells.folded(con)
        latency = dict(con.execute(LATENCY_SQL.format(percentiles=PERCENTILES[True])).fetchall())
        worked = replace(window, among=logger.FIELD)
        with server.brought(con, f"from events where {worked.condition()}{newest}", days.NEEDED) as here:
            earned = field.earned_in(here, "brought")
    return Scanned(by, latency, True, 0, earned)


def _by(cells: Iterable[Cell], key: Callable[[Cell], str]) -> dict[str, list[Cell]]:
    folded: dict[str, list[Cell]] = {}
    for cell in cells:
        folded.setdefault(key(cell), []).append(cell)
    return folded


def _rewards(cells: Iterable[Cell]) -> dict[str, Mean]:
    """The mean reward under each scoring version, the version seen last at the end."""
    rewarded = [cell for cell in cells if cell.rewarded and cell.field]
    versions = _by(rewarded, lambda cell: cell.scoring_version or "unknown")
    last = sorted(
        versions.items(),
        key=lambda item: (max(filter(None, (cell.rewarded_ts for cell in item[1]))), item[0]),
    )
    return {
        name: Mean.pooled((cell.rewarded, cell.reward or 0.0, cell.reward_variance or 0.0) for cell in own)
        for name, own in last
    }


def _figures(cells: Sequence[Cell]) -> dict[str, Any]:
    runs, priced = sum(cell.runs for cell in cells), sum(cell.priced for cell in cells)
    cost = sum(cell.cost or 0.0 for cell in cells)
    version, reward = next(reversed(_rewards(cells).items()), (None, Mean()))
    return {
        "count": runs,
        "error_rate": sum(cell.errors for cell in cells) / runs,
        "avg_cost_usd": cost / priced if priced else None,
        "total_cost_usd": cost if priced else None,
        "unpriced_runs": runs - priced,
        "avg_reward": reward.mean if reward.n else None,
        "rewarded_runs": reward.n,
        "scoring_version": version,
    }


def _of_agent(
    cells: Sequence[Cell], latency: Sequence[float | None], earned: field.Earned | None
) -> dict[str, Any]:
    """What is told of an agent beyond that, and its reward by days instead of by runs."""
    reward = earned.reward() if earned else Mean()
    return {
        "avg_reward": reward.mean if reward.n else None,
        "rewarded_runs": earned.weighed_runs if earned else 0,
        "rewarded_days": reward.n,
        "scoring_version": earned.version if earned else None,
        **{f"p{share}_latency_ms": value for share, value in zip((50, 95, 99), latency, strict=True)},
        "reward_standard_error": reward.standard_error(),
        "reward_interval_95": reward.interval(),
        "errors_by_kind": _errors_by_kind(cells),
        "last_ts": f"{in_utc(max(cell.last_ts for cell in cells).replace(tzinfo=UTC))}Z",
    }


def _errors_by_kind(cells: Iterable[Cell]) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    for cell in cells:
        if cell.errors:
            kinds[cell.error_kind or "unknown"] += cell.errors
    return dict(kinds)


def parser() -> cli.Parser:
    return with_window_flags(
        cli.Parser("Sum up telemetry by agent, source and day in telemetry/summary.json.")
    )


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    summary = rollup(args.last_n, args.since, args.source, repo=repo)
    cli.found(f"{summary['count']} runs summed up")
    runs = f"{summary['count']:,} runs of {len(summary['by_agent'])} agents."
    lines = [f"{SUMMARY}: {runs if summary['available'] else 'no runs logged yet.'}"]
    if summary["malformed_lines"]:
        lines.append(f"{logger.LOG_PATH}: {summary['malformed_lines']:,} malformed lines not counted.")
    cli.tell(args, summary, *lines)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
