"""The bill: what was logged is held against it by day and model, and a difference is told with its likely cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from telemetry import pricing
from telemetry.edge import cli
from telemetry.pricing import Logged, model_of, reconcile
from tests.worlds.eventlog import line, write

MODEL = "gpt-6-luna"


def logged(usd: float, **fields: Any) -> Logged:
    return Logged(**{"usd": usd, "calls": 10, "unknown": 0, "again": 0} | fields)


def cause(mine: dict[tuple[str, str], Logged], billed: dict[tuple[str, str], float], day: str) -> str:
    return next(one.cause for one in reconcile(mine, billed) if one.day == day)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o-mini-2024-07-18, input", "gpt-4o-mini"),
        ("openai/gpt-6-luna-2026-05-01", "gpt-6-luna"),
        ("claude-x-20260101", "claude-x"),
        ("GPT-4.1", "gpt-4.1"),
    ],
)
def test_a_bills_line_names_its_model(name: str, model: str) -> None:
    assert model_of(name) == model


def test_rounding_is_no_difference() -> None:
    (found,) = reconcile({("2026-11-01", MODEL): logged(1.0)}, {("2026-11-01", MODEL): 1.009})
    assert found.ok and found.difference_usd == pytest.approx(0.009)


def test_the_same_ratio_every_day_is_a_price() -> None:
    mine = {(f"2026-11-0{day}", MODEL): logged(1.0 * day, price_list="list 7") for day in range(1, 5)}
    billed = {key: 1.2 * one.usd for key, one in mine.items()}
    said = cause(mine, billed, "2026-11-03")
    assert "billed 1.20 times the price of list 7 on every day" in said


def test_what_stands_on_the_next_day_is_another_zone() -> None:
    mine = {("2026-11-01", MODEL): logged(2.0), ("2026-11-02", MODEL): logged(1.0)}
    billed = {("2026-11-01", MODEL): 1.5, ("2026-11-02", MODEL): 1.5}
    assert "not UTC" in cause(mine, billed, "2026-11-01")


@pytest.mark.parametrize(
    ("mine", "billed", "said"),
    [
        (None, 1.0, "nothing logged: another program"),
        (logged(1.0), None, "nothing billed"),
        (logged(1.0, unknown=3), 2.0, "3 calls of unknown cost"),
        (logged(1.0, again=2), 2.0, "2 requests were sent again"),
        (logged(1.0), 2.0, "more was billed than is logged"),
        (logged(2.0), 1.0, "less was billed than the list price"),
    ],
)
def test_a_difference_has_a_likely_cause(mine: Logged | None, billed: float | None, said: str) -> None:
    key = ("2026-11-01", MODEL)
    assert said in cause({key: mine} if mine else {}, {key: billed} if billed else {}, "2026-11-01")


BILL = (
    'start_time_iso,line_item,amount_value\n2026-10-01T00:00:00+00:00,"gpt-5-mini-2025-08-07, input",0.010\n'
)


def rows(*costs: float | None) -> None:
    ids = enumerate(costs)
    write(
        *(
            line(event_id=f"e{n}", kind="llm_call", cost_usd=usd, model="gpt-5-mini-2025-08-07", attempts=1)
            for n, usd in ids
        ),
        line(event_id="o", kind="llm_call", cost_usd=0.0, model="offline-rules-1", provider="offline"),
        line(event_id="r", cost_usd=5.0),
    )


def test_the_script_reads_an_export_and_says_what_agrees(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows(0.5, 0.25)
    bill = root / "bill.csv"
    bill.write_text(BILL + '2026-10-01T00:00:00+00:00,"gpt-5-mini-2025-08-07, output",0.740\n')
    assert pricing.main(["reconcile", str(bill)]) == cli.OK
    assert "$0.75 billed, $0.75 logged" in capsys.readouterr().out
    bill.write_text(BILL)
    assert pricing.main(["reconcile", str(bill), "--json"]) == cli.FOUND
    (found,) = json.loads(capsys.readouterr().out)["lines"]
    assert (found["model"], found["difference_usd"]) == ("gpt-5-mini", -0.74)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,model,cost\n", "no column for the day"),
        ("date,model,cost\n2026-10-01,m,much\n", "bill.csv:2: cost: must be an amount in USD, not 'much'"),
        ("date,model,cost\nOct 1,m,1\n", "bill.csv:2: date: must be a day like 2026-11-16"),
        ("date,model,cost\n", "no line with an amount"),
    ],
)
def test_a_bill_that_cannot_be_read_is_told_by_line_and_column(
    root: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (root / "bill.csv").write_text(text)
    assert pricing.main(["reconcile", str(root / "bill.csv")]) == cli.BAD_INPUT
    assert said in capsys.readouterr().err
