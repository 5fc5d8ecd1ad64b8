"""The cases of reviewer: outputs of the market agents into which we planted a defect, or none.

Labelling rule: the defect is the one planted, and its severity is that of its kind.
| defect | planted as | severity |
|---|---|---|
| schema | a required field left out, or text where a number is due | high |
| out_of_range | risk_score outside 0..100, z_score beyond 25, profit_pct above 20 | high |
| contradiction | signal or rationale against the sign of the change; calm words at a score over 80; one venue | high |
| unsupported | the rationale cites a number that the item does not hold | med |
| duplicate | the same item twice | low |
| stale | the item's date 4 or more days before `as_of` | med |
| missing_rationale | no rationale, or fewer than 4 words | low |
| cost_spike | mean cost at least 2 times the baseline; from 5 times | med; high |
| latency_spike | p95 at least 2 times the baseline; from 5 times | low; high |
| error_rate | at least 10 % of runs, and 2 times the baseline; from 5 times | med; high |

Traps are clean: costs and latencies up by less than 1.7 times, an error rate of 7 %, spikes over fewer than 20 runs,
items two days old, two different items that look alike, rounded numbers in a rationale, extreme but possible values.
"""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections.abc import Callable, Iterator
from typing import Any

Item = dict[str, Any]

SERIES = {
    "VIX": ("risk_off", "risk_on", (13, 38)),
    "DGS10": ("rates_up", "rates_down", (3.4, 4.9)),
    "DXY": ("dollar_up", "dollar_down", (96, 109)),
    "WTI": ("oil_up", "oil_down", (58, 94)),
}
HEADLINES = (
    ("Missile strike hits Aden port before dawn", "middle_east", "conflict", "Force used against a port"),
    ("Navy begins blockade of Odesa", "europe", "conflict", "A blockade cuts off grain exports"),
    ("Cyberattack shuts down hospitals in Quito", "americas", "cyber", "Attack on critical networks"),
    ("Generals announce coup in Niamey", "africa", "coup", "The elected government has lost control"),
    (
        "Partial mobilisation announced in Taipei",
        "asia_pacific",
        "conflict",
        "Reservists are being called up",
    ),
    ("EU adopts new sanctions on Minsk", "europe", "sanctions", "New coercion against a state"),
)
CALM = (
    "Routine patrol, nothing unusual about it",
    "The situation is calm and under control",
    "Routine statement without consequences",
    "A calm week, no threat in sight",
)
VENUES = ("alpha", "bravo", "cobalt", "delta")

ITEM_DEFECTS = {"schema": "high", "out_of_range": "high", "contradiction": "high", "unsupported": "med"}
ITEM_DEFECTS |= {"duplicate": "low", "stale": "med", "missing_rationale": "low"}
SPOKEN = {
    "up": ("fell back", "slid on the day", "dropped"),
    "down": ("rallied", "climbed", "rose on the day"),
}
RUN_DEFECTS = ("cost_spike", "latency_spike", "error_rate")
EACH, CLEAN, TWO, SPOKEN_WRONG = 12, 36, 16, 6


def cases(seed: int = 20261116) -> Iterator[dict[str, Any]]:
    """All cases, in order; the same seed gives the same cases."""
    draw = random.Random(f"outputs/{seed}")
    for defect in (*ITEM_DEFECTS, *RUN_DEFECTS):
        for number in range(EACH):
            yield _case(draw, f"review-{defect.replace('_', '-')}-{number + 1:03}", [defect])
    for number in range(CLEAN):
        yield _case(draw, f"review-clean-{number + 1:03}", [], trap=TRAPS[number % len(TRAPS)])
    for number in range(SPOKEN_WRONG):
        yield _case(draw, f"review-spoken-{number + 1:03}", ["spoken"])
    for number in range(TWO):
        pair = [draw.choice(list(ITEM_DEFECTS)), draw.choice(RUN_DEFECTS)]
        yield _case(draw, f"review-two-{number + 1:03}", pair)


