"""Rebuild the sample market: a synthetic, seeded stretch of trading days and what the market did next.

Writes `agents/sample/market.jsonl` and `telemetry/outcomes.jsonl`, byte for byte the same on every machine: the dice
use nothing but additions and multiplications of uniform numbers, no libm. Formats: `agents/sample/README.md`.

Planted: crises that announce themselves in the news and move the market for days (`ARCS`), two quiet stretches, grave
news the market ignores, headlines that only sound dangerous, spreads that fees eat, stale quotes, thin books,
late figures, and one yield published in basis points and corrected the next day.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.market.sample import headlines as news
from agents.market.sample import quotes as sample_quotes
from agents.market.sample.dice import Dice
from telemetry.edge import cli
from telemetry.edge.files import write_atomic
from telemetry.edge.repo import Repo

MARKET: Final = "agents/sample/market.jsonl"
OUTCOMES: Final = "telemetry/outcomes.jsonl"

SEED: Final = 20261030
WARM_UP: Final = 90  # days of history before the first day that can be asked for
DAYS: Final = 160
HORIZON: Final = 2  # trading days that count as "next"
LAST_DAY: Final = dt.date(2026, 10, 30)
HOLIDAYS: Final = frozenset(
    {
        dt.date(2025, 11, 27),
        dt.date(2025, 12, 25),
        dt.date(2026, 1, 1),
        dt.date(2026, 1, 19),
        dt.date(2026, 2, 16),
        dt.date(2026, 4, 3),
        dt.date(2026, 5, 25),
        dt.date(2026, 6, 19),
        dt.date(2026, 7, 3),
        dt.date(2026, 9, 7),
    }
)
QUIET: Final = (range(26, 46), range(98, 116))  # no crisis, no simmer, and little noise
GLITCH_DAY: Final = 76  # the 10-year yield arrives in basis points
LATE: Final = {(12, "DGS10"), (55, "WTI"), (56, "WTI"), (90, "DGS10"), (121, "VIX"), (140, "DXY")}


@dataclass(frozen=True, slots=True)
class Series:
    """One macro series: where it starts, how it breathes, and which move over the horizon is an event."""

    id: str
    name: str
    unit: str
    kind: str  # "level": changes are fractions; "rate": changes are percentage points
    home: float
    pull: float  # share of the distance to home that it returns each day
    noise: float  # standard deviation of a day, in the unit of its changes
    event: float  # a move of this size within HORIZON days is an event


SERIES: Final = (
    Series("VIX", "CBOE volatility index (synthetic)", "index points", "level", 15.5, 0.10, 0.030, 0.15),
    Series("DGS10", "10-year Treasury yield (synthetic)", "percent", "rate", 4.20, 0.02, 0.035, 0.13),
    Series("DXY", "US dollar index (synthetic)", "index points", "level", 103.0, 0.02, 0.0025, 0.010),
    Series("WTI", "Crude oil, WTI (synthetic)", "USD per barrel", "level", 74.0, 0.03, 0.013, 0.05),
)


@dataclass(frozen=True, slots=True)
class Arc:
    """A planted crisis: on `day` it breaks out; `moves` are the extra changes of each series from that day on."""

    day: int
    theme: str
    region: str  # "none" for what comes out of a meeting
    moves: dict[str, tuple[float, ...]]
    warned: int = 1  # days of tremor before it
    relief: int | None = None  # the day after the outbreak on which it ends well, if it does


ARCS: Final = (
    Arc(
        8,
        "gulf",
        "middle_east",
        {"WTI": (0.075, 0.06, 0.03), "VIX": (0.26, 0.22, 0.10), "DXY": (0.006,)},
        2,
        6,
    ),
    Arc(18, "rates", "none", {"DGS10": (0.17, 0.15, 0.07), "DXY": (0.010, 0.011), "VIX": (0.06, 0.05)}),
    Arc(
        50,
        "tariff",
        "asia_pacific",
        {"VIX": (0.22, 0.20, 0.08), "DXY": (0.010, 0.012), "DGS10": (-0.08, -0.05)},
        2,
        7,
    ),
    Arc(58, "coup", "africa", {"WTI": (0.05, 0.05, 0.02), "VIX": (0.05, 0.04)}),
    Arc(
        66, "eastern", "europe", {"VIX": (0.30, 0.24, 0.10), "WTI": (0.06, 0.05), "DGS10": (-0.15, -0.14)}, 2
    ),
    Arc(74, "dovish", "none", {"DGS10": (-0.17, -0.15), "DXY": (-0.011, -0.011), "VIX": (-0.06,)}),
    Arc(84, "gulf", "middle_east", {"WTI": (0.065, 0.06, 0.02), "VIX": (0.22, 0.20, 0.08)}, 1, 5),
    Arc(93, "cyber", "europe", {"VIX": (0.24, 0.20)}, 1, 3),
    Arc(
        119,
        "strait",
        "asia_pacific",
        {"VIX": (0.38, 0.26, 0.10), "DXY": (0.013, 0.012), "WTI": (-0.06, -0.06)},
        2,
        8,
    ),
    Arc(129, "rates", "none", {"DGS10": (0.18, 0.16, 0.05), "DXY": (0.010, 0.011)}),
    Arc(136, "tariff", "americas", {"VIX": (0.28, -0.24), "DXY": (-0.012, -0.011)}, 1, 4),
    Arc(145, "gulf", "middle_east", {"WTI": (0.08, 0.06, 0.03), "VIX": (0.28, 0.22, 0.06)}, 2, 6),
    Arc(153, "coup", "africa", {"WTI": (0.06, 0.05), "VIX": (0.05, 0.04)}),
    # The last day is in the middle of one, so that a first run has something to say.
    Arc(
        158,
        "eastern",
        "europe",
        {"VIX": (0.24, 0.20, 0.08), "WTI": (0.055, 0.05), "DGS10": (-0.13, -0.12)},
        1,
    ),
)
# Jumps with no news behind them: half fade at once, half run on.
BUMPS: Final = (
    (3, "WTI", (0.055,)),
    (14, "WTI", (-0.06, -0.05)),
    (23, "VIX", (-0.18,)),
    (54, "DXY", (0.010,)),
    (62, "DGS10", (0.15, 0.14)),
    (71, "WTI", (0.055,)),
    (80, "DGS10", (0.14,)),
    (89, "WTI", (-0.07, -0.05)),
    (117, "DGS10", (-0.15,)),
    (125, "WTI", (0.06,)),
    (141, "VIX", (0.24, 0.18)),
    (150, "DXY", (0.010, 0.010)),
)
ACTIVE: Final = 3  # days from the outbreak on which a region's crisis is still running
ROUGH: Final = 6  # days from the outbreak with more noise than usual


def trading_days() -> list[dt.date]:
    """Warm-up, sample and the horizon after it, oldest first: weekdays less holidays."""

    def walk(day: dt.date, step: int) -> Iterator[dt.date]:
        while True:
            if day.weekday() < 5 and day not in HOLIDAYS:
                yield day
            day += dt.timedelta(days=step)

    back, ahead = walk(LAST_DAY, -1), walk(LAST_DAY + dt.timedelta(days=1), 1)
    before = [next(back) for _ in range(WARM_UP + DAYS)]
    return before[::-1] + [next(ahead) for _ in range(HORIZON)]


def macro_path(dice: Dice) -> dict[str, list[float]]:
    """The true value of every series on every trading day; index WARM_UP is the first day of the sample."""
    path: dict[str, list[float]] = {}
    for series in SERIES:
        value = series.home
        planted = [(arc.day, arc.moves[series.id]) for arc in ARCS if series.id in arc.moves]
        planted += [(start, moves) for start, name, moves in BUMPS if name == series.id]
        path[series.id] = []
        for day in range(-WARM_UP, DAYS + HORIZON):
            rough = any(0 <= day - arc.day < ROUGH and series.id in arc.moves for arc in ARCS)
            calm = any(day in stretch for stretch in QUIET)
            change = series.noise * dice.noise() * (1.3 if rough else 0.6 if calm else 1.0)
            for start, moves in planted:
                if 0 <= day - start < len(moves):
                    change += moves[day - start]
            value += series.pull * (series.home - value) + change * (1.0 if series.kind == "rate" else value)
            path[series.id].append(round(value, 2))
    return path


def headlines(day: int, places: dict[int, str], recent: list[str], dice: Dice) -> list[list[str]]:
    """The day's news as [time, wire, text], early first; `recent` keeps a text from coming back too soon."""
    texts: list[str] = []
    used: set[str] = set()  # no template twice on one day

    def write(templates: Sequence[str], place: str) -> None:
        for _ in range(20):
            template = dice.pick(templates)
            text = news.fill(template, dice.pick, place)
            if text not in recent and template not in used:
                texts.append(text)
                used.add(template)
                return

    anywhere = [place for names in news.PLACES.values() for place in names]
    for index, arc in enumerate(ARCS):
        age = day - arc.day
        stage = (
            "tremor"
            if -arc.warned <= age < 0
            else "shock"
            if age == 0
            else "aftermath"
            if 0 < age < ACTIVE
            else ""
        )
        if age == arc.relief:
            stage = "relief"
        for _ in range(2 if stage in ("shock", "aftermath") and age < 2 else 1 if stage else 0):
            write(news.ARCS[arc.theme][stage], places[index])
    quiet = any(day in stretch for stretch in QUIET)
    if not quiet and dice.chance(0.35):
        region, template = dice.pick(news.SIMMER)
        write([template], dice.pick(news.PLACES[region]))
    if not quiet and dice.chance(0.06):
        region, template = dice.pick(news.ALARMS)
        write([template], dice.pick(news.PLACES[region]))
    for _ in range(1 + dice.chance(0.7) + dice.chance(0.4)):
        write(news.DECOYS[dice.pick(list(news.DECOYS))], dice.pick(anywhere))
    for _ in range(3 + dice.chance(0.5)):
        write(news.PLAIN, dice.pick(anywhere))
    recent[:] = (recent + texts)[-120:]
    times = sorted({int(dice.between(5, 13 * 60 + 50)) for _ in range(40)})
    order = sorted(texts, key=lambda _: dice.between(0, 1))
    step = len(times) // len(order)
    return [
        [f"{times[n * step] // 60:02d}:{times[n * step] % 60:02d}", dice.pick(news.WIRES), text]
        for n, text in enumerate(order)
    ]


