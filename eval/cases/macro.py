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
from statistics import fmean, median_high, stdev

from eval.cases import Row, case, content, family_of, generator, one_sided, wanted

LENGTH = 60  # changes before the last one
Z_SIGNAL = 3.0
STALE_DAYS = 3  # weekdays
FEED_ERROR = 3.0
CALM_BELOW, STRESSED_FROM = 15.0, 25.0  # VIX
MARGIN = 0.04  # kept from every limit
DIGITS = 2  # of a value
PAIRED = 24  # cases of two series, one of each sort


@dataclass(frozen=True, slots=True)
class Kind:
    """What a series looks like on a usual day."""

    id: str
    name: str
    unit: str
    low: float
    high: float
    sigma: float  # a usual standard deviation of daily changes
    material: float
    up: str
    down: str
    rate: bool = False

    def moved(self, value: float, change: float) -> float:
        return value + change if self.rate else value * (1 + change)

    def changes(self, values: list[float]) -> list[float]:
        return [b - a if self.rate else b / a - 1 for a, b in itertools.pairwise(values)]


@dataclass(frozen=True, slots=True)
class Plan:
    """One group of cases: the z to plant (absolute), how lively the series is, and what else is odd about it."""

    name: str
    count: int
    z: tuple[float, float]
    calm: tuple[float, float] = (0.85, 1.3)  # factor on the usual sigma
    odd: str = ""
    vix: int = 0  # cases in the suite on the VIX alone
    far: bool | None = None  # whether |z| and the move have to end beyond their limits; None: either way
    material: bool | None = None


GIVEN = content(__file__)
KINDS = [Kind(**kind) for kind in GIVEN["kinds"]]
PLANS = [Plan(**plan) for plan in GIVEN["plans"]]

Labelled = tuple[Row, str | None]  # a series and its signal