def _case(draw: random.Random, case_id: str, defects: list[str], trap: str = "") -> dict[str, Any]:
    as_of = dt.date(2026, 1, 5) + dt.timedelta(days=draw.randrange(300))
    agent = draw.choice(_suited(defects, trap))
    items = _items(draw, agent, as_of, draw.randrange(1, 4))
    telemetry, baseline = _telemetry(draw)
    found: list[tuple[str, int | None, str, str | None]] = []
    for defect in defects:
        if defect in RUN_DEFECTS:
            found.append((defect, None, *_plant_run(draw, defect, telemetry, baseline)))
        else:
            place = draw.randrange(len(items))
            evidence = PLANT[defect](draw, agent, items, place)
            place = len(items) - 1 if defect == "duplicate" else place
            kind = "contradiction" if defect == "spoken" else defect
            found.append((kind, place, ITEM_DEFECTS[kind], evidence))
    if trap:
        _set_trap(draw, trap, agent, items, telemetry, baseline, as_of)
    planted = [[defect, place] for defect, place, *_ in found]
    expect: list[dict[str, Any]] = [
        {"grader": "set_f1", "path": "*.defect:item", "values": planted, "weight": 2}
    ]
    for defect, _, severity, evidence in found:
        path = f"[defect={defect}]"
        expect.append({"grader": "exact", "path": f"{path}.severity", "value": severity})
        if evidence:
            expect.append(
                {"grader": "contains", "path": f"{path}.evidence", "any": [evidence], "weight": 0.5}
            )
    payload = {
        "agent": agent,
        "as_of": as_of.isoformat(),
        "outputs": items,
        "telemetry": telemetry,
        "baseline": baseline,
    }
    tags = [*defects, *([trap] if trap else [])] or ["clean"]
    return {"id": case_id, "input": payload, "expect": expect, "tags": tags}


def _suited(defects: list[str], trap: str) -> tuple[str, ...]:
    """Not every agent's items can hold every defect."""
    if trap in ("extreme", "rounded") or "spoken" in defects:
        return ("macro_watcher",)
    return ("macro_watcher", "geopolitical_risk", "arbitrage_finder")


def _items(draw: random.Random, agent: str, as_of: dt.date, count: int) -> list[Item]:
    """Different, sound items of an agent."""
    make = {"macro_watcher": _macro, "geopolitical_risk": _headline, "arbitrage_finder": _spread}[agent]
    keys = draw.sample(range(len(HEADLINES) if agent == "geopolitical_risk" else 4), count)
    return [make(draw, key) | {"date": as_of.isoformat()} for key in keys]


def _macro(draw: random.Random, key: int) -> Item:
    name, (up, down, levels) = list(SERIES.items())[key]
    sign, z = draw.choice((-1, 1)), round(draw.uniform(3.1, 6.5), 2)
    change = round(draw.uniform(0.03, 0.3) * (1 if name == "VIX" else 0.25), 4)
    return {
        "series": name,
        "signal": up if sign > 0 else down,
        "value": round(draw.uniform(*levels), 2),
        "daily_change": sign * change,
        "z_score": sign * z,
        "regime": "stressed" if z > 4 else "normal",
        "rationale": f"{name} moved {sign * change * 100:.1f} % on the day, z = {sign * z:.2f}",
    }


def _headline(draw: random.Random, key: int) -> Item:
    text, region, category, why = HEADLINES[key]
    return {
        "headline_id": f"h{key + 1}",
        "region": region,
        "risk_score": draw.randrange(45, 96),
        "headline": text,
        "category": category,
        "rationale": why,
    }


def _spread(draw: random.Random, key: int) -> Item:
    buy, sell = draw.sample(VENUES, 2)
    profit = round(draw.uniform(0.12, 1.6), 2)
    size = round(draw.uniform(0.5, 20), 2)
    return {
        "symbol": ("BTC", "ETH", "SOL", "LTC")[key],
        "buy_venue": buy,
        "sell_venue": sell,
        "profit_pct": profit,
        "size": size,
        "notional_usd": round(size * (64_000, 3_100, 148, 82)[key], 2),
        "quote_age_s": round(draw.uniform(0.3, 8), 1),
        "rationale": f"Buy at {buy}, sell at {sell}: {profit} % net of both fees",
    }


