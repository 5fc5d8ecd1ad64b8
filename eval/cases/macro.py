"""The cases of macro_watcher: sixty quiet days of a series, and a last day whose move we planted.

Labelling rule, by exact arithmetic on the values as printed in the case:
1. The change of a day is `value / previous - 1` for a level and `value - previous`, in percentage points, for a rate.
2. `z` is how many sample standard deviations of the 60 changes before it the last change lies from their mean; over a
   closed market of g weekdays it is divided by the square root of g, because so much more may happen.
3. A move is a signal when |z| >= 3 *and* it is material: VIX 8 %, DGS10 0.08 points, DXY 0.6 %, WTI 3 %.
4. Its direction names it: VIX up `risk_off`, down `risk_on`; DGS10 `rates_*`, DXY `dollar_*`, WTI `oil_*`.
5. A last value three times its usual level (the median of 20 days), or a third of it, is no market but a wrong unit or
   a broken feed: `data_error`.
6. A last value from more than three weekdays before `as_of` is stale: nothing is reported.
7. A broken value in the history is no yardstick: the changes into and out of it do not count for `z`.
8. The regime beside a signal on the VIX is read off its level: calm below 15, stressed from 25.

Near-threshold cases stay 4 % away from every limit, so that a divisor of n or n - 1 does not decide a label.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LENGTH = 60  # changes before the last one
Z_SIGNAL = 3.0
STALE_DAYS = 3  # weekdays
FEED_ERROR = 3.0
CALM_BELOW, STRESSED_FROM = 15.0, 25.0  # VIX


@dataclass(frozen=True, slots=True)
class Kind:
    """What a series looks like on a usual day."""

    id: str
    name: str
    unit: str
    rate: bool
    low: float
    high: float
    sigma: float  # a usual standard deviation of daily changes
    material: float
    digits: int
    up: str
    down: str


_VIX = ("VIX", "CBOE volatility index", "index points")
_DGS10 = ("DGS10", "US Treasury 10-year yield", "percent")
_DXY = ("DXY", "US dollar index", "index points")
_WTI = ("WTI", "WTI crude oil", "USD per barrel")
KINDS = (
    Kind(*_VIX, False, 12, 27, 0.045, 0.08, 2, "risk_off", "risk_on"),
    Kind(*_DGS10, True, 3.3, 4.9, 0.05, 0.08, 2, "rates_up", "rates_down"),
    Kind(*_DXY, False, 96, 109, 0.0035, 0.006, 2, "dollar_up", "dollar_down"),
    Kind(*_WTI, False, 58, 94, 0.017, 0.03, 2, "oil_up", "oil_down"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One group of cases: the z to plant (absolute), how lively the series is, and what else is odd about it."""

    name: str
    count: int
    z: tuple[float, float]
    calm: tuple[float, float] = (0.85, 1.3)  # factor on the usual sigma
    odd: str = ""


PLANS = (
    Plan("shock", 52, (3.9, 7.5)),
    Plan("near-above", 36, (3.12, 3.55)),
    Plan("near-below", 36, (2.45, 2.88)),
    Plan("quiet", 24, (0.0, 1.6)),
    Plan("immaterial", 24, (3.4, 5.5), (0.22, 0.38)),
    Plan("lively", 24, (1.6, 2.4), (1.9, 2.6)),
    Plan("stale", 20, (3.6, 6.0), odd="stale"),
    Plan("holiday", 16, (3.4, 5.5), odd="holiday"),
    Plan("holiday-only", 20, (1.9, 2.8), odd="holiday"),
    Plan("unit", 20, (0.0, 1.5), odd="unit"),
    Plan("aftershock", 16, (2.0, 6.0), odd="aftershock"),
    Plan("bad-tick", 10, (4.0, 7.0), odd="bad-tick"),
)
PAIRED = 24  # cases of two series, one of each sort