def cases() -> Iterator[Row]:
    """All cases, in order."""
    draw = generator("macro")
    for plan in PLANS:
        for number in range(plan.count):
            kind, as_of, up = KINDS[number % len(KINDS)], _weekday(draw), bool((number // len(KINDS)) % 2)
            made, tags = _series(draw, kind, plan, as_of, up=up), [plan.name, kind.id]
            yield _case(f"macro-{plan.name}-{number + 1:03}", _family(plan, kind, up), as_of, [made], tags)
    for number in range(PAIRED):
        as_of, families = _weekday(draw), list[str]()
        while not one_sided(families):
            plans = [PLANS[number % 7], draw.choice(PLANS[:4])]
            pair = list(zip(plans, draw.sample(KINDS, 2), draw.choices((True, False), k=2), strict=True))
            families = [_family(*one) for one in pair]
        both = [_series(draw, kind, plan, as_of, up=up) for plan, kind, up in pair]
        yield _case(f"macro-pair-{number + 1:03}", families[0], as_of, both, ["pair"])


def vix_cases() -> Iterator[Row]:
    """A small suite for an agent that watches the VIX alone, by the same rule."""
    draw = generator("vix")
    for plan in PLANS:
        for number in range(plan.vix):
            as_of, up = _weekday(draw), bool(number % 2)
            series, signal = _series(draw, KINDS[0], plan, as_of, up=up)
            expect = [wanted("set_f1", "*.signal", values=[signal] if signal else [])]
            payload = {"as_of": as_of.isoformat(), "series": [series]}
            family = family_of("series", plan.name, KINDS[0].id, _way(up))
            yield case(f"vix-{plan.name}-{number + 1:03}", family, payload, expect, [plan.name])


def _family(plan: Plan, kind: Kind, up: bool) -> str:
    return family_of("day", plan.name, kind.id, _way(up))


def _way(up: bool) -> str:
    return "up" if up else "down"


def _case(case_id: str, family: str, as_of: dt.date, made: list[Labelled], tags: list[str]) -> Row:
    found = [[series["id"], signal] for series, signal in made if signal]
    expect = [wanted("set_f1", "*.series:signal", values=found)]
    for series, signal in made:
        if signal and signal != "data_error":
            before, now = (point["value"] for point in series["history"][-2:])
            item, change = f"[series={series['id']}]", round(now / before - 1, 5)
            expect.append(wanted("numeric", f"{item}.daily_change", value=change, abs=0.0005, weight=0.5))
            if series["id"] == "VIX":
                expect.append(wanted("exact", f"{item}.regime", value=_regime(now), weight=0.5))
    payload = {"as_of": as_of.isoformat(), "series": [series for series, _ in made]}
    return case(case_id, family, payload, expect, tags)


def _series(draw: random.Random, kind: Kind, plan: Plan, as_of: dt.date, *, up: bool) -> Labelled:
    """A series and its label; drawn again until the rounded values are clear of every limit."""
    gap = draw.randrange(3, 6) if plan.odd == "holiday" else 1
    while True:
        changes = _changes(draw, kind.sigma * draw.uniform(*plan.calm))
        if plan.odd == "aftershock":  # an older shock widens the yardstick
            place = draw.randrange(LENGTH - 25, LENGTH - 3)
            changes[place] += draw.choice((-1, 1)) * kind.sigma * draw.uniform(4, 6)
        values = [round(draw.uniform(kind.low, kind.high), DIGITS)]
        for change in changes:
            values.append(round(kind.moved(values[-1], change), DIGITS))
        planned = draw.uniform(*plan.z) * (1 if up else -1)
        before = kind.changes(values)
        last = kind.moved(values[-1], planned * math.sqrt(gap) * stdev(before))
        if plan.odd == "unit":
            factor = 100 if kind.rate else 10
            last = last * factor if up else last / factor
        values.append(round(last, DIGITS))
        change = kind.changes(values[-2:])[0]
        z = (change - fmean(before)) / stdev(before) / math.sqrt(gap)
        as_planned = plan.odd == "unit" or z * planned >= 0
        if min(values) > 0 and as_planned and _clear(kind, plan, values[-1], z, change):
            break
    if plan.odd == "bad-tick":
        # planted after measuring: the label does not count it, a plain deviation would
        place = draw.randrange(LENGTH // 3, LENGTH - 25)
        values[place] = round(values[place] * 10, DIGITS)
    signal = None if plan.odd == "stale" else _label(kind, values, z, change)
    days = _dates(draw, as_of, len(values), gap, stale=plan.odd == "stale")
    history = [{"date": day.isoformat(), "value": v} for day, v in zip(days, values, strict=True)]
    series = {"id": kind.id, "name": kind.name, "unit": kind.unit, "kind": "rate" if kind.rate else "level"}
    return series | {"history": history}, signal


def _changes(draw: random.Random, sigma: float) -> list[float]:
    """Sixty changes with mean 0 and exactly this standard deviation, with the clipped tails of a quiet market."""
    raw = [max(-2.2, min(2.2, draw.gauss(0, 1))) for _ in range(LENGTH)]
    mean, spread = fmean(raw), stdev(raw)
    return [(x - mean) / spread * sigma for x in raw]


def _clear(kind: Kind, plan: Plan, last: float, z: float, change: float) -> bool:
    """Far enough from the limits, and on the side of them that the plan is about."""
    z_share, move_share = abs(z) / Z_SIGNAL, abs(change) / kind.material
    shares = (z_share, move_share, last / CALM_BELOW, last / STRESSED_FROM)
    sides = plan.far in (None, z_share > 1) and plan.material in (None, move_share > 1)
    return sides and all(abs(share - 1) > MARGIN for share in shares)


def _regime(vix: float) -> str:
    return "calm" if vix < CALM_BELOW else "stressed" if vix >= STRESSED_FROM else "normal"


def _label(kind: Kind, values: list[float], z: float, change: float) -> str | None:
    ratio = values[-1] / median_high(values[-21:-1])
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
