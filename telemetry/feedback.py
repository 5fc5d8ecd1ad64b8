"""Tells each agent how it has been doing: what gets better or worse, where it is strong, what it should be trained on.

Days are what is tested, not runs: a trend is one only if chance alone would show it in less than 5 % of windows.
Quality is what graders said (evals, and runs that grade themselves); an outage counts against nobody. Writes
`telemetry/feedback.json`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from telemetry.edge import cli
from telemetry.edge.files import FEEDBACK, Repo, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain
from telemetry.logger import INFRASTRUCTURE
from telemetry.read.intervals import wilson
from telemetry.read.rows import Window, quoted
from telemetry.read.trends import direction, shares_differ

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DAYS: Final = 28  # of a window
WEAK, STRONG = 0.7, 0.8  # share passed: surely below the one is a need, surely above the other a strength
LEAST_RUNS: Final = 10  # in an area, before anything is said of it

Trend = Literal["improving", "stable", "degrading"]


@frozen
class Day:
    """What one day of an agent's came to."""

    day: str
    runs: int
    successes: int
    latency_ms: float | None  # the median
    graded: int
    quality: float | None  # the mean


@frozen
class Area:
    """One kind of task, or one gate of it, in both halves of the window: passed, of how many."""

    area: str
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def passed(self) -> int:
        return self.before[0] + self.after[0]

    @property
    def of(self) -> int:
        return self.before[1] + self.after[1]


@frozen
class Trends:
    """By day; stable is also what cannot be told."""

    success_rate_trend: Trend
    quality_score_trend: Trend
    latency_trend: Trend


@frozen
class Feedback:
    """What an agent is told."""

    agent: str
    time_range: Mapping[str, str]
    days: int
    runs: int
    success_rate: float | None
    quality_score: float | None
    quality_change: float | None  # between the halves of the window
    trends: Trends
    capability_changes: tuple[Mapping[str, Any], ...]
    training_needs: tuple[Mapping[str, Any], ...]
    strength_areas: tuple[Mapping[str, Any], ...]


def feedback(agent: str, window: tuple[str, str], days: Sequence[Day], areas: Iterable[Area]) -> Feedback:
    """What follows from the days and areas of one agent. Pure."""
    runs, graded = sum(day.runs for day in days), sum(day.graded for day in days)
    good = sum(day.successes for day in days)
    quality = sum(day.graded * day.quality for day in days if day.quality is not None)
    told = [area for area in areas if area.of >= LEAST_RUNS]
    return Feedback(
        agent,
        {"since": window[0], "until": window[1]},
        len(days),
        runs,
        round(good / runs, 6) if runs else None,
        round(quality / graded, 6) if graded else None,
        _risen(days),
        Trends(
            _trend([day.successes / day.runs for day in days if day.runs]),
            _trend([day.quality for day in days if day.quality is not None]),
            _trend([-day.latency_ms for day in days if day.latency_ms is not None]),
        ),
        tuple(_change(area) for area in told if shares_differ(area.before, area.after)),
        tuple(_share(area) for area in told if _bounds(area)[1] < WEAK),
        tuple(_share(area) for area in told if _bounds(area)[0] > STRONG),
    )


def _risen(days: Sequence[Day]) -> float | None:
    """How much the mean quality of the later days is above that of the earlier ones."""
    known = [day.quality for day in days if day.quality is not None]
    half = len(known) // 2
    if not half:
        return None
    return round(sum(known[-half:]) / half - sum(known[:half]) / half, 6)


def _trend(days: Sequence[float]) -> Trend:
    return ("degrading", "stable", "improving")[direction(days) + 1]


def _bounds(area: Area) -> tuple[float, float]:
    return wilson(area.passed, area.of) or (0.0, 1.0)


def _share(area: Area) -> dict[str, Any]:
    low, high = _bounds(area)
    rate = {"passed": area.passed, "of": area.of, "rate": round(area.passed / area.of, 6)}
    return {"area": area.area, **rate, "interval": [round(low, 6), round(high, 6)]}


def _change(area: Area) -> dict[str, Any]:
    before, after = (round(hits / of, 6) for hits, of in (area.before, area.after))
    return {"area": area.area, "before": before, "after": after, "change": round(after - before, 6)}