def cases(seed: int = 20261116) -> Iterator[dict[str, Any]]:
    """All cases, in order; the same seed gives the same cases."""
    draw = random.Random(f"macro/{seed}")
    for plan in PLANS:
        for number in range(plan.count):
            kind = KINDS[number % len(KINDS)]
            as_of = _weekday(draw)
            series, signal = _series(draw, kind, plan, as_of, up=bool((number // len(KINDS)) % 2))
            yield _case(f"macro-{plan.name}-{number + 1:03}", as_of, [(series, signal)], [plan.name, kind.id])
    for number in range(PAIRED):
        as_of = _weekday(draw)
        pair = draw.sample(KINDS, 2)
        plans = [PLANS[number % 7], draw.choice(PLANS[:4])]
        made = [_series(draw, k, p, as_of, up=draw.random() < 0.5) for k, p in zip(pair, plans, strict=True)]
        yield _case(f"macro-pair-{number + 1:03}", as_of, made, ["pair"])


def vix_cases(seed: int = 20261116) -> Iterator[dict[str, Any]]:
    """A small suite for an agent that watches the VIX alone, by the same rule."""
    draw = random.Random(f"vix/{seed}")
    for plan, count in ((PLANS[0], 10), (PLANS[1], 6), (PLANS[2], 6), (PLANS[3], 6)):
        for number in range(count):
            as_of = _weekday(draw)
            series, signal = _series(draw, KINDS[0], plan, as_of, up=bool(number % 2))
            wanted = [signal] if signal else []
            yield {
                "id": f"vix-{plan.name}-{number + 1:03}",
                "input": {"as_of": as_of.isoformat(), "series": [series]},
                "expect": [{"grader": "set_f1", "path": "*.signal", "values": wanted}],
                "tags": [plan.name],
            }


def _case(
    case_id: str, as_of: dt.date, made: list[tuple[dict[str, Any], str | None]], tags: list[str]
) -> dict[str, Any]:
    found = [(series, signal) for series, signal in made if signal]
    expect: list[dict[str, Any]] = [
        {"grader": "set_f1", "path": "*.series:signal", "values": [[s["id"], signal] for s, signal in found]}
    ]
    for series, signal in found:
        if signal != "data_error":
            now, before = (series["history"][place]["value"] for place in (-1, -2))
            path = f"[series={series['id']}].daily_change"
            change = round(now / before - 1, 5)
            expect.append({"grader": "numeric", "path": path, "value": change, "abs": 0.0005, "weight": 0.5})
            if series["id"] == "VIX":
                path = "[series=VIX].regime"
                expect.append({"grader": "exact", "path": path, "value": _regime(now), "weight": 0.5})
    payload = {"as_of": as_of.isoformat(), "series": [series for series, _ in made]}
    return {"id": case_id, "input": payload, "expect": expect, "tags": tags}


def _series(
    draw: random.Random, kind: Kind, plan: Plan, as_of: dt.date, *, up: bool
) -> tuple[dict[str, Any], str | None]:
    """A series and its label; drawn again until the rounded values are clear of every limit."""
    gap = draw.randrange(3, 6) if plan.odd == "holiday" else 1
    while True:
        changes = _changes(draw, kind.sigma * draw.uniform(*plan.calm))
        if plan.odd == "aftershock":  # an older shock widens the yardstick
            place = draw.randrange(LENGTH - 25, LENGTH - 3)
            changes[place] += draw.choice((-1, 1)) * kind.sigma * draw.uniform(4, 6)
        values = _levels(kind, draw.uniform(kind.low, kind.high), changes)
        planned = draw.uniform(*plan.z) * (1 if up else -1)
        last = _move(kind, values[-1], planned * math.sqrt(gap) * _spread(kind, values))
        if plan.odd == "unit":
            last = last * (100 if kind.rate else 10) if up else last / (100 if kind.rate else 10)
        values.append(round(last, kind.digits))
        z, change = _measure(kind, values, gap)
        as_planned = plan.odd == "unit" or z * planned >= 0
        if min(values) > 0 and as_planned and _clear(kind, plan, values[-1], z, change):
            break
    if plan.odd == "bad-tick":
        # planted after measuring: the label does not count it, a plain deviation would
        place = draw.randrange(LENGTH // 3, LENGTH - 25)
        values[place] = round(values[place] * 10, kind.digits)
    signal = _label(kind, values, z, change, stale=plan.odd == "stale")
    days = _dates(draw, as_of, len(values), gap, stale=plan.odd == "stale")
    history = [{"date": day.isoformat(), "value": v} for day, v in zip(days, values, strict=True)]
    series = {
        "id": kind.id,
        "name": kind.name,
        "unit": kind.unit,
        "kind": "rate" if kind.rate else "level",
        "history": history,
    }
    return series, signal


def _changes(draw: random.Random, sigma: float) -> list[float]:
    """Sixty changes with mean 0 and exactly this standard deviation, with the clipped tails of a quiet market."""
    raw = [max(-2.2, min(2.2, draw.gauss(0, 1))) for _ in range(LENGTH)]
    mean = math.fsum(raw) / LENGTH
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in raw) / (LENGTH - 1))
    return [(x - mean) / spread * sigma for x in raw]


def _levels(kind: Kind, start: float, changes: list[float]) -> list[float]:
    values = [round(start, kind.digits)]
    for change in changes:
        values.append(round(_move(kind, values[-1], change), kind.digits))
    return values


def _move(kind: Kind, value: float, change: float) -> float:
    return value + change if kind.rate else value * (1 + change)


def _change(kind: Kind, before: float, after: float) -> float:
    return after - before if kind.rate else after / before - 1


def _spread(kind: Kind, values: list[float]) -> float:
    changes = [_change(kind, a, b) for a, b in itertools.pairwise(values)]
    mean = math.fsum(changes) / len(changes)
    return math.sqrt(math.fsum((c - mean) ** 2 for c in changes) / (len(changes) - 1))


def _measure(kind: Kind, values: list[float], gap: int) -> tuple[float, float]:
    changes = [_change(kind, a, b) for a, b in itertools.pairwise(values)]
    mean = math.fsum(changes[:-1]) / LENGTH
    return (changes[-1] - mean) / _spread(kind, values[:-1]) / math.sqrt(gap), changes[-1]


def _clear(kind: Kind, plan: Plan, last: float, z: float, change: float) -> bool:
    """Far enough from the limits, and on the side of them that the plan is about."""
    margin = 0.04
    away_z = abs(abs(z) / Z_SIGNAL - 1) > margin
    away_move = abs(abs(change) / kind.material - 1) > margin
    away_regime = all(abs(last / limit - 1) > margin for limit in (CALM_BELOW, STRESSED_FROM))
    if not (away_z and away_move and away_regime):
        return False
    material = abs(change) > kind.material
    if plan.name in ("shock", "near-above", "stale", "holiday", "bad-tick"):
        return material and abs(z) > Z_SIGNAL
    if plan.name == "immaterial":
        return not material and abs(z) > Z_SIGNAL
    if plan.name in ("lively", "near-below", "holiday-only"):
        return material and abs(z) < Z_SIGNAL
    return True


def _regime(vix: float) -> str:
    return "calm" if vix < CALM_BELOW else "stressed" if vix >= STRESSED_FROM else "normal"


def _label(kind: Kind, values: list[float], z: float, change: float, *, stale: bool) -> str | None:
    ratio = values[-1] / sorted(values[-21:-1])[10]
    if stale:
        return None
    if ratio > FEED_ERROR or ratio < 1 / FEED_ERROR:
        return "data_error"
    if abs(z) >= Z_SIGNAL and abs(change) >= kind.material:
        return kind.up if change > 0 else kind.down
    return None


def _weekday(draw: random.Random) -> dt.date:
    day = dt.date(2025, 9, 1) + dt.timedelta(days=draw.randrange(420))
    return day - dt.timedelta(days=max(0, day.weekday() - 4))


def _dates(draw: random.Random, as_of: dt.date, count: int, gap: int, *, stale: bool) -> list[dt.date]:
    """Weekdays up to `as_of`, oldest first; the last one `gap` weekdays after the one before, a few holidays."""
    day = as_of if draw.random() < 0.6 else _before(as_of, 1)  # yesterday's close is what a morning run sees
    if stale:
        day = _before(as_of, draw.randrange(STALE_DAYS + 1, 10))
    days = [day, _before(day, gap)]
    while len(days) < count:
        days.append(_before(days[-1], 2 if draw.random() < 0.02 else 1))
    return days[::-1]


def _before(day: dt.date, weekdays: int) -> dt.date:
    while weekdays:
        day -= dt.timedelta(days=1)
        weekdays -= day.weekday() < 5
    return day
