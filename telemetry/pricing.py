"""Compares what calls were logged to cost with what was billed: `python -m telemetry.pricing reconcile BILL.csv`.

The bill is CSV with a day, a model and an amount in USD, under the names that providers use (OpenAI's export of costs
among them); lines of one day and model are added up, and a model's date (`gpt-6-luna-2026-05-01`) is no other model.
Each difference is told with its likely cause. Exit code 1 if there is one beyond 1 % and one cent.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import is_number, plain

SHARE, CENT = 0.01, 0.01  # a difference below either is rounding
STEADY: Final = 0.05  # ratios of billed to logged that lie so close together are a price, not an accident
STEADY_DAYS: Final = 3

# What providers call the columns, in the order they are looked for.
NAMES: Final = {
    "day": ("day", "date", "usage_date", "start_time_iso", "start_time", "timestamp"),
    "model": ("model", "model_name", "line_item", "sku"),
    "usd": ("cost_usd", "amount_usd", "usd", "amount_value", "amount", "cost", "total"),
}
_DATED: Final = re.compile(r"-(?:20\d\d-\d\d-\d\d|20\d{6})$")
Key = tuple[str, str]  # day, model


@frozen
class Logged:
    """The calls of one day and model."""

    usd: float
    calls: int
    unknown: int  # calls of which nobody knows the cost
    again: int  # requests beyond one a call
    price_list: str | None = None


@frozen
class Line:
    """One day of one model, on both sides; None is not there."""

    day: str
    model: str
    logged_usd: float | None
    billed_usd: float | None
    difference_usd: float
    ok: bool
    cause: str


def model_of(name: str) -> str:
    """The model of a bill's line: `gpt-4o-mini-2024-07-18, input` is gpt-4o-mini, whoever routed it."""
    plain_name = name.split(",")[0].strip().lower().rpartition("/")[2]
    return _DATED.sub("", plain_name)