FIELDS: Final = ("success", "quality_score", "score", "ok", "arm", "task_type", "gates")
# Outages are nobody's doing. A challenger's trial says nothing about the agent as it is.
_OURS: Final = (
    f"(error_kind is null or error_kind not in ({', '.join(sorted(map(quoted, INFRASTRUCTURE)))}))"
    " and (kind <> 'evaluation' or source = 'eval')"
)
_DAYS: Final = f"""
select agent, strftime(ts, '%Y-%m-%d') as day,
    count(*) filter (where kind = 'run'),
    count(*) filter (where kind = 'run' and coalesce(try_cast(success as boolean), error is null)),
    median(latency_ms) filter (where kind = 'run'),
    count(coalesce(try_cast(score as double), try_cast(quality_score as double))),
    avg(coalesce(try_cast(score as double), try_cast(quality_score as double)))
from events where kind in ('run', 'evaluation') and {_OURS} group by agent, day order by agent, day"""
_AREAS: Final = f"""
with graded as (
    select agent, ts, coalesce(task_type, agent) as task, try_cast(ok as boolean) as ok, gates
    from events where kind = 'evaluation' and {_OURS} and try_cast(score as double) is not null
), parts as (
    select agent, ts, task as area, ok as passed from graded
    union all
    select agent, ts, task || '/' || (gate ->> 'name'), try_cast(gate ->> 'passed' as boolean)
    from (select agent, ts, task, unnest(try_cast(gates as json[])) as gate from graded where gates is not null)
)
select agent, area,
    count(*) filter (where passed and ts < middle), count(*) filter (where ts < middle),
    count(*) filter (where passed and ts >= middle), count(*) filter (where ts >= middle)
from parts, (select cast(? as timestamp) as middle) where passed is not null
group by agent, area order by agent, area"""


def gather(repo: Repo, days: int = DAYS, now: datetime | None = None) -> list[Feedback]:
    """The feedback of every agent that ran in the last days."""
    from telemetry.read.store import connect

    until = now or datetime.now(UTC)
    since = until - timedelta(days=days)
    with connect(repo, Window(since=since), fields=FIELDS) as con:
        return of_rows(con, since, until)


def of_rows(con: DuckDBPyConnection, since: datetime, until: datetime) -> list[Feedback]:
    """The same of rows between these times that are at hand, with FIELDS among their columns."""
    middle = since + (until - since) / 2
    daily = con.execute(_DAYS).fetchall()
    parts = con.execute(_AREAS, [middle.astimezone(UTC).replace(tzinfo=None)]).fetchall()
    by_agent: dict[str, list[Day]] = {}
    for agent, *figures in daily:
        by_agent.setdefault(agent, []).append(Day(*figures))
    areas: dict[str, list[Area]] = {}
    for agent, area, *counts in parts:
        areas.setdefault(agent, []).append(Area(area, (counts[0], counts[1]), (counts[2], counts[3])))
    window = (since.date().isoformat(), until.date().isoformat())
    return [feedback(agent, window, own, areas.get(agent, [])) for agent, own in by_agent.items()]


def told(one: Feedback) -> str:
    """An agent in one line."""
    moves = {
        "success": one.trends.success_rate_trend,
        "quality": one.trends.quality_score_trend,
        "latency": one.trends.latency_trend,
    }
    said = [f"{name} {trend}" for name, trend in moves.items() if trend != "stable"] or ["nothing moves"]
    for word, areas in (("train", one.training_needs), ("strong", one.strength_areas)):
        if areas:
            said.append(f"{word}: {', '.join(area['area'] for area in areas)}")
    return f"{one.agent}: {one.runs:,} runs on {one.days} days; {'; '.join(said)}"


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    far = "how far back (default: %(default)s)"
    parse.add_argument("--days", type=cli.whole(2), default=DAYS, metavar="N", help=far)
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Write and tell it."""
    found = gather(repo, args.days)
    value = {"agents": [plain(one) for one in found]}
    write_json(repo / FEEDBACK, value)
    told_of = [told(one) for one in found] or ["No agent ran in that time."]
    cli.tell(args, value, *told_of)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