def _telemetry(draw: random.Random) -> tuple[Item, Item]:
    baseline = {
        "count": draw.randrange(150, 400),
        "error_rate": round(draw.uniform(0.0, 0.03), 3),
        "p95_latency_ms": draw.randrange(600, 2400),
        "avg_cost_usd": round(draw.uniform(0.0004, 0.004), 5),
        "avg_reward": round(draw.uniform(0.1, 0.4), 3),
    }
    now = {
        "count": draw.randrange(40, 200),
        "error_rate": round(draw.uniform(0.0, 0.04), 3),
        "p95_latency_ms": round(baseline["p95_latency_ms"] * draw.uniform(0.75, 1.3)),
        "avg_cost_usd": round(baseline["avg_cost_usd"] * draw.uniform(0.8, 1.25), 5),
        "avg_reward": round(draw.uniform(0.1, 0.4), 3),
    }
    return now, baseline


def _plant_run(draw: random.Random, defect: str, now: Item, baseline: Item) -> tuple[str, str]:
    strong = draw.random() < 0.5
    ratio = draw.uniform(5.4, 9) if strong else draw.uniform(2.15, 4.6)
    if defect == "error_rate":
        baseline["error_rate"] = round(draw.uniform(0.03, 0.05), 3)
        ratio = ratio if strong else max(ratio, 0.105 / baseline["error_rate"])
    fields = {"cost_spike": "avg_cost_usd", "latency_spike": "p95_latency_ms"}
    field = fields.get(defect, defect)
    now[field] = round(baseline[field] * ratio, {"avg_cost_usd": 5, "error_rate": 3}.get(field))
    mild = "low" if defect == "latency_spike" else "med"
    return ("high" if strong else mild), str(now[field])


def _schema(draw: random.Random, agent: str, items: list[Item], place: int) -> None:
    item = items[place]
    required = {
        "macro_watcher": ("signal", "value"),
        "geopolitical_risk": ("region", "risk_score"),
        "arbitrage_finder": ("buy_venue", "profit_pct"),
    }[agent]
    if draw.random() < 0.5:
        del item[required[0]]
    else:
        item[required[1]] = draw.choice(("high", "n/a", "unknown"))
        if agent == "arbitrage_finder":  # no number is left for the rationale to cite
            item["rationale"] = f"Buy at {item['buy_venue']}, sell at {item['sell_venue']}, net of both fees"


def _out_of_range(draw: random.Random, agent: str, items: list[Item], place: int) -> str:
    field, low, high = {
        "macro_watcher": ("z_score", 26, 90),
        "geopolitical_risk": ("risk_score", 104, 400),
        "arbitrage_finder": ("profit_pct", 21, 80),
    }[agent]
    item, value = items[place], float(draw.randrange(low, high))
    if field == "z_score" and item["z_score"] < 0:
        value = -value
    item[field] = value
    item["rationale"] = "The strongest reading of the day by far"
    if field == "z_score":
        item["regime"] = "stressed"
    return str(value)


def _contradiction(draw: random.Random, agent: str, items: list[Item], place: int) -> None:
    item = items[place]
    if agent == "macro_watcher":
        up, down, _ = SERIES[item["series"]]
        item["signal"] = down if item["daily_change"] > 0 else up
    elif agent == "geopolitical_risk":
        item["risk_score"] = draw.randrange(82, 99)
        item["rationale"] = draw.choice(CALM)
    else:
        item["sell_venue"] = item["buy_venue"]
        item["rationale"] = f"Net of both fees this earns {item['profit_pct']} %"


def _spoken(draw: random.Random, agent: str, items: list[Item], place: int) -> None:
    """The rationale tells the opposite of the change beside it."""
    item = items[place]
    words = draw.choice(SPOKEN["up" if item["daily_change"] > 0 else "down"])
    item["rationale"] = f"{item['series']} {words}, more than is usual for it"


