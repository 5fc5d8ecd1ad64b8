"""Watches macro series for moves that matter: Python measures a move, the model judges it.

Features of a series, all from points dated on or before `as_of`:

| feature | meaning |
|---|---|
| `value`, `previous`, `date` | the last two values, and the date of the last |
| `daily_change` | last change as a fraction of the previous value |
| `change_pp` | last change in percentage points; null unless the series is a rate |
| `z_score` | last change against the mean and deviation of up to 60 changes before it (fractions; points for rates) |
| `z_gap_adjusted` | the same divided by sqrt(gap_days): a change over five days may be sqrt(5) larger |
| `history_n` | how many changes stand behind the z-score |
| `gap_days` | weekdays between the last two points; 1 is normal, more is a holiday or a hole |
| `stale_days` | weekdays from the last point to `as_of`; 0 is today's |
| `vol_ratio` | deviation of the last 10 changes over that of the 60 before |
| `jump_ratio` | value over the median of the 20 values before: far from 1 is a wrong unit or a bad tick |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, Final

from agents.base import BaseAgent, InputError, Inputs, Item, items_of, joined
from agents.model.schema import listed, record, text
from telemetry.edge.records import is_number

TRAILING = 60  # changes behind a z-score: about a quarter of a year
RECENT = 10  # changes that make up "now" in vol_ratio
LEVELS = 20  # values behind jump_ratio
FEWEST = 5  # changes below which a deviation means nothing

SIGNALS: Final = (
    "risk_off", "risk_on", "rates_up", "rates_down", "dollar_up", "dollar_down", "oil_up", "oil_down", "data_error",
)  # fmt: skip
REGIMES: Final = ("calm", "normal", "stressed")

JUDGEMENT: Final = listed(
    record(
        series=text(description="the id of one of the given series"),
        signal=text(*SIGNALS),
        regime=text(*REGIMES),
        rationale=text(minLength=1, maxLength=1000),
    )
)


class MacroWatcher(BaseAgent):
    """Signals on moves, z-scores and regime of macro series."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """One item per series that gives a signal; an empty list is a quiet day."""
        given = payload(inputs)
        measured = {row["series"]: row for row in given["series"]}
        answer = await self.ask(given, JUDGEMENT)
        return [_signal(item, row) for item, row in joined(answer, "series", measured)]


def _signal(item: Item, row: Mapping[str, Any]) -> Item:
    """The model's judgement with the measured numbers; a data error has no change worth the name."""
    broken, changes = item["signal"] == "data_error", ("daily_change", "change_pp", "z_score")
    said = {"series": item["series"], "signal": item["signal"], "value": row["value"]}
    said |= {name: None if broken else row[name] for name in changes}
    return said | {"regime": item["regime"], "rationale": item["rationale"]}


def payload(inputs: Inputs) -> dict[str, Any]:
    """What the model is asked about: the features of every series."""
    as_of = _day(inputs.get("as_of"), "as_of")
    series = items_of(inputs, "series", "macro inputs")
    return {"as_of": as_of.isoformat(), "series": [features(entry, as_of) for entry in series]}


def features(series: Mapping[str, Any], as_of: date) -> dict[str, Any]:
    """The features of one series as of a day; unknown ones are null."""
    points = _points(series, as_of)
    values = [value for _, value in points]
    rate = series.get("kind") == "rate"
    row: dict[str, Any] = dict.fromkeys(
        ("value", "previous", "date", "daily_change", "change_pp", "z_score", "z_gap_adjusted", "gap_days",
         "stale_days", "vol_ratio", "jump_ratio")
    )  # fmt: skip
    row |= {"series": str(series.get("id")), "unit": series.get("unit"), "kind": "rate" if rate else "level"}
    row["history_n"] = 0
    if not points:
        return row
    last = points[-1][0]
    row |= {"value": values[-1], "date": last.isoformat(), "stale_days": weekdays(last, as_of)}
    if len(points) < 2:
        return row
    gap = max(1, weekdays(points[-2][0], last))
    changes = [_change(a, b, rate) for a, b in pairwise(values)]
    before, earlier = changes[:-1][-TRAILING:], changes[:-RECENT]
    z = _z(changes[-1], before)
    row |= {
        "previous": values[-2],
        "daily_change": _round(_change(values[-2], values[-1], rate=False)),
        "change_pp": _round(values[-1] - values[-2]) if rate else None,
        "z_score": _round(z, 3),
        "z_gap_adjusted": None if z is None else _round(z / math.sqrt(gap), 3),
        "gap_days": gap,
        "history_n": len(before),
        "vol_ratio": _round(_ratio(_deviation(changes[-RECENT:]), _deviation(earlier[-TRAILING:])), 3),
        "jump_ratio": _round(_ratio(values[-1], _median(values[:-1][-LEVELS:])), 3),
    }
    return row


def weekdays(start: date, end: date) -> int:
    """Weekdays after `start`, up to and including `end`."""
    days = max(0, (end - start).days)
    whole, rest = divmod(days, 7)
    return whole * 5 + sum((start + timedelta(days=n)).weekday() < 5 for n in range(1, rest + 1))


def _points(series: Mapping[str, Any], as_of: date) -> list[tuple[date, float]]:
    """Usable points, oldest first, none from the future. A hole in the feed (null, NaN, text) is no point."""
    found: dict[date, float] = {}
    for point in items_of(series, "history", f"macro inputs: {series.get('id')}"):
        value = point.get("value") if isinstance(point, dict) else None
        if is_number(value):
            day = _day(point.get("date"), f"{series.get('id')}.history.date")
            if day <= as_of:
                found[day] = float(value)
    return sorted(found.items())


def _day(value: object, where: str) -> date:
    try:
        return _date(str(value)[:10])
    except ValueError:
        raise InputError(f"macro inputs: {where}: {str(value)[:40]!r} is not a date") from None


_date = functools.lru_cache(maxsize=4096)(date.fromisoformat)  # all series have the same days


def _change(before: float, after: float, rate: bool) -> float | None:
    """In points for a rate, as a fraction of a level; a level of zero has none."""
    if rate:
        return after - before
    return (after - before) / abs(before) if before else None


def _z(change: float | None, before: Sequence[float | None]) -> float | None:
    deviation = _deviation(before)
    if change is None or not deviation:
        return None
    known = [value for value in before if value is not None]
    return (change - math.fsum(known) / len(known)) / deviation


def _deviation(changes: Sequence[float | None]) -> float | None:
    known = [value for value in changes if value is not None]
    if len(known) < FEWEST:
        return None
    mean = math.fsum(known) / len(known)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1))


def _median(values: Sequence[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _round(value: float | None, digits: int = 6) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)
