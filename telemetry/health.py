"""Says whether telemetry can be trusted and used: exit code 1 if a target is missed, with what is missing.

| what | target |
|---|---|
| lines of the log that can be read, runs that carry what a run has to say | >= 95 % each |
| rows that break `event.schema.json` | < 5 % |
| secrets in rows or texts | 0 |
| enabled agents that ran | 100 % |
| kinds of task | >= 5 |

Beside them, without a target: batches exported and consumed, agents whose quality rose, and by how much on average.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from telemetry import feedback
from telemetry.edge import cli
from telemetry.edge.files import EXPORTS, MANIFEST, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain
from telemetry.edge.text import redact
from telemetry.read.agents import named_agents
from telemetry.read.rows import Window, in_utc, parse

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from telemetry.read.store import Snapshot

DAYS: Final = 7
SAMPLE: Final = 5_000  # rows that are held to the schema and searched for secrets, spread over the window
SMALL: Final = 10 << 20  # bytes of a live log that is looked at line by line
TRACKED, SCHEMA_FAILURES, TASK_TYPES = 0.95, 0.05, 5
SCHEMA: Final = Path(__file__).with_name("event.schema.json")


@frozen
class Check:
    """One figure and its target; a value of None could not be measured, and is no miss."""

    name: str
    value: float | None
    target: str
    ok: bool
    why: str = ""


@frozen
class Health:
    """All of it."""

    since: str
    checks: tuple[Check, ...]
    batches_exported: int
    batches_consumed: int
    agents_improved: int
    avg_quality_increase: float | None

    @property
    def missed(self) -> list[Check]:
        return [check for check in self.checks if not check.ok]


def health(repo: Repo, days: int = DAYS, now: datetime | None = None) -> Health:
    """Look at the last days."""
    from telemetry.read.store import connect, snapshot

    until = now or datetime.now(UTC)
    since = until - timedelta(days=days)
    rows = snapshot(repo)
    sample = list(_sample(rows, f"{in_utc(since)}Z"))
    with connect(repo, Window(since=since), fields=feedback.FIELDS, now=rows) as con:
        checks = [*_lines(con), _agents(repo, con), _task_types(con)]
        # Whether something moved takes two days to tell.
        moved = feedback.of_rows(con, since, until) if days > 1 else feedback.gather(repo, 2, until)
    checks += [_schema(sample), _private(repo, sample, since)]
    known = [one.quality_change for one in moved if one.quality_change is not None]
    batches = [path.parent for path in (repo / EXPORTS).glob("*/manifest.json")]
    return Health(
        since.date().isoformat(),
        tuple(checks),
        len(batches),
        sum((folder / "consumed.json").exists() for folder in batches),
        sum(one.trends.quality_score_trend == "improving" for one in moved),
        round(sum(known) / len(known), 6) if known else None,
    )


def _share(name: str, good: int, of: int, least: float, why: str) -> Check:
    share = good / of if of else None
    ok = share is None or share >= least
    return Check(name, None if share is None else round(share, 6), f">= {least:.0%}", ok, "" if ok else why)


def _lines(con: DuckDBPyConnection) -> Iterable[Check]:
    counted = con.execute("select count(*), count(*) filter (where malformed) from lines").fetchone()
    lines, malformed = counted or (0, 0)
    yield _share("readable", lines - malformed, lines, TRACKED, f"{malformed:,} lines are malformed")
    found = con.execute(
        "select count(*), count(*) filter (where latency_ms is not null and success is not null"
        " and task_type is not null and (tokens_in is not null or error is not null))"
        " from events where kind = 'run'"
    ).fetchone()
    runs, whole = found or (0, 0)
    why = f"{runs - whole:,} of {runs:,} runs lack success, latency_ms, task_type or tokens"
    yield _share("tracked", whole, runs, TRACKED, why)


def _agents(repo: Repo, con: DuckDBPyConnection) -> Check:
    named = named_agents(repo) if (repo / MANIFEST).exists() else {}
    wanted = {name for name, enabled in named.items() if enabled}
    ran = {name for (name,) in con.execute("select distinct agent from events where kind = 'run'").fetchall()}
    silent = sorted(wanted - ran)
    return _share("agents", len(wanted) - len(silent), len(wanted), 1.0, f"did not run: {', '.join(silent)}")


def _task_types(con: DuckDBPyConnection) -> Check:
    found = con.execute("select distinct task_type from events where task_type is not null").fetchall()
    names = sorted(str(name) for (name,) in found)
    ok = len(names) >= TASK_TYPES
    why = "" if ok else f"only {', '.join(names) or 'none'}"
    return Check("task_types", len(names), f">= {TASK_TYPES}", ok, why)


def _sample(now: Snapshot, since: str) -> Iterator[dict[str, Any]]:
    """Rows as they were logged, as many as a look takes: live ones from places all over the log, and sealed ones."""
    from telemetry.read.parquet import events
    from telemetry.read.store import day_of

    recent = [path for path in now.sealed if day_of(path) >= since[:10]]
    for row in chain(map(parse, _lines_of(now)), events(recent, SAMPLE)):
        if row is not None and row["ts"] >= since:
            yield {name: value for name, value in row.items() if value is not None}


def _lines_of(now: Snapshot) -> Iterator[bytes]:
    """Lines of the live log: all of a small one, of a large one those behind places that are drawn."""
    if now.log is None:
        return
    lines = iter(now.log) if now.size <= SMALL else _drawn(now.log, now.size)
    yield from (line for line in lines if line.endswith(b"\n"))


def _drawn(log: IO[bytes], size: int) -> Iterator[bytes]:
    import random

    for place in sorted(random.Random(1).sample(range(size), SAMPLE)):
        log.seek(place)
        log.readline()  # the one that the place is in
        yield log.readline()


def _schema(rows: list[dict[str, Any]]) -> Check:
    import jsonschema_rs

    check = jsonschema_rs.validator_for(json.loads(SCHEMA.read_bytes()))
    said: dict[str, int] = {}
    for row in map(_whole, rows):
        if not check.is_valid(row):
            problem = next(iter(check.iter_errors(row)))
            where = "/".join(map(str, problem.instance_path)) or row["kind"]
            said[f"{where}: {problem.message[:80]}"] = said.get(f"{where}: {problem.message[:80]}", 0) + 1
    failed = sum(said.values())
    share = failed / len(rows) if rows else None
    ok = share is None or share < SCHEMA_FAILURES
    most = max(said, key=lambda one: said[one], default="")
    value = None if share is None else round(share, 6)
    return Check("schema_failures", value, f"< {SCHEMA_FAILURES:.0%}", ok, "" if ok else f"most often {most}")


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row has to have may be null there: it was, before it went through columns."""
    needed = (
        "latency_ms",
        "cost_usd",
        "cost_source",
        "tokens_in",
        "tokens_out",
        "tokens_cached",
        "tokens_thinking",
    )
    return dict.fromkeys((*needed, "error", "reward", "model_answered", "provider", "request_id")) | dict(row)


