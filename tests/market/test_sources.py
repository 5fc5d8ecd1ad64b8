"""Sources: payloads in the documented shape, nothing from the future, and no quiet day out of a failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.domain import SourceError
from agents.market import open_source, snapshot
from agents.market.snapshot import CHECKS, Snapshot
from agents.run.inputs import packed
from telemetry.edge.errors import BadInput

SAMPLE = Path(__file__).parents[2] / snapshot.SAMPLE


@pytest.fixture(scope="module")
def market() -> Snapshot:
    return Snapshot(SAMPLE)


def test_payloads_have_the_documented_fields(market: Snapshot) -> None:
    day = market.days()[-1]
    macro, headlines, quotes = (market.load(kind) for kind in CHECKS)
    assert macro["as_of"] == headlines["as_of"] == day
    assert [series["id"] for series in macro["series"]] == ["VIX", "DGS10", "DXY", "WTI"]
    assert set(macro["series"][0]) == {"id", "name", "unit", "kind", "history"}
    assert set(headlines["headlines"][0]) == {"id", "published", "source", "text"}
    assert quotes["as_of"] == f"{day}T14:00:00Z"
    assert set(quotes["quotes"][0]) == {
        "venue",
        "symbol",
        "bid",
        "ask",
        "bid_size",
        "ask_size",
        "fee_bps",
        "ts",
    }
    assert all(
        f"{quote['symbol'].split('/')[1]}/USD" in quotes["fx"] | {"USD/USD": 1} for quote in quotes["quotes"]
    )


def test_headline_ids_are_unique_over_all_days(market: Snapshot) -> None:
    ids = [item["id"] for day in market.days() for item in market.load("headlines", day)["headlines"]]
    assert len(ids) == len(set(ids))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 158), st.randoms(use_true_random=False))
def test_changing_the_future_changes_nothing(index: int, dice: Any) -> None:
    original = SAMPLE.read_text(encoding="utf-8").splitlines()
    head, tail = original[: 1 + 90 + index + 1], original[1 + 90 + index + 1 :]
    dice.shuffle(tail)  # dates and all
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "market.jsonl"
        path.write_text("\n".join([*head, *tail[: len(tail) // 2]]) + "\n", encoding="utf-8")
        day = json.loads(head[-1])["date"]
        for kind in CHECKS:
            assert Snapshot(path).load(kind, day) == Snapshot(SAMPLE).load(kind, day)


@pytest.mark.parametrize("day", ["2026-10-31", "2025-11-03", "2031-01-01", "yesterday"])
def test_a_day_that_is_not_there_is_a_source_error(market: Snapshot, day: str) -> None:
    with pytest.raises(SourceError, match="no trading day"):
        market.load("macro", day)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "rebuilds it"),
        ("", "not a sample market"),
        ("{}\nnot json\n", "not a sample market"),
        ('{}\n{"macro": {}}\n', "not a sample market"),
        ('{}\n{"date": "2026-01-02", "macro": {}}\n', "no trading days"),
        ('{"series": {}}\n{"date": "2026-01-02", "macro": {}, "headlines": [], "quotes": []}\n', "empty"),
        ('{"fee_bps": {}}\n{"date": "2026-01-02", "macro": {}, "headlines": 3}\n', "malformed"),
    ],
)
def test_a_broken_sample_is_a_source_error(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "market.jsonl"
    if text is not None:
        path.write_text(text)
    for kind in CHECKS:
        with pytest.raises(SourceError) as caught:
            Snapshot(path).load(kind)
        assert caught.value.error_kind == "source"
    with pytest.raises(SourceError, match=said):
        Snapshot(path).load("headlines")


@pytest.mark.parametrize(
    ("kind", "field", "value", "said"),
    [
        ("macro", "series.0.history.89.date", "2026-10-31", "is after"),
        ("macro", "series.0.history.3.date", "2026-10-30", "must rise"),
        ("macro", "series.0.history.3.value", float("nan"), "not a number"),
        ("macro", "series.0.history.3.value", "4.2", "not a number"),
        ("macro", "series.0.history", [], "not a quiet day"),
        ("macro", "series.0.history", None, "not a quiet day"),
        ("headlines", "headlines", [], "not a quiet day"),
        ("headlines", "headlines.0.text", " ", "no text"),
        ("headlines", "headlines.0.published", "2026-10-31T00:00:00Z", "after"),
        ("quotes", "quotes.0.bid", 0, "bid is 0"),
        ("quotes", "quotes.0.bid", 1e9, "below bid"),
        ("quotes", "quotes.0.ask_size", -1, "ask_size is -1"),
        ("quotes", "quotes.0.fee_bps", True, "fee_bps is True"),
        ("quotes", "quotes.0.ts", "2026-10-30T14:00:01Z", "after"),
        ("quotes", "fx.EUR/USD", 0, "fx EUR/USD"),
        ("quotes", "quotes.0", {}, "malformed"),
    ],
)
def test_a_bad_payload_is_refused_with_the_field(
    market: Snapshot, kind: str, field: str, value: Any, said: str
) -> None:
    payload = json.loads(json.dumps(market.load(kind)))
    at: Any = payload
    *way, last = field.split(".")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[int(last) if last.isdigit() else last] = value
    with pytest.raises(SourceError, match=said):
        snapshot.checked(kind, payload)


def test_the_input_hash_ignores_key_order_and_sees_values() -> None:
    assert packed({"a": 1, "b": 2}).hash == packed({"b": 2, "a": 1}).hash
    assert packed({"a": 1}).hash != packed({"a": 2}).hash


def test_an_unknown_mode_is_bad_input(root: Path) -> None:
    with pytest.raises(BadInput, match="snapshot, live"):
        open_source("dream", root)
