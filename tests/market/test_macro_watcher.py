"""Macro watcher: the arithmetic by hand and against numpy, the judgement by rules."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.base import AnswerError, InputError
from agents.market.macro_watcher import features, payload, weekdays
from tests.market.kit import built
from tests.worlds.models import Says
from tests.worlds.world import rows

MONDAY = date(2026, 3, 2)


def days(count: int, last: date = MONDAY) -> list[date]:
    """The last `count` weekdays up to a day."""
    found = [last - timedelta(days=n) for n in range(count * 2) if (last - timedelta(days=n)).weekday() < 5]
    return sorted(found[:count])


def series(
    values: list[float], name: str = "VIX", kind: str = "level", last: date = MONDAY
) -> dict[str, Any]:
    points = [
        {"date": day.isoformat(), "value": value}
        for day, value in zip(days(len(values), last), values, strict=True)
    ]
    return {"id": name, "name": name, "unit": "x", "kind": kind, "history": points}


def wavy(count: int, level: float = 20.0, size: float = 0.02) -> list[float]:
    return [level * (1 + size * math.sin(3 * n)) for n in range(count)]


def test_the_features_of_a_small_series_by_hand() -> None:
    row = features(series([10, 11, 10, 11, 10, 11, 10, 12]), MONDAY)
    assert row["value"] == 12 and row["previous"] == 10 and row["daily_change"] == 0.2
    changes = [0.1, -1 / 11, 0.1, -1 / 11, 0.1, -1 / 11]
    mean = sum(changes) / 6
    deviation = math.sqrt(sum((value - mean) ** 2 for value in changes) / 5)
    assert row["z_score"] == pytest.approx((0.2 - mean) / deviation, abs=1e-3)
    assert (row["history_n"], row["gap_days"], row["stale_days"], row["change_pp"]) == (6, 1, 0, None)
    assert row["jump_ratio"] == pytest.approx(12 / 10, abs=1e-3)


def test_a_rate_is_measured_in_points() -> None:
    row = features(series([4.0, 4.02, 3.99, 4.01, 4.0, 4.03, 4.0, 4.10], "DGS10", "rate"), MONDAY)
    assert row["change_pp"] == pytest.approx(0.10) and row["daily_change"] == pytest.approx(0.025)


@given(st.lists(st.floats(5, 90), min_size=8, max_size=90))
def test_z_score_and_volatility_agree_with_numpy(values: list[float]) -> None:
    row = features(series(values), MONDAY)
    changes = np.diff(values) / np.abs(values[:-1])
    before = changes[:-1][-60:]
    deviation = np.std(before, ddof=1)
    if deviation > 1e-9:
        assert row["z_score"] == pytest.approx((changes[-1] - before.mean()) / deviation, rel=1e-3, abs=1e-3)
    assert row["jump_ratio"] == pytest.approx(values[-1] / np.median(values[:-1][-20:]), abs=1e-3)


def test_a_gap_shrinks_the_adjusted_score() -> None:
    entry = series(wavy(30))
    entry["history"][-1]["date"] = (MONDAY + timedelta(days=7)).isoformat()
    row = features(entry, MONDAY + timedelta(days=7))
    assert row["gap_days"] == 6
    assert row["z_gap_adjusted"] == pytest.approx(row["z_score"] / math.sqrt(6), abs=1e-3)


def test_nothing_after_the_day_is_seen() -> None:
    entry = series(wavy(30))
    earlier = MONDAY - timedelta(days=7)
    cut = {**entry, "history": [point for point in entry["history"] if point["date"] <= earlier.isoformat()]}
    assert features(entry, earlier) == features(cut, earlier)


@pytest.mark.parametrize("bad", [None, "n/a", float("nan"), True])
def test_a_hole_in_the_feed_is_no_point(bad: Any) -> None:
    entry = series(wavy(30))
    expected = {**entry, "history": [*entry["history"][:10], *entry["history"][11:]]}
    entry["history"][10] = {**entry["history"][10], "value": bad}
    assert features(entry, MONDAY) == features(expected, MONDAY)


@pytest.mark.parametrize("values", [[], [5.0], [5.0, 5.0], [5.0] * 40, [0.0, 1.0], [0.0] * 10])
def test_a_short_or_flat_series_has_features_but_no_score(values: list[float]) -> None:
    assert features(series(values), MONDAY)["z_score"] is None
    assert built("macro_watcher").run({"as_of": MONDAY.isoformat(), "series": [series(values, "WTI")]}) == []


@pytest.mark.parametrize(
    ("start", "end", "count"),
    [("2026-03-02", "2026-03-02", 0), ("2026-02-27", "2026-03-02", 1), ("2026-02-28", "2026-03-01", 0),
     ("2026-02-23", "2026-03-09", 10), ("2026-03-03", "2026-03-02", 0)],
)  # fmt: skip
def test_weekdays_are_counted_without_weekends(start: str, end: str, count: int) -> None:
    assert weekdays(date.fromisoformat(start), date.fromisoformat(end)) == count


@given(st.dates(date(2020, 1, 1), date(2030, 1, 1)), st.integers(0, 60))
def test_weekdays_agree_with_numpy(start: date, count: int) -> None:
    end = start + timedelta(days=count)
    one = timedelta(days=1)
    assert weekdays(start, end) == np.busday_count(start + one, end + one)


@pytest.mark.parametrize(
    "inputs",
    [{}, {"as_of": "soon", "series": []}, {"as_of": "2026-03-02"}, {"as_of": "2026-03-02", "series": [{"id": "VIX"}]},
     {"as_of": "2026-03-02", "series": [{"id": "VIX", "history": [{"date": "x", "value": 1.0}]}]}],
)  # fmt: skip
def test_inputs_that_cannot_be_read_are_the_sources_fault(inputs: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        built("macro_watcher").run(inputs)
    assert rows()[0]["error_kind"] == "source"


def shock(name: str, kind: str, factor: float) -> dict[str, Any]:
    values = wavy(70, 4.0 if kind == "rate" else 20.0, 0.004)
    return {"as_of": MONDAY.isoformat(), "series": [series([*values, values[-1] * factor], name, kind)]}


@pytest.mark.parametrize(
    ("name", "kind", "factor", "signal"),
    [("VIX", "level", 1.4, "risk_off"), ("VIX", "level", 0.75, "risk_on"), ("DGS10", "rate", 1.05, "rates_up"),
     ("DXY", "level", 0.97, "dollar_down"), ("WTI", "level", 1.08, "oil_up"), ("DGS10", "rate", 100, "data_error")],
)  # fmt: skip
def test_a_planted_shock_is_signalled(name: str, kind: str, factor: float, signal: str) -> None:
    (item,) = built("macro_watcher").run(shock(name, kind, factor))
    assert (item["series"], item["signal"]) == (name, signal)
    assert (item["daily_change"] is None) == (signal == "data_error")


def test_a_quiet_day_is_an_empty_list() -> None:
    assert built("macro_watcher").run(shock("WTI", "level", 1.001)) == []


def test_one_number_in_the_rules_decides() -> None:
    inputs = shock("WTI", "level", 1.03)
    loose = "```rules\nanalyst: macro\nz_alert: 2\nmin_move: 0.02\n```"
    assert built("macro_watcher", loose).run(inputs)
    assert not built("macro_watcher", loose.replace("0.02", "0.05")).run(inputs)


def test_the_model_cannot_change_a_number() -> None:
    inputs = shock("VIX", "level", 1.4)
    judged = {"series": "VIX", "signal": "risk_off", "regime": "calm", "rationale": "up 900 %"}
    (item,) = built("macro_watcher", model=Says({"items": [judged, judged]})).run(inputs)
    assert item["value"] == payload(inputs)["series"][0]["value"] and item["daily_change"] == pytest.approx(
        0.4
    )


def test_a_series_that_was_not_given_is_refused() -> None:
    judged = {"series": "GOLD", "signal": "risk_off", "regime": "calm", "rationale": "x"}
    with pytest.raises(AnswerError, match="GOLD"):
        built("macro_watcher", model=Says({"items": [judged]})).run(shock("VIX", "level", 1.4))