def _unsupported(draw: random.Random, agent: str, items: list[Item], place: int) -> str:
    made_up = str(draw.randrange(210, 990))
    items[place]["rationale"] += draw.choice(
        (
            f", and {made_up} analysts agree",
            f"; last seen {made_up} days ago",
            f", with {made_up} confirmations",
        )
    )
    return made_up


def _duplicate(draw: random.Random, agent: str, items: list[Item], place: int) -> None:
    items.append(copy.deepcopy(items[place]))


def _stale(draw: random.Random, agent: str, items: list[Item], place: int) -> str:
    day = dt.date.fromisoformat(items[place]["date"]) - dt.timedelta(days=draw.randrange(4, 30))
    items[place]["date"] = day.isoformat()
    return day.isoformat()


def _missing_rationale(draw: random.Random, agent: str, items: list[Item], place: int) -> None:
    items[place]["rationale"] = draw.choice(("", "n/a", "See above", "Obvious move"))


PLANT: dict[str, Callable[[random.Random, str, list[Item], int], str | None]] = {
    "schema": _schema,
    "out_of_range": _out_of_range,
    "contradiction": _contradiction,
    "spoken": _spoken,
    "unsupported": _unsupported,
    "duplicate": _duplicate,
    "stale": _stale,
    "missing_rationale": _missing_rationale,
}

TRAPS = (
    *("", "busier", "few-runs", "two-days", "alike", "rounded", "extreme", "errors-usual"),
    "short-but-whole",
)


def _set_trap(
    draw: random.Random, trap: str, agent: str, items: list[Item], now: Item, baseline: Item, as_of: dt.date
) -> None:
    """Something that looks like a defect and is none."""
    item = items[0]
    if trap == "busier":
        now["p95_latency_ms"] = round(baseline["p95_latency_ms"] * draw.uniform(1.4, 1.7))
        now["avg_cost_usd"] = round(baseline["avg_cost_usd"] * draw.uniform(1.4, 1.7), 5)
    elif trap == "few-runs":
        now["count"] = draw.randrange(3, 16)
        now["avg_cost_usd"] = round(baseline["avg_cost_usd"] * draw.uniform(2.2, 5), 5)
        now["error_rate"] = round(1 / now["count"], 3) if draw.random() < 0.5 else now["error_rate"]
    elif trap == "two-days":
        item["date"] = (as_of - dt.timedelta(days=draw.randrange(2, 4))).isoformat()
    elif trap == "alike":
        twin = copy.deepcopy(item)
        if agent == "arbitrage_finder":
            old = twin["sell_venue"]
            twin["sell_venue"] = next(v for v in VENUES if v not in (twin["buy_venue"], old))
            twin["rationale"] = twin["rationale"].replace(f"sell at {old}", f"sell at {twin['sell_venue']}")
        elif agent == "geopolitical_risk":
            twin["headline_id"] = "h9"
            twin["headline"] = twin["headline"] + ", a second report adds detail"
        else:
            spare = next(name for name in SERIES if name not in {other["series"] for other in items})
            up, down, _ = SERIES[spare]
            twin["series"], twin["signal"] = spare, up if twin["daily_change"] > 0 else down
            twin["rationale"] = twin["rationale"].replace(item["series"], spare)
        items.append(twin)
    elif trap == "rounded":
        item["rationale"] = f"{item['series']} moved about {abs(item['daily_change']) * 100:.0f} % in a day"
    elif trap == "extreme":
        sign = 1 if item["z_score"] > 0 else -1
        item["z_score"] = sign * round(draw.uniform(12, 22), 2)
        item["regime"] = "stressed"
        item["rationale"] = f"The largest move in years, z = {item['z_score']:.2f}"
    elif trap == "errors-usual":
        now["error_rate"] = round(draw.uniform(0.055, 0.085), 3)
        baseline["error_rate"] = round(draw.uniform(0.03, 0.05), 3)
    elif trap == "short-but-whole":
        item["rationale"] = "Both sources confirm it"