def _private(repo: Repo, rows: Iterable[Mapping[str, Any]], since: datetime) -> Check:
    """What should have been redacted: in rows, and in the texts that are here."""
    from telemetry.read import sealed_texts

    bad = sum(_leaks(json.dumps(row, default=str, ensure_ascii=False)) for row in rows)
    recent = [path for path in sealed_texts.files(repo) if path.parent.name[3:] >= since.date().isoformat()]
    bad += sum(_leaks(text) for _, text in sealed_texts.rows(recent))
    for path in sealed_texts.logs(repo):
        with path.open("rb") as log:
            bad += sum(_leaks(_said(line)) for line in log)
    return Check(
        "privacy_violations", bad, "0", bad == 0, "" if bad == 0 else f"{bad} rows or texts hold a secret"
    )


def _said(line: bytes) -> str:
    """The text on a line of their log, whatever name it goes by; a line that is none is searched as it stands."""
    import orjson

    try:
        return str(orjson.loads(line)["text"])
    except (ValueError, KeyError, TypeError):
        return line.decode(errors="replace")


def _leaks(text: str) -> bool:
    return redact(text) != text


def told(found: Health) -> list[str]:
    """A line for each figure."""
    lines = []
    for check in found.checks:
        value = "unknown" if check.value is None else f"{check.value:g}"
        lines.append(
            f"{'✓' if check.ok else '✗'}  {check.name:<20} {value:>10}   {check.target:<8} {check.why}".rstrip()
        )
    rise = (
        "unknown" if found.avg_quality_increase is None else f"{100 * found.avg_quality_increase:+.1f} points"
    )
    lines.append(
        f"{found.batches_exported} batches exported, {found.batches_consumed} consumed; quality of"
        f" {found.agents_improved} agents is rising, change on average {rise}"
    )
    return lines


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    far = "how far back (default: %(default)s)"
    parse.add_argument("--days", type=cli.whole(1), default=DAYS, metavar="N", help=far)
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Look, tell, and end with 1 if something is missed."""
    found = health(repo, args.days)
    lines = told(found)
    cli.job_summary("### Health of telemetry\n\n```\n" + "\n".join(lines) + "\n```")
    cli.tell(args, plain(found), *lines)
    return cli.FOUND if found.missed else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
