"""How is each agent doing? Rows to `telemetry/summary.json`: counts, errors, latency, cost and reward.

The log is scanned once. The scan gives latency percentiles per agent, and additive cells (agent, source, day, error
kind, scoring version) from which every other figure is folded. An unknown cost is left out of averages and counted
as `unpriced_runs`; rewards of different scoring versions are never averaged: the newest version present is shown.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final

from telemetry import logger
from telemetry.edge import cli
from telemetry.edge.files import write_json
from telemetry.edge.repo import SUMMARY, Repo, here
from telemetry.names import SOURCES
from telemetry.read import store
from telemetry.read.rows import Window

LAST_N: Final = 5000  # runs; some weeks of a handful of agents, and read in a blink

# Runs on DuckDB and PostgreSQL alike. `lines` is the view of telemetry.read.store.
CELLS_SQL: Final = """
select
    grouping(source) as per_agent, malformed, agent, source, cast(ts as date) as day, error_kind, scoring_version,
    count(*) as runs,
    count(*) filter (where error is not null or error_kind is not null) as errors,
    count(cost_usd) as priced,
    sum(cost_usd) as cost,
    count(reward) as rewarded,
    avg(reward) as reward,
    var_samp(reward) as reward_variance,
    max(ts) as last_ts,
    percentile_cont(array[0.5, 0.95, 0.99]) within group (order by latency_ms) as latency
from lines
group by grouping sets (
    (malformed, agent),
    (malformed, agent, source, cast(ts as date), error_kind, scoring_version)
)
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """All runs alike in agent, source, day, error kind and scoring version."""

    agent: str
    source: str
    day: date
    error_kind: str | None
    scoring_version: str | None
    runs: int
    errors: int
    priced: int
    cost: float | None
    rewarded: int
    reward: float | None
    reward_variance: float | None
    last_ts: datetime


@dataclass(slots=True)
class Mean:
    """A running mean and variance of parts that come as (count, mean, variance): Chan, Golub and LeVeque 1979."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, n: int, mean: float, variance: float) -> None:
        if n == 0:
            return
        total, delta = self.n + n, mean - self.mean
        self.squares += variance * (n - 1) + delta * delta * self.n * n / total
        self.mean += delta * n / total
        self.n = total

    def standard_error(self) -> float | None:
        return math.sqrt(self.squares / (self.n - 1) / self.n) if self.n > 1 else None

    def interval(self) -> list[float] | None:
        """The 95 % confidence interval of the mean, by Student's t."""
        error = self.standard_error()
        return (
            None
            if error is None
            else [self.mean - t95(self.n - 1) * error, self.mean + t95(self.n - 1) * error]
        )


@dataclass(slots=True)
class Totals:
    """What is folded from cells."""

    runs: int = 0
    errors: int = 0
    priced: int = 0
    cost: float = 0.0
    errors_by_kind: dict[str, int] = field(default_factory=dict)
    rewards: dict[str, Mean] = field(default_factory=dict)
    versions: dict[str, datetime] = field(default_factory=dict)
    last_ts: datetime = datetime.min

    def add(self, cell: Cell) -> None:
        self.runs += cell.runs
        self.errors += cell.errors
        self.priced += cell.priced
        self.cost += cell.cost or 0.0
        self.last_ts = max(self.last_ts, cell.last_ts)
        if cell.errors:
            kind = cell.error_kind or "unknown"
            self.errors_by_kind[kind] = self.errors_by_kind.get(kind, 0) + cell.errors
        if cell.rewarded:
            version = cell.scoring_version or "unknown"
            mean = self.rewards.setdefault(version, Mean())
            mean.add(cell.rewarded, cell.reward or 0.0, cell.reward_variance or 0.0)
            self.versions[version] = max(cell.last_ts, self.versions.get(version, cell.last_ts))

    def figures(self) -> dict[str, Any]:
        version = max(self.versions, key=lambda name: (self.versions[name], name), default=None)
        reward = Mean() if version is None else self.rewards[version]
        return {
            "count": self.runs,
            "error_rate": self.errors / self.runs,
            "avg_cost_usd": self.cost / self.priced if self.priced else None,
            "total_cost_usd": self.cost if self.priced else None,
            "unpriced_runs": self.runs - self.priced,
            "avg_reward": reward.mean if reward.n else None,
            "rewarded_runs": reward.n,
            "scoring_version": version,
        }


def rollup(
    last_n: int = LAST_N,
    since: datetime | None = None,
    source: str | None = None,
    *,
    repo: Repo | None = None,
) -> dict[str, Any]:
    """Sum up the last `last_n` runs (0: all) and write the summary."""
    repo = repo or here()
    summary = summary_of(repo, Window(last_n=last_n, since=since, source=source, kind="run"))
    write_json(repo / SUMMARY, summary)
    return summary


