"""The offline judgement on an agent's outputs and telemetry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agents.offline.rules import Rules, found

NEVER = 1e9
LONGEST_QUOTE = 200  # characters of an item quoted as evidence
Row = Mapping[str, Any]
Finding = tuple[str, str, str]  # defect, title, evidence

IMPACT = {
    "schema": "readers of this output cannot rely on its fields",
    "out_of_range": "an impossible value distorts reward and every alert built on it",
    "contradiction": "the reader is told two opposite things and may act on the wrong one",
    "unsupported": "the claim cannot be checked against what the agent was given",
    "duplicate": "one event is counted twice",
    "stale": "the output describes a day that is gone",
    "missing_rationale": "nobody can tell why the agent said this",
    "cost_spike": "the same work costs more than it did",
    "latency_spike": "the answer comes later than it did",
    "error_rate": "runs are lost",
}


def review(rules: Rules, payload: Row) -> dict[str, Any]:
    """One finding per defect and item, then those on the agent as a whole."""
    entries = [entry for entry in payload.get("items") or () if isinstance(entry, dict)]
    findings = []
    for position, entry in enumerate(entries):
        seen: set[str] = set()
        for finding in _item_findings(rules, payload, entry, entries[:position]):
            if finding[0] not in seen:
                seen.add(finding[0])
                findings.append(_finding(rules, finding, entry.get("index")))
    findings += [_finding(rules, found_, None, ratio) for found_, ratio in _agent_findings(rules, payload)]
    return {"items": findings}


def _finding(rules: Rules, finding: Finding, index: int | None, ratio: float = 0.0) -> dict[str, Any]:
    defect, title, evidence = finding
    severity = rules.words("severity_by_defect").get(defect, "med")
    if ratio >= rules.number("high_ratio"):
        severity = "high"
    return {
        "defect": defect,
        "item": index,
        "title": title[:200],
        "evidence": evidence[:1000],
        "impact": IMPACT[defect],
        "severity": severity if severity in ("low", "med", "high") else "med",
    }


def _item_findings(
    rules: Rules, payload: Row, entry: Row, earlier: list[dict[str, Any]]
) -> Iterator[Finding]:
    item = entry.get("item")
    if not isinstance(item, dict):
        yield "schema", "the item is not an object", json.dumps(item, ensure_ascii=False)[:LONGEST_QUOTE]
        return
    yield from _schema(rules, str(payload.get("agent")), item)
    yield from _range(rules, item)
    yield from _contradiction(rules, item)
    yield from _unsupported(rules, entry, item)
    yield from _duplicate(rules, item, [other.get("item") for other in earlier])
    yield from _stale(rules, entry, item)
    yield from _rationale(rules, entry, item)


def _schema(rules: Rules, agent: str, item: Row) -> Iterator[Finding]:
    for field in rules.terms(f"required_{agent}", rules.terms("required")):
        if field not in item:
            yield "schema", f"{field} is missing", _quote(item)
    for field, value in item.items():
        allowed = rules.terms(f"allowed_{field}", ())
        if allowed and str(value) not in allowed:
            yield "schema", f"{field} is not one of {', '.join(allowed)}", _quote(item, field)
    for field in rules.terms("number_fields"):
        if field in item and item[field] is not None and _number(item[field]) is None:
            yield "schema", f"{field} is not a number", _quote(item, field)


def _range(rules: Rules, item: Row) -> Iterator[Finding]:
    low, high, size = (rules.weights(f"{kind}_by_field") for kind in ("min", "max", "max_abs"))
    for field, value in item.items():
        number = _number(value)
        if number is None:
            continue
        if number < low.get(field, -NEVER * NEVER) or number > high.get(field, NEVER * NEVER):
            yield "out_of_range", f"{field} is outside its range", _quote(item, field)
        elif abs(number) > size.get(field, NEVER * NEVER):
            yield "out_of_range", f"{field} is too large to be true", _quote(item, field)


def _contradiction(rules: Rules, item: Row) -> Iterator[Finding]:
    change = _number(item.get("daily_change"))
    field = "daily_change" if change is not None else "change_pp"
    change = _number(item.get(field))
    signal = item.get("signal")
    against = ("up_signals" if change < 0 else "down_signals") if change else ""
    if against and signal in rules.terms(against):
        yield "contradiction", f"signal {signal} against the sign of {field}", _quote(item, "signal")
    score, rationale = _number(item.get("risk_score")), item.get("rationale")
    if score is not None and isinstance(rationale, str):
        if score >= rules.number("high_score") and found(rules.terms("calm_words"), rationale):
            yield "contradiction", "a high risk_score with a calm rationale", _quote(item, "rationale")
        if score <= rules.number("low_score") and found(rules.terms("alarm_words"), rationale):
            yield "contradiction", "a low risk_score with an alarming rationale", _quote(item, "rationale")
    for pair in rules.terms("different_fields"):
        one, _, other = pair.partition("+")
        if one in item and other in item and item[one] == item[other]:
            yield "contradiction", f"{one} and {other} are the same", _quote(item, other)


def _unsupported(rules: Rules, entry: Row, item: Row) -> Iterator[Finding]:
    rationale = item.get("rationale")
    if not isinstance(rationale, str):
        return
    strange, limit = entry.get("numbers_not_in_item") or (), rules.number("unsupported_numbers_from")
    if 0 < limit <= len(strange):
        title = f"the rationale cites {', '.join(strange)}, which the item does not hold"
        yield "unsupported", title, _quote(item, "rationale")
    if phrases := found(rules.terms("unsupported_phrases"), rationale):
        yield "unsupported", f"the rationale rests on {phrases[0]!r}", _quote(item, "rationale")


def _duplicate(rules: Rules, item: Row, earlier: list[Any]) -> Iterator[Finding]:
    for key in rules.terms("duplicate_keys"):
        fields = key.split("+")
        if all(field in item for field in fields):
            own = {field: item[field] for field in fields}
            if any(isinstance(other, dict) and own.items() <= other.items() for other in earlier):
                yield "duplicate", f"same {key} as an earlier item", _quote(item, fields[0])


def _stale(rules: Rules, entry: Row, item: Row) -> Iterator[Finding]:
    age = _number(entry.get("age_days"))
    if age is not None and age > rules.number("max_age_days"):
        field = next((name for name in ("as_of", "date", "ts", "published") if name in item), None)
        yield "stale", f"the item is {age:g} days old", _quote(item, field)
    quote_age = _number(item.get("quote_age_s"))
    if quote_age is not None and quote_age > rules.number("max_quote_age_s"):
        yield "stale", "the quotes are too old to trade on", _quote(item, "quote_age_s")


def _rationale(rules: Rules, entry: Row, item: Row) -> Iterator[Finding]:
    text = item.get("rationale")
    words = entry.get("rationale_words") or 0
    empty = isinstance(text, str) and text.strip().strip(".").lower() in rules.terms("empty_rationales")
    if words < rules.number("min_rationale_words") or empty:
        yield "missing_rationale", "the rationale says nothing", _quote(item, "rationale")


def _agent_findings(rules: Rules, payload: Row) -> Iterator[tuple[Finding, float]]:
    """Findings on telemetry, each with its ratio to the baseline."""
    telemetry, baseline, ratios = (payload.get(key) or {} for key in ("telemetry", "baseline", "ratios"))
    if (telemetry.get("count") or 0) < rules.number("min_runs"):
        return
    for defect, field in (("cost", "avg_cost_usd"), ("latency", "p95_latency_ms")):
        ratio = _number(ratios.get(defect)) or 0.0
        if ratio >= rules.number(f"{defect}_spike_ratio"):
            title = f"{field} is {ratio:.1f} times the baseline"
            yield (f"{defect}_spike", title, _quote(telemetry, field)), ratio
    rate, before = _number(telemetry.get("error_rate")), _number(baseline.get("error_rate"))
    if rate is not None:
        rise = rate - before if before is not None else 0.0
        if rate >= rules.number("max_error_rate") or rise >= rules.number("error_rate_rise"):
            ratio = rate / before if before else 0.0
            yield ("error_rate", f"{rate:.0%} of the runs failed", _quote(telemetry, "error_rate")), ratio


def _quote(item: Row, field: str | None = None) -> str:
    """The field as it stands in the input's JSON, or the start of the item."""
    if field is None or field not in item:
        return json.dumps(item, ensure_ascii=False)[:LONGEST_QUOTE]
    return f'"{field}": {json.dumps(item[field], ensure_ascii=False)}'


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
