"""Arbitrage finder: profits by exact arithmetic, refusals by rule."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.base import AnswerError, InputError
from agents.market.arbitrage_finder import payload
from tests.market.kit import built, rules
from tests.worlds.models import Says

AS_OF = "2026-03-02T14:00:00Z"


def quote(venue: str, bid: float, ask: float, symbol: str = "BTC/USD", **fields: Any) -> dict[str, Any]:
    known = {"bid_size": 2.0, "ask_size": 2.0, "fee_bps": 10, "ts": "2026-03-02T13:59:58Z"}
    return {"venue": venue, "symbol": symbol, "bid": bid, "ask": ask, **known, **fields}


def inputs(*quotes: dict[str, Any], **fx: float) -> dict[str, Any]:
    return {
        "as_of": AS_OF,
        "quotes": list(quotes),
        "fx": {key.replace("_", "/"): rate for key, rate in fx.items()},
    }


GOOD = (quote("alpha", 999, 1000), quote("bravo", 1010, 1011))


@given(
    st.integers(90_000, 110_000), st.integers(90_000, 110_000), st.integers(0, 50), st.integers(0, 50),
    st.floats(0.01, 9), st.floats(0.01, 9),
)  # fmt: skip
def test_profit_is_exact_and_size_is_the_smaller_book(
    ask: int, bid: int, buy_fee: int, sell_fee: int, ask_size: float, bid_size: float
) -> None:
    rows = payload(
        inputs(
            quote("alpha", 1, ask / 100, fee_bps=buy_fee, ask_size=ask_size),
            quote("bravo", bid / 100, 2000, fee_bps=sell_fee, bid_size=bid_size),
        )
    )["candidates"]
    if bid <= ask:
        assert rows == []
        return
    (row,) = rows
    net = Fraction(bid * (10_000 - sell_fee), ask * (10_000 + buy_fee)) - 1
    assert row["profit_pct"] == pytest.approx(float(net * 100), abs=1e-6)
    assert row["size"] == min(ask_size, bid_size)
    assert row["notional_usd"] == pytest.approx(row["size"] * ask / 100, abs=0.01)


def test_an_opportunity_carries_the_measured_numbers() -> None:
    (item,) = built("arbitrage_finder").run(inputs(*GOOD))
    assert (item["symbol"], item["buy_venue"], item["sell_venue"], item["size"]) == (
        "BTC",
        "alpha",
        "bravo",
        2.0,
    )
    assert item["profit_pct"] == pytest.approx((1010 * 0.999 / (1000 * 1.001) - 1) * 100, abs=1e-6)
    assert item["quote_age_s"] == 2.0


@pytest.mark.parametrize(
    "quotes",
    [
        pytest.param((quote("alpha", 999, 1000), quote("bravo", 1001.5, 1002)), id="fees eat it"),
        pytest.param((GOOD[0], quote("bravo", 1010, 1011, ts="2026-03-02T13:55:00Z")), id="stale"),
        pytest.param((GOOD[0], quote("bravo", 1010, 1011, ts="2026-03-02T14:01:00Z")), id="from the future"),
        pytest.param((GOOD[0], quote("bravo", 1010, 1011, bid_size=0.01)), id="thin"),
        pytest.param((GOOD[0], quote("bravo", 1500, 1501)), id="too good to be true"),
        pytest.param((GOOD[0], quote("bravo", 1010, 1005)), id="crossed book"),
        pytest.param((GOOD[0], quote("bravo", 1010, 1011, "ETH/USD")), id="another symbol"),
        pytest.param((GOOD[0], quote("bravo", 1010, 1011, "BTC/CHF")), id="no rate for the currency"),
        pytest.param((GOOD[0], quote("bravo", float("nan"), 1011)), id="no price"),
        pytest.param((GOOD[0], quote("bravo", 1010, 1011, ts="yesterday")), id="no time"),
        pytest.param((), id="no quotes"),
    ],
)
def test_what_cannot_be_executed_is_refused(quotes: tuple[dict[str, Any], ...]) -> None:
    assert built("arbitrage_finder").run(inputs(*quotes)) == []


@pytest.mark.parametrize("fx", [{"EUR_USD": 1.25}, {"USD_EUR": 0.8}])
def test_currencies_are_converted_by_the_given_rate_either_way_round(fx: dict[str, float]) -> None:
    (row,) = payload(inputs(GOOD[0], quote("bravo", 808, 809, "BTC/EUR"), **fx))["candidates"]
    assert row["conversion"] == "fx" and row["gross_pct"] == pytest.approx(1.0)


def test_a_stablecoin_without_a_rate_is_marked_as_taken_at_parity() -> None:
    given_quotes = (GOOD[0], quote("bravo", 1010, 1011, "BTC/USDT"))
    assert payload(inputs(*given_quotes))["candidates"][0]["conversion"] == "parity"
    assert payload(inputs(*given_quotes, USDT_USD=0.99))["candidates"] == []
    refuse = rules("arbitrage_finder").replace("stablecoin_parity: assume", "stablecoin_parity: refuse")
    assert built("arbitrage_finder").run(inputs(*given_quotes))
    assert not built("arbitrage_finder", refuse).run(inputs(*given_quotes))


def test_two_books_in_the_same_foreign_currency_need_no_rate_for_profit() -> None:
    (row,) = payload(inputs(quote("alpha", 999, 1000, "BTC/EUR"), quote("bravo", 1010, 1011, "BTC/EUR")))[
        "candidates"
    ]
    assert (
        row["conversion"] == "same" and row["notional_usd"] is None and row["gross_pct"] == pytest.approx(1.0)
    )


def test_one_number_in_the_rules_decides() -> None:
    text = rules("arbitrage_finder")
    late = inputs(GOOD[0], quote("bravo", 1010, 1011, ts="2026-03-02T13:59:30Z"))
    assert not built("arbitrage_finder", text).run(late)
    assert built("arbitrage_finder", text.replace("max_quote_age_s: 20", "max_quote_age_s: 60")).run(late)


def test_unusable_quotes_are_counted() -> None:
    assert payload(inputs(*GOOD, quote("x", -1, 5), quote("y", 1, 5, "BTC")))["unusable_quotes"] == 2


def test_a_candidate_that_was_not_given_is_refused() -> None:
    model = Says({"items": [{"candidate_id": "c99", "rationale": "trust me"}]})
    with pytest.raises(AnswerError, match="c99"):
        built("arbitrage_finder", model=model).run(inputs(*GOOD))


@pytest.mark.parametrize(
    "bad", [{}, {"as_of": AS_OF}, {"as_of": "noon", "quotes": []}, {"as_of": AS_OF, "quotes": [], "fx": 3}]
)
def test_inputs_that_cannot_be_read_are_the_sources_fault(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        built("arbitrage_finder").run(bad)
