"""What the offline model knows about markets: its judgement on macro features, on headlines, and on venue pairs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agents.offline.analysts import GENERIC
from agents.offline.rules import Analyst, Rules, found, pattern, standing, tables

Row = Mapping[str, Any]

KEYS: Final = tables(Path(__file__).with_suffix(".yaml"))
REGIONS: Final = [name.removeprefix("region_") for name in KEYS["headlines"] if name.startswith("region_")]
CATEGORIES: Final = [
    name.removeprefix("category_") for name in KEYS["headlines"] if name.startswith("category_")
]
DAMPERS: Final = ("sport", "anniversary", "hypothetical", "fiction")


def macro(rules: Rules, payload: Row) -> dict[str, Any]:
    """One item per series that gives a signal."""
    rows = [row for row in payload.get("series") or () if isinstance(row, dict)]
    items = []
    for row in rows:
        signal = _signal(rules, row)
        if signal is not None:
            regime, why = _regime(rules, row, rows), _moved(signal, row)
            items.append({"series": row["series"], "signal": signal, "regime": regime, "rationale": why})
    return {"items": items}


def _signal(rules: Rules, row: Row) -> str | None:
    name, value, change = row.get("series"), row.get("value"), row.get("daily_change")
    if not isinstance(name, str) or value is None or _stale(rules, row):
        return None
    if _broken(rules, row):
        return "data_error"
    if change is None or row.get("history_n", 0) < rules.number("min_history"):
        return None
    in_points = row.get("kind") == "rate" and rules.flag("rates_in_pp")
    move = abs(row["change_pp"] if in_points else change)
    least = rules.number_for("min_move_pp" if in_points else "min_move", name)
    z = row.get("z_gap_adjusted" if rules.flag("gap_scaling") else "z_score")
    unusual = z is not None and abs(z) >= rules.number_for("z_alert", name) and move >= least
    big = rules.number_for("big_move", name)
    if not unusual and not 0 < big <= move:
        return None
    up, down = rules.words("up_signals"), rules.words("down_signals")
    return (up if change > 0 else down).get(name)


def _stale(rules: Rules, row: Row) -> bool:
    return int(row.get("stale_days") or 0) > rules.number("max_stale_days")


def _broken(rules: Rules, row: Row) -> bool:
    """A value no market made: wrong unit, bad tick, impossible sign."""
    name, jump = str(row["series"]), row.get("jump_ratio")
    if name in rules.terms("positive_only") and row["value"] <= 0:
        return True
    limit = rules.number_for("data_error_ratio", name)
    return limit > 1 and jump is not None and (jump >= limit or jump <= 1 / limit)


def _regime(rules: Rules, row: Row, rows: list[dict[str, Any]]) -> str:
    vix = next((other for other in rows if other.get("series") == "VIX"), None)
    known = vix is not None and vix.get("value") is not None
    if vix and known and not _stale(rules, vix) and not _broken(rules, vix):
        return _between(vix["value"], rules.number("vix_calm_below"), rules.number("vix_stressed_from"))
    return _between(row.get("vol_ratio"), rules.number("vol_calm_below"), rules.number("vol_stressed_from"))


def _between(value: float | None, calm_below: float, stressed_from: float) -> str:
    if value is None:
        return "normal"
    return "calm" if value < calm_below else "stressed" if value >= stressed_from else "normal"


def _moved(signal: str, row: Row) -> str:
    """Only numbers that the output itself holds: a reader can check each of them."""
    if signal == "data_error":
        return f"{row['series']} reads {row['value']:g}: no market moves like that, the feed looks wrong"
    moved = f"{row['change_pp']:+.2f} points" if row.get("kind") == "rate" else f"{row['daily_change']:+.2%}"
    z = "" if row.get("z_score") is None else f", z-score {row['z_score']:.1f}"
    return f"{row['series']} moved {moved} to {row['value']:g}{z}"


def headlines(rules: Rules, payload: Row) -> dict[str, Any]:
    """One item per headline whose score reaches the threshold."""
    least = rules.number("report_threshold")
    items = []
    for line in payload.get("headlines") or ():
        if not isinstance(line, dict) or not isinstance(line.get("text"), str):
            continue
        text = _literally(rules.terms("metaphors"), line["text"].replace("’", "'"))
        score, terms = _score(rules, text)
        if terms and score > 0 and score >= least:
            about = {"headline_id": str(line.get("id")), "region": _region(rules, text), "risk_score": score}
            why = f"risk terms: {', '.join(terms)}"
            items.append(about | {"category": _category(rules, text), "rationale": why})
    return {"items": items}


@functools.lru_cache(maxsize=1 << 12)
def _literally(metaphors: tuple[str, ...], text: str) -> str:
    """The text with its figures of speech blotted out."""
    return pattern(metaphors).sub(lambda match: "." * len(match.group()), text)


def _score(rules: Rules, text: str) -> tuple[float, list[str]]:
    """The score in 0..100 and the terms that made it."""
    hits = sorted(_hits(rules, text), reverse=True)
    if not hits:
        return 0.0, []
    score = hits[0][0] + rules.number("spill") * sum(weight for weight, _ in hits[1:])
    up, down = (_sum(rules.weights(f"{way}escalation_terms"), text) for way in ("", "de"))
    score += up - abs(down)
    for kind in DAMPERS:
        if found(rules.terms(f"{kind}_cues"), text):
            score *= rules.number(f"{kind}_factor")
    return round(min(100.0, max(0.0, score)), 1), [term for _, term in hits]


def _hits(rules: Rules, text: str) -> list[tuple[float, str]]:
    """Each risk term once, with what is left of its weight after negation."""
    before, after = rules.terms("negation_cues"), rules.terms("negation_after")
    window, factor = int(rules.number("negation_window")), rules.number("negation_factor")
    weights, strongest = rules.weights("risk_terms"), dict[str, float]()
    for term in standing(tuple(weights), text):
        weight = weights[term]
        for match in pattern((term,)).finditer(text):
            lead = " ".join(text[: match.start()].split()[-window:]) if window > 0 else ""
            trail = " ".join(text[match.end() :].split()[:window]) if window > 0 else ""
            negated = bool(found(before, lead) or found(after, trail))
            left = weight * factor if negated else weight
            word = match.group().lower()
            strongest[word] = max(strongest.get(word, 0.0), left)
    return [(weight, word) for word, weight in strongest.items() if weight > 0]


def _sum(weights: Mapping[str, float], text: str) -> float:
    return sum(weights[term] for term in standing(tuple(weights), text))


def _region(rules: Rules, text: str) -> str:
    """The region that most terms of the text name, of several the one named first."""
    named: dict[str, tuple[int, ...]] = {}
    for region in REGIONS:
        if places := _places(rules.terms(f"region_{region}"), text):
            named[region] = places
    if len(named) >= rules.number("global_from"):
        return "global"
    if not named:
        default = rules.word("default_region")
        return default if default in (*REGIONS, "none") else "global"
    return max(named, key=lambda region: (len(named[region]), -named[region][0]))


@functools.lru_cache(maxsize=1 << 14)
def _places(terms: tuple[str, ...], text: str) -> tuple[int, ...]:
    """Where the terms stand in the text."""
    return tuple(match.start() for match in pattern(terms).finditer(text))


def _category(rules: Rules, text: str) -> str:
    counts = {kind: len(found(rules.terms(f"category_{kind}"), text)) for kind in CATEGORIES}
    best = max(counts, key=lambda kind: counts[kind])
    return best if counts[best] else "other"


def quotes(rules: Rules, payload: Row) -> dict[str, Any]:
    """The candidates worth trading."""
    rows = [row for row in payload.get("candidates") or () if isinstance(row, dict) and _tradable(rules, row)]
    if rules.flag("best_per_symbol"):
        best: dict[str, dict[str, Any]] = {}
        for row in sorted(rows, key=lambda row: -_earned(rules, row)):
            best.setdefault(str(row["symbol"]), row)
        rows = list(best.values())
    return {"items": [{"candidate_id": row["id"], "rationale": _traded(row)} for row in rows]}


def _tradable(rules: Rules, row: Row) -> bool:
    return (
        _earned(rules, row) > rules.number("min_profit_pct")
        and (row.get("profit_usd") or 0.0) >= rules.number("min_profit_usd")
        and (row.get("notional_usd") or 0.0) >= rules.number("min_notional_usd")
        and row["profit_pct"] <= rules.number("max_plausible_profit_pct")
        and row["quote_age_s"] <= rules.number("max_quote_age_s")
        and row["age_gap_s"] <= rules.number("max_age_gap_s")
        and -row["youngest_age_s"] <= rules.number("max_future_s")
        and _convertible(rules, row)
        and not (row["crossed"] and rules.flag("reject_crossed"))
        and not {row["buy_venue"], row["sell_venue"]} & set(rules.terms("blocked_venues"))
    )


def _earned(rules: Rules, row: Row) -> float:
    """Profit in percent on the chosen basis, less what conversion costs."""
    profit = float(row["profit_pct"] if rules.word("profit_basis") == "net" else row["gross_pct"])
    haircut = {"fx": "fx_haircut_bps", "parity": "stablecoin_haircut_bps"}.get(row["conversion"])
    return profit - (rules.number(haircut) / 100 if haircut else 0.0)


def _convertible(rules: Rules, row: Row) -> bool:
    if row["conversion"] == "fx":
        return rules.flag("allow_fx")
    return row["conversion"] != "parity" or rules.word("stablecoin_parity") == "assume"


def _traded(row: Row) -> str:
    return (
        f"buy at {row['buy_venue']}, sell at {row['sell_venue']}: {row['profit_pct']:.3f} % after fees, "
        f"size {row['size']:g}, oldest quote {row['quote_age_s']:g} s"
    )


_THRESHOLD: Final = GENERIC["threshold"]
ANALYSTS: Final = {
    "macro": Analyst(macro, KEYS["macro"], ("macro_watcher",), "series", ("series", "series", "series")),
    "headlines": Analyst(
        headlines, KEYS["headlines"], ("geopolitical_risk",), "headlines", ("headlines", "id", "headline_id")
    ),
    "arbitrage": Analyst(
        quotes, KEYS["arbitrage"], ("arbitrage_finder",), "candidates", ("candidates", "id", "candidate_id")
    ),
    "threshold": replace(_THRESHOLD, keys={**_THRESHOLD.keys, **KEYS["threshold"]}),
}
