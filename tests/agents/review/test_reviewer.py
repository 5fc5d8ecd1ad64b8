"""Reviewer: every kind of planted defect is found, quoted, and clean outputs are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from agents.base import AnswerError, InputError
from agents.review.reviewer import payload, quoted
from tests.worlds.agent_kit import Says, built, rows, rules

MACRO = {
    "series": "VIX", "signal": "risk_off", "value": 31.2, "daily_change": 0.18, "z_score": 3.4, "regime": "stressed",
    "rationale": "VIX moved +18.00% to 31.2, z-score 3.4",
}  # fmt: skip
HEADLINE = {
    "headline_id": "h1", "region": "europe", "risk_score": 72, "headline": "Shelling near the border",
    "category": "conflict",    "rationale": "shelling of border towns",
}  # fmt: skip
SPREAD = {
    "symbol": "BTC", "buy_venue": "alpha", "sell_venue": "bravo", "profit_pct": 0.4, "size": 1.5,
    "notional_usd": 90000.0, "quote_age_s": 3.0, "rationale": "buy at alpha, sell at bravo",
}  # fmt: skip
RUNS = {"count": 100, "error_rate": 0.01, "p95_latency_ms": 900.0, "avg_cost_usd": 0.002, "avg_reward": 0.3}
OF = {"macro_watcher": MACRO, "geopolitical_risk": HEADLINE, "arbitrage_finder": SPREAD}


def inputs(agent: str, *outputs: Any, telemetry: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "agent": agent,
        "as_of": "2026-03-02",
        "outputs": list(outputs),
        "telemetry": RUNS | (telemetry or {}),
        "baseline": RUNS,
    }


def without(item: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key}


@pytest.mark.parametrize("agent", OF)
def test_a_clean_output_has_no_finding(agent: str) -> None:
    assert built("reviewer").run(inputs(agent, OF[agent])) == []


@pytest.mark.parametrize(
    ("agent", "item", "defect"),
    [
        ("macro_watcher", without(MACRO, "signal"), "schema"),
        ("macro_watcher", MACRO | {"signal": "panic"}, "schema"),
        ("macro_watcher", MACRO | {"value": "31.2"}, "schema"),
        ("macro_watcher", "VIX is up", "schema"),
        ("macro_watcher", MACRO | {"z_score": 340.0, "rationale": "VIX moved a lot"}, "out_of_range"),
        ("geopolitical_risk", HEADLINE | {"risk_score": 140}, "out_of_range"),
        ("arbitrage_finder", SPREAD | {"profit_pct": -0.2}, "out_of_range"),
        ("macro_watcher", MACRO | {"daily_change": -0.18}, "contradiction"),
        ("geopolitical_risk", HEADLINE | {"rationale": "a calm and routine day"}, "contradiction"),
        ("arbitrage_finder", SPREAD | {"sell_venue": "alpha"}, "contradiction"),
        ("macro_watcher", MACRO | {"rationale": "VIX rose while oil fell 7.7 %"}, "unsupported"),
        ("geopolitical_risk", HEADLINE | {"rationale": "reportedly very bad indeed"}, "unsupported"),
        ("macro_watcher", MACRO | {"date": "2026-02-20"}, "stale"),
        ("arbitrage_finder", SPREAD | {"quote_age_s": 600.0}, "stale"),
        ("macro_watcher", MACRO | {"rationale": ""}, "missing_rationale"),
        ("macro_watcher", MACRO | {"rationale": "see above"}, "missing_rationale"),
    ],
)
def test_a_planted_defect_is_found_and_quoted(agent: str, item: Any, defect: str) -> None:
    given = inputs(agent, item)
    findings = built("reviewer").run(given)
    assert defect in {finding["defect"] for finding in findings}
    assert all(finding["item"] == 0 and quoted(finding["evidence"], given) for finding in findings)


def test_the_later_of_two_alike_is_the_duplicate() -> None:
    (finding,) = built("reviewer").run(inputs("geopolitical_risk", HEADLINE, HEADLINE | {"risk_score": 70}))
    assert (finding["defect"], finding["item"]) == ("duplicate", 1)


@pytest.mark.parametrize(
    ("telemetry", "defect", "severity"),
    [
        ({"avg_cost_usd": 0.0055}, "cost_spike", "med"),
        ({"avg_cost_usd": 0.02}, "cost_spike", "high"),
        ({"p95_latency_ms": 3000.0}, "latency_spike", "low"),
        ({"error_rate": 0.25}, "error_rate", "high"),
        ({"error_rate": 0.12}, "error_rate", "high"),
    ],
)
def test_telemetry_against_the_baseline(telemetry: dict[str, Any], defect: str, severity: str) -> None:
    given = inputs("macro_watcher", MACRO, telemetry=telemetry)
    (finding,) = built("reviewer").run(given)
    assert (finding["defect"], finding["item"], finding["severity"]) == (defect, None, severity)
    assert quoted(finding["evidence"], given)


def test_a_handful_of_runs_proves_no_spike() -> None:
    assert (
        built("reviewer").run(inputs("macro_watcher", MACRO, telemetry={"count": 3, "avg_cost_usd": 1.0}))
        == []
    )


def test_without_telemetry_there_is_nothing_to_compare() -> None:
    given = inputs("macro_watcher", MACRO) | {"telemetry": None, "baseline": None}
    assert built("reviewer").run(given) == []


@pytest.mark.parametrize(
    ("rationale", "strange"),
    [
        ("moved +18.00% to 31.2", []),
        ("moved 18 % to about 31", []),
        ("z of 3.39, the 10-year, Q3, 2x, on 2026-03-02", []),
        ("moved 19.9 %", ["19.9"]),
        ("from 26.4 to 31.2", ["26.4"]),
    ],
)
def test_numbers_that_the_item_does_not_hold(rationale: str, strange: list[str]) -> None:
    rows_ = payload(inputs("macro_watcher", MACRO | {"rationale": rationale}))["items"]
    assert rows_[0]["numbers_not_in_item"] == strange


def test_evidence_that_is_not_in_the_input_is_ranked_last_and_counted() -> None:
    known = {"title": "t", "impact": "i", "item": 0}
    made_up = known | {"defect": "schema", "evidence": "the moon is full", "severity": "high"}
    real = known | {"defect": "stale", "evidence": '"series":   "VIX"', "severity": "low"}
    findings = built("reviewer", model=Says({"items": [made_up, real]})).run(inputs("macro_watcher", MACRO))
    assert [finding["defect"] for finding in findings] == ["stale", "schema"]
    assert rows()[-1]["unquoted_evidence"] == 1


def test_an_item_that_is_not_there_is_refused() -> None:
    finding = {
        "defect": "stale",
        "item": 7,
        "title": "t",
        "evidence": "VIX",
        "impact": "i",
        "severity": "low",
    }
    with pytest.raises(AnswerError, match="item 7"):
        built("reviewer", model=Says({"items": [finding]})).run(inputs("macro_watcher", MACRO))


def test_one_number_in_the_rules_decides() -> None:
    given = inputs("macro_watcher", MACRO, telemetry={"avg_cost_usd": 0.0045})
    assert not built("reviewer").run(given)
    tighter = rules("reviewer").replace("cost_spike_ratio: 2.5", "cost_spike_ratio: 2.0")
    assert built("reviewer", tighter).run(given)


def test_inputs_that_cannot_be_read_are_the_sources_fault() -> None:
    with pytest.raises(InputError):
        built("reviewer").run({"agent": "x"})
