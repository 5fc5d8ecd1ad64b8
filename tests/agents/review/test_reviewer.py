"""Reviewer: every kind of planted defect is found, quoted, and clean outputs are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from agents.base import AnswerError, InputError
from agents.review.reviewer import payload, quoted
from tests.worlds.models import Says
from tests.worlds.world import TREE, built, rows

pytestmark = pytest.mark.usefixtures("toy")

PROMPT = (TREE / "agents/prompts/reviewer.md").read_text()
LEVEL = {
    "gauge": "Elm", "signal": "rising", "value": 31.2, "daily_change": 0.18, "z_score": 3.4, "regime": "stressed",
    "rationale": "Elm moved +18.00% to 31.2, z-score 3.4",
}  # fmt: skip
NOTE = {
    "note_id": "n1", "place": "delta", "risk_score": 72, "note": "Water over the bank",
    "category": "flood", "rationale": "water in the lower towns",
}  # fmt: skip
TRANSFER = {
    "river": "Elm", "from_basin": "alpha", "to_basin": "bravo", "profit_pct": 0.4, "size": 1.5,
    "quote_age_s": 3.0, "rationale": "take at alpha, give at bravo",
}  # fmt: skip
RUNS = {"count": 100, "error_rate": 0.01, "p95_latency_ms": 900.0, "avg_cost_usd": 0.002, "avg_reward": 0.3}
OF = {"flood_watch": LEVEL, "note_reader": NOTE, "sluice_keeper": TRANSFER}


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
        ("flood_watch", without(LEVEL, "signal"), "schema"),
        ("flood_watch", LEVEL | {"signal": "panic"}, "schema"),
        ("flood_watch", LEVEL | {"value": "31.2"}, "schema"),
        ("flood_watch", "Elm is up", "schema"),
        ("flood_watch", LEVEL | {"z_score": 340.0, "rationale": "Elm moved a lot"}, "out_of_range"),
        ("note_reader", NOTE | {"risk_score": 140}, "out_of_range"),
        ("sluice_keeper", TRANSFER | {"profit_pct": -0.2}, "out_of_range"),
        ("flood_watch", LEVEL | {"daily_change": -0.18}, "contradiction"),
        ("note_reader", NOTE | {"rationale": "a calm and routine day"}, "contradiction"),
        ("sluice_keeper", TRANSFER | {"to_basin": "alpha"}, "contradiction"),
        ("flood_watch", LEVEL | {"rationale": "Elm rose while Oak fell 7.7 %"}, "unsupported"),
        ("note_reader", NOTE | {"rationale": "reportedly very bad indeed"}, "unsupported"),
        ("flood_watch", LEVEL | {"date": "2026-02-20"}, "stale"),
        ("sluice_keeper", TRANSFER | {"quote_age_s": 600.0}, "stale"),
        ("flood_watch", LEVEL | {"rationale": ""}, "missing_rationale"),
        ("flood_watch", LEVEL | {"rationale": "see above"}, "missing_rationale"),
    ],
)
def test_a_planted_defect_is_found_and_quoted(agent: str, item: Any, defect: str) -> None:
    given = inputs(agent, item)
    findings = built("reviewer").run(given)
    assert defect in {finding["defect"] for finding in findings}
    assert all(finding["item"] == 0 and quoted(finding["evidence"], given) for finding in findings)


def test_the_later_of_two_alike_is_the_duplicate() -> None:
    (finding,) = built("reviewer").run(inputs("note_reader", NOTE, NOTE | {"risk_score": 70}))
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
    given = inputs("flood_watch", LEVEL, telemetry=telemetry)
    (finding,) = built("reviewer").run(given)
    assert (finding["defect"], finding["item"], finding["severity"]) == (defect, None, severity)
    assert quoted(finding["evidence"], given)


def test_a_handful_of_runs_proves_no_spike() -> None:
    assert (
        built("reviewer").run(inputs("flood_watch", LEVEL, telemetry={"count": 3, "avg_cost_usd": 1.0})) == []
    )


def test_without_telemetry_there_is_nothing_to_compare() -> None:
    given = inputs("flood_watch", LEVEL) | {"telemetry": None, "baseline": None}
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
    rows_ = payload(inputs("flood_watch", LEVEL | {"rationale": rationale}))["items"]
    assert rows_[0]["numbers_not_in_item"] == strange


def test_evidence_that_is_not_in_the_input_is_ranked_last_and_counted() -> None:
    known = {"title": "t", "impact": "i", "item": 0}
    made_up = known | {"defect": "schema", "evidence": "the moon is full", "severity": "high"}
    real = known | {"defect": "stale", "evidence": '"gauge":   "Elm"', "severity": "low"}
    findings = built("reviewer", model=Says({"items": [made_up, real]})).run(inputs("flood_watch", LEVEL))
    assert [finding["defect"] for finding in findings] == ["stale", "schema"]
    assert rows()[-1]["unquoted_evidence"] == 1


def test_an_item_that_is_not_there_is_refused() -> None:
    finding = {
        "defect": "stale",
        "item": 7,
        "title": "t",
        "evidence": "Elm",
        "impact": "i",
        "severity": "low",
    }
    with pytest.raises(AnswerError, match="item 7"):
        built("reviewer", model=Says({"items": [finding]})).run(inputs("flood_watch", LEVEL))


def test_one_number_in_the_rules_decides() -> None:
    given = inputs("flood_watch", LEVEL, telemetry={"avg_cost_usd": 0.0045})
    assert not built("reviewer").run(given)
    tighter = PROMPT.replace("cost_spike_ratio: 2.5", "cost_spike_ratio: 2.0")
    assert built("reviewer", tighter).run(given)


def test_inputs_that_cannot_be_read_are_the_sources_fault() -> None:
    with pytest.raises(InputError):
        built("reviewer").run({"agent": "x"})
