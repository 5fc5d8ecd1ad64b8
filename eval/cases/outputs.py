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
from collections.abc import Iterator

from eval.cases import Row, case, content, family_of, generator, one_sided, wanted

GIVEN = content(__file__)
SERIES: dict[str, tuple[str, str, tuple[float, float]]] = GIVEN["series"]
ITEM_DEFECTS: dict[str, str] = GIVEN["item_defects"]
RUN_DEFECTS: dict[str, str] = GIVEN["run_defects"]
DIGITS = {"avg_cost_usd": 5, "error_rate": 3}


def cases() -> Iterator[Row]:
    """All cases, in order."""
    draw, counts = generator("outputs"), GIVEN["counts"]
    for defect in (*ITEM_DEFECTS, *RUN_DEFECTS):
        for number in range(counts["each"]):
            yield _case(draw, f"review-{defect.replace('_', '-')}-{number + 1:03}", [defect])
    for number in range(counts["clean"]):
        trap = GIVEN["traps"][number % len(GIVEN["traps"])]
        yield _case(draw, f"review-clean-{number + 1:03}", [], trap)
    for number in range(counts["spoken"]):
        yield _case(draw, f"review-spoken-{number + 1:03}", ["spoken"])
    for number in range(counts["two"]):
        pair = [draw.choice(list(ITEM_DEFECTS)), draw.choice(list(RUN_DEFECTS))]
        yield _case(draw, f"review-two-{number + 1:03}", pair)


def _case(draw: random.Random, case_id: str, defects: list[str], trap: str = "") -> Row:
    made = None
    while made is None:
        made = _drawn(draw, case_id, defects, trap)
    return made


def _drawn(draw: random.Random, case_id: str, defects: list[str], trap: str) -> Row | None:
    """A case, or None if its defects are from both sides of the split."""
    as_of = dt.date(2026, 1, 5) + dt.timedelta(days=draw.randrange(300))
    of_series = trap in ("extreme", "rounded") or "spoken" in defects  # other items could not hold it
    agent = draw.choice(["macro_watcher"] if of_series else list(GIVEN["agents"]))
    items = _items(draw, agent, as_of, draw.randrange(1, 4))
    telemetry, baseline = _telemetry(draw)
    planted, labels, families = [], [], []
    for defect in defects:
        place: int | None = None
        evidence: str | None
        if defect in RUN_DEFECTS:
            severity, evidence = _plant_run(draw, defect, telemetry, baseline)
            families.append(family_of(defect, severity, agent, "review"))
        else:
            place = draw.randrange(len(items))
            evidence, words = _plant(draw, defect, agent, items[place])
            families.append(family_of(defect, agent, words, "review"))
            if defect == "duplicate":
                place, items = len(items), [*items, copy.deepcopy(items[place])]
            defect = "contradiction" if defect == "spoken" else defect
            severity = ITEM_DEFECTS[defect]
        planted.append([defect, place])
        labels.append(wanted("exact", f"[defect={defect}].severity", value=severity))
        if evidence:
            labels.append(wanted("contains", f"[defect={defect}].evidence", any=[evidence], weight=0.5))
    _set_trap(draw, trap, agent, items, telemetry, baseline)
    families = families or [family_of("clean", trap, agent, "review")]
    if not one_sided(families):
        return None
    expect = [wanted("set_f1", "*.defect:item", values=planted, weight=2), *labels]
    payload = {"agent": agent, "as_of": as_of.isoformat(), "outputs": items}
    payload |= {"telemetry": telemetry, "baseline": baseline}
    return case(case_id, families[0], payload, expect, [*defects, *([trap] if trap else [])] or ["clean"])


def _items(draw: random.Random, agent: str, as_of: dt.date, count: int) -> list[Row]:
    """Different, sound items of an agent."""
    make = {"macro_watcher": _macro, "geopolitical_risk": _headline, "arbitrage_finder": _spread}[agent]
    keys = draw.sample(range(len(GIVEN["headlines"]) if agent == "geopolitical_risk" else 4), count)
    return [make(draw, key) | {"date": as_of.isoformat()} for key in keys]


def _macro(draw: random.Random, key: int) -> Row:
    name = list(SERIES)[key]
    sign, z = draw.choice((-1, 1)), round(draw.uniform(3.1, 6.5), 2)
    change = round(draw.uniform(0.03, 0.3) * (1 if name == "VIX" else 0.25), 4)
    return {
        "series": name,
        "signal": _signal(name, sign),
        "value": round(draw.uniform(*SERIES[name][2]), 2),
        "daily_change": sign * change,
        "z_score": sign * z,
        "regime": "stressed" if z > 4 else "normal",
        "rationale": f"{name} moved {sign * change * 100:.1f} % on the day, z = {sign * z:.2f}",
    }


def _signal(series: str, change: float) -> str:
    up, down, _ = SERIES[series]
    return up if change > 0 else down


def _headline(draw: random.Random, key: int) -> Row:
    text, region, category, why = GIVEN["headlines"][key]
    item = {"headline_id": f"h{key + 1}", "region": region, "risk_score": draw.randrange(45, 96)}
    return item | {"headline": text, "category": category, "rationale": why}


def _spread(draw: random.Random, key: int) -> Row:
    asset = list(GIVEN["assets"])[key]
    buy, sell = draw.sample(GIVEN["venues"], 2)
    profit, size = round(draw.uniform(0.12, 1.6), 2), round(draw.uniform(0.5, 20), 2)
    return {
        "symbol": asset,
        "buy_venue": buy,
        "sell_venue": sell,
        "profit_pct": profit,
        "size": size,
        "notional_usd": round(size * GIVEN["assets"][asset], 2),
        "quote_age_s": round(draw.uniform(0.3, 8), 1),
        "rationale": f"Buy at {buy}, sell at {sell}: {profit} % net of both fees",
    }