def read_bill(file: Path) -> dict[Key, float]:
    """What was billed by day and model."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines)
            columns = _columns(file, rows.fieldnames or ())
            billed: dict[Key, float] = defaultdict(float)
            for row in rows:
                where = f"{file}:{rows.line_num}"
                usd, day = row[columns["usd"]], row[columns["day"]]
                try:
                    amount = float((usd or "0").replace("$", "").replace(",", "").strip() or 0)
                    if not is_number(amount):
                        raise ValueError("not finite")
                except ValueError:
                    raise BadInput(
                        f"{where}: {columns['usd']}: must be an amount in USD, not {usd!r}"
                    ) from None
                if amount:
                    billed[
                        _day(day or "", f"{where}: {columns['day']}"), model_of(row[columns["model"]] or "")
                    ] += amount
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise BadInput(f"{file}: cannot be read as CSV ({problem})") from None
    return dict(billed)


def _columns(file: Path, names: Iterable[str]) -> dict[str, str]:
    known = {name.strip().lower(): name for name in names if name}
    found = {}
    for what, spellings in NAMES.items():
        column = next((known[one] for one in spellings if one in known), None)
        if column is None:
            raise BadInput(
                f"{file}: no column for the {what} (one of {', '.join(spellings)}; has {', '.join(known)})"
            )
        found[what] = column
    return found


def _day(text: str, where: str) -> str:
    """The UTC day of a date, a time, or seconds since 1970."""
    said = text.strip()
    try:
        if re.fullmatch(r"\d{9,11}(\.\d+)?", said):
            return datetime.fromtimestamp(float(said), UTC).date().isoformat()
        when = datetime.fromisoformat(said)
        day = (when.astimezone(UTC) if when.tzinfo else when).date()
        if not 1970 <= day.year < 2200:  # as rows are
            raise ValueError("of no bill")
        return day.isoformat()
    except (ValueError, OverflowError):
        raise BadInput(f"{where}: must be a day like 2026-11-16, not {text!r}") from None


def reconcile(logged: Mapping[Key, Logged], billed: Mapping[Key, float]) -> list[Line]:
    """Every day and model on either side; what differs with its likely cause. Pure."""
    gaps = {
        key: billed.get(key, 0.0) - (logged[key].usd if key in logged else 0.0)
        for key in sorted({*logged, *billed})
        if key in billed or logged[key].usd or logged[key].unknown
    }
    prices = _prices(logged, billed)
    lines = []
    for (day, model), gap in gaps.items():
        mine, theirs = logged.get((day, model)), billed.get((day, model))
        most = max(abs(theirs or 0.0), mine.usd if mine else 0.0)
        ok = abs(gap) <= max(CENT, SHARE * most)
        cause = "" if ok else _cause((day, model), gap, mine, theirs, gaps, prices)
        lines.append(
            Line(day, model, None if mine is None else round(mine.usd, 6), theirs, round(gap, 6), ok, cause)
        )
    return lines


def _prices(logged: Mapping[Key, Logged], billed: Mapping[Key, float]) -> dict[str, float]:
    """By model, how many times the logged cost is billed, where that is the same on all days."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for (day, model), mine in logged.items():
        if mine.usd >= CENT and not mine.unknown and (day, model) in billed:
            ratios[model].append(billed[day, model] / mine.usd)
    steady = {}
    for model, own in ratios.items():
        middle = sorted(own)[len(own) // 2]
        if len(own) >= STEADY_DAYS and all(abs(one - middle) <= STEADY * middle for one in own):
            steady[model] = middle
    return steady


def _cause(
    key: Key,
    gap: float,
    mine: Logged | None,
    theirs: float | None,
    gaps: Mapping[Key, float],
    prices: Mapping[str, float],
) -> str:
    day, model = key
    if model in prices and abs(prices[model] - 1) > SHARE:
        listed = f" of {mine.price_list}" if mine and mine.price_list else ""
        return (
            f"billed {prices[model]:.2f} times the price{listed} on every day: give `prices:` in its `model:`"
        )
    for step in (-1, 1):
        other = gaps.get(((date.fromisoformat(day) + timedelta(days=step)).isoformat(), model), 0.0)
        if gap * other < 0 and abs(gap + other) <= 0.1 * abs(gap):
            return "the neighbouring day differs by as much the other way: the bill's days are not UTC"
    if mine is None:
        return "nothing logged: another program under the same key, or rows not here (python -m telemetry.sync pull)"
    if theirs is None:
        return "nothing billed: another account or endpoint, a free tier, or the bill ends before that day"
    if gap > 0 and mine.unknown:
        return (
            f"{mine.unknown} calls of unknown cost (cut off, or without usage): they were billed all the same"
        )
    if gap > 0 and mine.again:
        return f"{mine.again} requests were sent again: answers that came too late were billed too"
    if gap > 0:
        return "more was billed than is logged: another program under the same key, or rows not here"
    return (
        "less was billed than the list price: a discount, cached prompts or batch prices that the list lacks"
    )


_SQL: Final = """
select strftime(ts, '%Y-%m-%d'), coalesce(model, ''), coalesce(sum(cost_usd), 0), count(*),
    count(*) filter (where cost_usd is null), coalesce(sum(greatest(try_cast(attempts as bigint), 1) - 1), 0),
    max(price_list_version)
from events where kind = 'llm_call' and coalesce(provider, '') <> 'offline' and coalesce(cost_source, '') <> 'cache'
group by all"""


def logged_calls(repo: Repo, first: str, last: str) -> dict[Key, Logged]:
    """What the log, and what was pulled of the data branch, knows of these days."""
    from telemetry.read.rows import Window
    from telemetry.read.store import connect

    since = datetime.fromisoformat(first).replace(tzinfo=UTC)
    found: dict[Key, list[Logged]] = defaultdict(list)
    with connect(repo, Window(kind="llm_call", since=since, elsewhere=True), fields=["attempts"]) as con:
        for day, model, *figures in con.execute(_SQL).fetchall():
            if day <= last:
                found[day, model_of(model)].append(Logged(*figures))
    return {key: _sum(parts) for key, parts in found.items()}


def _sum(parts: Sequence[Logged]) -> Logged:
    total = Counter[str]()
    for one in parts:
        total.update({"calls": one.calls, "unknown": one.unknown, "again": one.again})
    usd = sum(one.usd for one in parts)
    return Logged(usd, total["calls"], total["unknown"], total["again"], parts[-1].price_list)


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("command", choices=("reconcile",), help="compare logged with billed cost")
    parse.add_argument("bill", type=Path, metavar="BILL.csv", help="with a day, a model and an amount in USD")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Compare, and tell."""
    billed = read_bill(args.bill)
    if not billed:
        raise BadInput(f"{args.bill}: no line with an amount")
    days = sorted(day for day, _ in billed)
    lines = reconcile(logged_calls(repo, days[0], days[-1]), billed)
    apart = [line for line in lines if not line.ok]
    mine, theirs = sum(line.logged_usd or 0.0 for line in lines), sum(billed.values())
    told = [f"{days[0]} .. {days[-1]}: ${theirs:.2f} billed, ${mine:.2f} logged, {theirs - mine:+.2f}"]
    for line in apart:
        sides = (f"${line.billed_usd or 0:.4f} billed", f"${line.logged_usd or 0:.4f} logged")
        told.append(f"{line.day} {line.model}: {', '.join(sides)} ({line.difference_usd:+.4f}): {line.cause}")
    if not apart:
        told.append("No day and model differs by more than 1 % and one cent.")
    cli.tell(args, {"billed_usd": theirs, "logged_usd": mine, "lines": plain(lines)}, *told)
    return cli.FOUND if apart else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
