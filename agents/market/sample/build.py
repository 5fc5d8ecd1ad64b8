"""Builds the sample market: macro series, news and quotes day by day, and what the market did next.

The dice use nothing but additions and multiplications of uniform numbers, no libm: the same bytes on every machine.
Planted: crises that announce themselves in the news and move the market for days, two quiet stretches, grave news the
market ignores, headlines that only sound dangerous, spreads that fees eat, stale quotes, thin books, late figures, and
one yield published in basis points and corrected the next day.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Final

from agents.market.sample.planted import ACTIVE, CRISES, NEWS, PLAN, Dice, headlines, is_quiet
from agents.market.sample.quotes import Books
from telemetry.edge.frozen import frozen

MARKET: Final = "agents/sample/market.jsonl"
OUTCOMES: Final = "telemetry/outcomes.jsonl"

SEED: Final = 20261030
WARM_UP: Final = 90  # days of history before the first day that can be asked for
DAYS: Final = 160
HORIZON: Final = 2  # trading days that count as "next"
LAST_DAY: Final = dt.date(2026, 10, 30)
GLITCH_DAY: Final = 76  # the 10-year yield arrives in basis points
WRONG: Final = [*PLAN["late"], (GLITCH_DAY, "DGS10")]  # figures that are put right the day after
ROUGH: Final = 6  # days from the outbreak with more noise than usual


@frozen
class Series:
    """One macro series: where it starts, how it breathes, and which move over the horizon is an event."""

    id: str
    name: str
    unit: str
    kind: str
    home: float
    pull: float
    noise: float
    event: float


SERIES: Final = [Series(**series) for series in PLAN["series"]]


def trading_days() -> list[dt.date]:
    """Warm-up, sample and the horizon after it, oldest first: weekdays less holidays."""
    around = [LAST_DAY + dt.timedelta(days=n) for n in range(-2 * (WARM_UP + DAYS), 5 * HORIZON)]
    days = [day for day in around if day.weekday() < 5 and day.isoformat() not in PLAN["holidays"]]
    end = days.index(LAST_DAY) + 1
    return days[end - WARM_UP - DAYS : end + HORIZON]


def macro_path(dice: Dice) -> dict[str, list[float]]:
    """The true value of every series on every trading day; index WARM_UP is the first day of the sample."""
    path: dict[str, list[float]] = {}
    for series in SERIES:
        value = series.home
        planted = [(arc.day, arc.moves[series.id]) for arc in CRISES if series.id in arc.moves]
        planted += [(start, moves) for start, name, moves in PLAN["bumps"] if name == series.id]
        path[series.id] = []
        for day in range(-WARM_UP, DAYS + HORIZON):
            rough = any(0 <= day - arc.day < ROUGH and series.id in arc.moves for arc in CRISES)
            change = series.noise * dice.noise() * (1.3 if rough else 0.6 if is_quiet(day) else 1.0)
            for start, moves in planted:
                if 0 <= day - start < len(moves):
                    change += moves[day - start]
            value += series.pull * (series.home - value) + change * (1.0 if series.kind == "rate" else value)
            path[series.id].append(round(value, 2))
    return path


def build(seed: int = SEED) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The lines of the market file (the first describes it) and of the outcomes file."""
    dice = Dice(seed)
    days = trading_days()
    path = macro_path(dice)
    books = Books(dice)
    places = {n: dice.pick(NEWS["places"].get(arc.region, [""])) for n, arc in enumerate(CRISES)}
    recent: list[str] = []
    market: list[dict[str, Any]] = [_about(seed)]
    outcomes: list[dict[str, Any]] = []
    for index, date in enumerate(days[: WARM_UP + DAYS]):
        day = index - WARM_UP
        published: dict[str, float | None] = {name: values[index] for name, values in path.items()}
        line: dict[str, Any] = {"date": date.isoformat(), "macro": published}
        market.append(line)
        for wrong_day, name in WRONG:
            if day == wrong_day:
                published[name] = round(path[name][index] * 100, 1) if day == GLITCH_DAY else None
            elif day == wrong_day + 1:
                revision = [name, days[index - 1].isoformat(), path[name][index - 1]]
                line.setdefault("revisions", []).append(revision)
        if day < 0:
            continue
        line["headlines"] = headlines(day, places, recent, dice)
        sort = "last" if day == DAYS - 1 else "quiet" if is_quiet(day) else "usual"
        line["fx"], line["quotes"], fills = books.next_day(PLAN["situations"][sort])
        outcomes += _moves(date, index, path) + _regions(date, day)
        outcomes += [{"kind": "fill", "date": date.isoformat()} | fill for fill in fills]
    return market, [row | {"synthetic": True} for row in outcomes]


def _about(seed: int) -> dict[str, Any]:
    return {
        "synthetic": True,
        "note": "Invented by agents/sample_market.py. No line describes a real market, event or statement.",
        "seed": seed,
        "warm_up_days": WARM_UP,
        "series": {s.id: {"name": s.name, "unit": s.unit, "kind": s.kind} for s in SERIES},
        "fee_bps": PLAN["venues"],
    }


def _moves(date: dt.date, index: int, path: dict[str, list[float]]) -> list[dict[str, Any]]:
    """The largest move of each series from this close to any of the next HORIZON closes."""
    rows = []
    for series in SERIES:
        now, *ahead = path[series.id][index : index + HORIZON + 1]
        changes = [value - now if series.kind == "rate" else value / now - 1 for value in ahead]
        move = round(float(max(changes, key=abs)), 4)
        about = {"kind": "market", "date": date.isoformat(), "series": series.id, "horizon_days": HORIZON}
        rows.append(about | {"move": move, "event": abs(move) >= series.event})
    return rows


def _regions(date: dt.date, day: int) -> list[dict[str, Any]]:
    """Was a crisis of the region running on any of the next HORIZON days?"""
    running = [arc.region for arc in CRISES if arc.day - HORIZON <= day < arc.day + ACTIVE - 1]
    about = {"kind": "region", "date": date.isoformat()}
    rows = [{"region": name, "horizon_days": HORIZON, "event": name in running} for name in NEWS["places"]]
    return [about | row for row in rows]


def files(seed: int = SEED) -> dict[str, str]:
    """Path below the root -> text."""

    def lines(rows: list[dict[str, Any]]) -> str:
        return "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows)

    market, outcomes = build(seed)
    return {MARKET: lines(market), OUTCOMES: lines(outcomes)}