def build(seed: int = SEED) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The lines of the market file (the first describes it) and of the outcomes file."""
    dice = Dice(seed)
    days = trading_days()
    path = macro_path(dice)
    books = sample_quotes.Books(dice)
    places = {n: dice.pick(news.PLACES.get(arc.region, ("",))) for n, arc in enumerate(ARCS)}
    recent: list[str] = []
    market: list[dict[str, Any]] = [_about(seed)]
    outcomes: list[dict[str, Any]] = []
    for index, date in enumerate(days[: WARM_UP + DAYS]):
        day = index - WARM_UP
        published: dict[str, float | None] = {name: values[index] for name, values in path.items()}
        line: dict[str, Any] = {"date": date.isoformat(), "macro": published}
        market.append(line)
        for late_day, name in LATE:
            if day == late_day:
                published[name] = None  # not out yet
            elif day == late_day + 1:
                line.setdefault("revisions", []).append(
                    [name, days[index - 1].isoformat(), path[name][index - 1]]
                )
        if day == GLITCH_DAY:
            published["DGS10"] = round(path["DGS10"][index] * 100, 1)
        elif day == GLITCH_DAY + 1:
            line["revisions"] = [["DGS10", days[index - 1].isoformat(), path["DGS10"][index - 1]]]
        if day < 0:
            continue
        line["headlines"] = headlines(day, places, recent, dice)
        line["fx"], line["quotes"], fills = books.next_day(_situations(day))
        outcomes += _moves(date, index, path) + _regions(date, day)
        outcomes += [{"kind": "fill", "date": date.isoformat()} | fill for fill in fills]
    return market, [row | {"synthetic": True} for row in outcomes]


def _situations(day: int) -> Mapping[str, float]:
    if day == DAYS - 1:
        return sample_quotes.LAST_FREQUENCY
    quiet = any(day in stretch for stretch in QUIET)
    return sample_quotes.QUIET_FREQUENCY if quiet else sample_quotes.FREQUENCY


def _about(seed: int) -> dict[str, Any]:
    return {
        "synthetic": True,
        "note": "Invented by agents/sample_market.py. No line describes a real market, event or statement.",
        "seed": seed,
        "warm_up_days": WARM_UP,
        "series": {s.id: {"name": s.name, "unit": s.unit, "kind": s.kind} for s in SERIES},
        "fee_bps": sample_quotes.FEE_BPS,
    }


def _moves(date: dt.date, index: int, path: dict[str, list[float]]) -> list[dict[str, Any]]:
    """The largest move of each series from this close to any of the next HORIZON closes."""
    rows = []
    for series in SERIES:
        now, *ahead = path[series.id][index : index + HORIZON + 1]
        changes = [value - now if series.kind == "rate" else value / now - 1 for value in ahead]
        largest: float = max(changes, key=abs)
        move = round(largest, 4)
        rows.append(
            {
                "kind": "market",
                "date": date.isoformat(),
                "series": series.id,
                "horizon_days": HORIZON,
                "move": move,
                "event": abs(move) >= series.event,
            }
        )
    return rows


def _regions(date: dt.date, day: int) -> list[dict[str, Any]]:
    """Was a crisis of the region running on any of the next HORIZON days?"""
    return [
        {
            "kind": "region",
            "date": date.isoformat(),
            "region": region,
            "horizon_days": HORIZON,
            "event": any(
                arc.region == region and arc.day - HORIZON <= day < arc.day + ACTIVE - 1 for arc in ARCS
            ),
        }
        for region in news.PLACES
    ]


def files(seed: int = SEED) -> dict[str, str]:
    """Path below the root -> text."""

    def lines(rows: list[dict[str, Any]]) -> str:
        return "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows)

    market, outcomes = build(seed)
    return {MARKET: lines(market), OUTCOMES: lines(outcomes)}


def parser() -> cli.Parser:
    arguments = cli.Parser(__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    return arguments


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    differing = []
    for name, text in files().items():
        path = repo / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            differing.append(name)
            if not args.check:
                write_atomic(path, text)
    if args.json:
        print(json.dumps({"differing": differing, "written": [] if args.check else differing}))
    elif not args.quiet:
        verb = "differs from its generator" if args.check else "rebuilt"
        print("\n".join(f"{name}: {verb}" for name in differing) or "the sample market is up to date")
    return cli.FOUND if args.check and differing else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