def _telemetry(draw: random.Random) -> tuple[Row, Row]:
    """Sound figures of the runs, and of those before them."""
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
        "p95_latency_ms": _times(baseline, "p95_latency_ms", draw.uniform(0.75, 1.3)),
        "avg_cost_usd": _times(baseline, "avg_cost_usd", draw.uniform(0.8, 1.25)),
        "avg_reward": round(draw.uniform(0.1, 0.4), 3),
    }
    return now, baseline


def _times(baseline: Row, field: str, ratio: float) -> float:
    return round(float(baseline[field]) * ratio, DIGITS.get(field))


def _plant_run(draw: random.Random, defect: str, now: Row, baseline: Row) -> tuple[str, str]:
    """Plant a defect in the figures; its severity and what shows it."""
    strong, field = draw.random() < 0.5, RUN_DEFECTS[defect]
    ratio = draw.uniform(5.4, 9) if strong else draw.uniform(2.15, 4.6)
    if defect == "error_rate":
        baseline["error_rate"] = round(draw.uniform(0.03, 0.05), 3)
        ratio = ratio if strong else max(ratio, 0.105 / baseline["error_rate"])
    now[field] = _times(baseline, field, ratio)
    mild = "low" if defect == "latency_spike" else "med"
    return ("high" if strong else mild), str(now[field])


def _plant(draw: random.Random, defect: str, agent: str, item: Row) -> tuple[str | None, str]:
    """Plant a defect in an item (a duplicate is planted beside it); what shows it, if one thing does, and its words."""
    about = GIVEN["agents"][agent]
    evidence, words = None, ""
    if defect == "schema":
        if draw.random() < 0.5:
            del item[about["left_out"]]
        else:
            item[about["text"]] = words = draw.choice(GIVEN["no_number"])
            if agent == "arbitrage_finder":  # no number is left for the rationale to cite
                venues = f"Buy at {item['buy_venue']}, sell at {item['sell_venue']}"
                item["rationale"] = f"{venues}, net of both fees"
    elif defect == "out_of_range":
        field, low, high = about["extreme"]
        value = float(draw.randrange(low, high))
        if field == "z_score":
            value = -value if item["z_score"] < 0 else value
            item["regime"] = "stressed"
        item[field], evidence = value, str(value)
        item["rationale"] = "The strongest reading of the day by far"
    elif defect == "contradiction" and agent == "macro_watcher":
        item["signal"] = _signal(item["series"], -item["daily_change"])
    elif defect == "contradiction" and agent == "geopolitical_risk":
        item["risk_score"] = draw.randrange(82, 99)
        item["rationale"] = words = draw.choice(GIVEN["calm"])
    elif defect == "contradiction":
        item["sell_venue"] = item["buy_venue"]
        item["rationale"] = f"Net of both fees this earns {item['profit_pct']} %"
    elif defect == "spoken":  # the rationale tells the opposite of the change beside it
        words = draw.choice(GIVEN["spoken"]["up" if item["daily_change"] > 0 else "down"])
        item["rationale"] = f"{item['series']} {words}, more than is usual for it"
    elif defect == "unsupported":
        evidence = str(draw.randrange(210, 990))
        words = draw.choice(GIVEN["made_up"])
        item["rationale"] += words.format(evidence)
    elif defect == "stale":
        day = dt.date.fromisoformat(item["date"]) - dt.timedelta(days=draw.randrange(4, 30))
        item["date"] = evidence = day.isoformat()
    elif defect == "missing_rationale":
        item["rationale"] = words = draw.choice(GIVEN["no_rationale"])
    return evidence, words


def _set_trap(draw: random.Random, trap: str, agent: str, items: list[Row], now: Row, baseline: Row) -> None:
    """Something that looks like a defect and is none."""
    item = items[0]
    if trap == "busier":
        for field in ("p95_latency_ms", "avg_cost_usd"):
            now[field] = _times(baseline, field, draw.uniform(1.4, 1.7))
    elif trap == "few-runs":
        now["count"] = draw.randrange(3, 16)
        now["avg_cost_usd"] = _times(baseline, "avg_cost_usd", draw.uniform(2.2, 5))
        now["error_rate"] = round(1 / now["count"], 3) if draw.random() < 0.5 else now["error_rate"]
    elif trap == "two-days":
        day = dt.date.fromisoformat(item["date"]) - dt.timedelta(days=draw.randrange(2, 4))
        item["date"] = day.isoformat()
    elif trap == "alike":
        items.append(_twin(agent, items))
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


def _twin(agent: str, items: list[Row]) -> Row:
    """Another item that looks much like the first."""
    twin = copy.deepcopy(items[0])
    if agent == "arbitrage_finder":
        buy, old = twin["buy_venue"], twin["sell_venue"]
        twin["sell_venue"] = new = next(venue for venue in GIVEN["venues"] if venue not in (buy, old))
        twin["rationale"] = twin["rationale"].replace(f"sell at {old}", f"sell at {new}")
    elif agent == "geopolitical_risk":
        twin["headline_id"] = "h9"
        twin["headline"] += ", a second report adds detail"
    else:
        spare = next(name for name in SERIES if name not in {item["series"] for item in items})
        twin["rationale"] = twin["rationale"].replace(twin["series"], spare)
        twin["series"], twin["signal"] = spare, _signal(spare, twin["daily_change"])
    return twin