def summary_of(repo: Repo, window: Window) -> dict[str, Any]:
    """The summary of a window, computed now."""
    before = _log_size(repo)
    found = _scan(repo, window)
    if found[2] and _log_size(repo) != before:
        # One of the malformed lines may be a writer's half-written last line: look again while writers wait.
        with store.locked(repo) as log:
            found = _scan(repo, window)
        if log is not None:
            log.close()
    cells, latency, malformed = found
    return {
        "available": bool(cells),
        "generated_at": _text(datetime.now(UTC)),
        "window_last_n_events": window.last_n,
        "since": None if window.since is None else _text(window.since.astimezone(UTC)),
        "source": window.source,
        "malformed_lines": malformed,
        **_sections(cells, latency),
    }


def _log_size(repo: Repo) -> int:
    try:
        return (repo / logger.LOG_PATH).stat().st_size
    except FileNotFoundError:
        return 0


def _scan(repo: Repo, window: Window) -> tuple[list[Cell], dict[str, list[float] | None], int]:
    """Cells, latency percentiles by agent, and the number of malformed lines, in one pass."""
    cells: list[Cell] = []
    latency: dict[str, list[float] | None] = {}
    malformed = 0
    with store.connect(repo, window) as con:
        for per_agent, bad, agent, *rest, percentiles in con.execute(CELLS_SQL).fetchall():
            if bad:
                malformed += rest[4] if per_agent else 0
            elif per_agent:
                latency[agent] = percentiles
            else:
                cells.append(Cell(agent, *rest))
    cells.sort(
        key=lambda cell: (
            cell.agent,
            cell.source,
            cell.day,
            cell.error_kind or "",
            cell.scoring_version or "",
        )
    )
    return cells, latency, malformed


def _sections(cells: list[Cell], latency: dict[str, list[float] | None]) -> dict[str, Any]:
    everything = _fold(cells, lambda cell: "all").get("all", Totals())
    return {
        "count": everything.runs,
        "errors_by_kind": everything.errors_by_kind,
        "scoring_versions": {version: mean.n for version, mean in everything.rewards.items()},
        "by_agent": {
            name: _agent_figures(totals, latency[name] or [None] * 3)
            for name, totals in _fold(cells, lambda cell: cell.agent).items()
        },
        "by_source": {
            name: totals.figures() for name, totals in _fold(cells, lambda cell: cell.source).items()
        },
        "by_day": {
            day: totals.figures() for day, totals in _fold(cells, lambda cell: cell.day.isoformat()).items()
        },
    }


def _fold(cells: Iterable[Cell], key: Callable[[Cell], str]) -> dict[str, Totals]:
    folded: dict[str, Totals] = {}
    for cell in cells:
        folded.setdefault(key(cell), Totals()).add(cell)
    return folded


def _agent_figures(totals: Totals, latency: list[float] | list[None]) -> dict[str, Any]:
    figures = totals.figures()
    reward = totals.rewards.get(figures["scoring_version"], Mean())
    p50, p95, p99 = latency
    return figures | {
        "p50_latency_ms": p50,
        "p95_latency_ms": p95,
        "p99_latency_ms": p99,
        "reward_standard_error": reward.standard_error(),
        "reward_interval_95": reward.interval(),
        "errors_by_kind": totals.errors_by_kind,
        "last_ts": _text(totals.last_ts),
    }


def t95(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: exact for 1 and 2 degrees of freedom, else Hill's expansion (CACM 396)."""
    if freedom == 1:
        return 12.706204736
    if freedom == 2:
        return 4.302652730
    z = 1.959963985
    expansion = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(expansion))


def _text(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%f")[:23] + "Z"


def instant(text: str) -> datetime:
    """A day or a time as given on the command line; without a zone it is UTC."""
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter: a day that UTC does not have, at either end of time
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be a day or time like 2026-11-16 or 2026-11-16T06:00Z"
        ) from None


def add_window_flags(parser: cli.Parser) -> None:
    """The flags that choose rows, the same for every reader."""
    parser.add_argument(
        "--last-n",
        type=cli.whole(0),
        default=LAST_N,
        metavar="N",
        help="the last N runs; 0: all (default %(default)s)",
    )
    parser.add_argument(
        "--since", type=instant, metavar="TIME", help="only runs from this UTC day or time on"
    )
    parser.add_argument("--source", choices=SOURCES, help="only runs of this source")


def parser() -> cli.Parser:
    parser = cli.Parser("Sum up telemetry by agent, source and day in telemetry/summary.json.")
    add_window_flags(parser)
    return parser


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    summary = rollup(args.last_n, args.since, args.source, repo=repo)
    cli.found(f"{summary['count']} runs summed up")
    if args.json:
        print(json.dumps(summary, indent=2, sort_keys=True))
    elif not args.quiet:
        if summary["available"]:
            print(f"{SUMMARY}: {summary['count']:,} runs of {len(summary['by_agent'])} agents.")
        else:
            print(f"{SUMMARY}: no runs logged yet.")
        if summary["malformed_lines"]:
            print(f"{logger.LOG_PATH}: {summary['malformed_lines']:,} malformed lines not counted.")
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
