"""The sample market: reproducible, labelled, and with what was planted really in it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from agents import sample_market
from agents.market.sample import build, planted
from agents.market.snapshot import CHECKS, Snapshot
from telemetry.edge import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built() -> dict[str, list[dict[str, Any]]]:
    return {name: [json.loads(line) for line in text.splitlines()] for name, text in build.files().items()}


@pytest.fixture(scope="module")
def market() -> Snapshot:
    return Snapshot(ROOT / build.MARKET)


def test_the_committed_files_are_what_the_generator_writes() -> None:
    for name, text in build.files().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name}: python -m agents.sample_market"


def test_another_seed_makes_another_market() -> None:
    assert build.files(seed=1) != build.files(seed=2)


def test_rebuilding_writes_once_and_check_finds_a_difference(tmp_path: Path, capsys: Any) -> None:
    assert sample_market.main(["--root", str(tmp_path), "--check"]) == cli.FOUND
    assert not (tmp_path / build.MARKET).exists()
    assert sample_market.main(["--root", str(tmp_path)]) == cli.OK
    capsys.readouterr()
    assert sample_market.main(["--root", str(tmp_path), "--json"]) == cli.OK
    assert json.loads(capsys.readouterr().out) == {"differing": [], "written": []}


def test_it_stays_small() -> None:
    assert sum((ROOT / name).stat().st_size for name in (build.MARKET, build.OUTCOMES)) < 600_000


def test_everything_says_that_it_is_synthetic(
    built: dict[str, list[dict[str, Any]]], market: Snapshot
) -> None:
    assert built[build.MARKET][0]["synthetic"] is True
    assert all(row["synthetic"] is True for row in built[build.OUTCOMES])
    assert all(market.load(kind, day)["synthetic"] is True for kind in CHECKS for day in market.days()[::20])


def test_the_days_are_consecutive_trading_days(market: Snapshot) -> None:
    days = [dt.date.fromisoformat(day) for day in market.days()]
    assert len(days) >= 150
    assert all(day.weekday() < 5 for day in days)
    between = {
        days[0] + dt.timedelta(days=n)
        for n in range((days[-1] - days[0]).days)
        if (days[0].weekday() + n) % 7 < 5
    }
    assert {day.isoformat() for day in between - set(days)} <= set(planted.PLAN["holidays"])


def test_the_first_day_has_ninety_days_of_history(market: Snapshot) -> None:
    assert [len(series["history"]) for series in market.load("macro", market.days()[0])["series"]] == [90] * 4


def test_the_yield_in_basis_points_is_seen_on_its_day_and_corrected_after(market: Snapshot) -> None:
    day, after = market.days()[build.GLITCH_DAY : build.GLITCH_DAY + 2]
    seen = {s["id"]: s["history"] for s in market.load("macro", day)["series"]}["DGS10"][-1]
    corrected = {s["id"]: s["history"] for s in market.load("macro", after)["series"]}["DGS10"][-2]
    assert seen["date"] == corrected["date"] == day
    assert seen["value"] == pytest.approx(100 * corrected["value"])


def test_a_late_figure_is_missing_on_its_day_and_there_the_next(market: Snapshot) -> None:
    for index, name in planted.PLAN["late"]:
        day, after = market.days()[index : index + 2]
        dates = [
            [
                point["date"]
                for series in market.load("macro", as_of)["series"]
                if series["id"] == name
                for point in series["history"]
            ]
            for as_of in (day, after)
        ]
        assert day not in dates[0]
        assert day in dates[1]


def test_crises_are_in_the_news_before_and_in_the_prices_after(
    built: dict[str, list[dict[str, Any]]],
) -> None:
    rows = built[build.OUTCOMES]
    days = sorted({row["date"] for row in rows})
    event = {
        (row["date"], row.get("series") or row.get("region")): row["event"] for row in rows if "event" in row
    }
    for arc in planted.CRISES:
        eve = days[arc.day - 1]
        assert any(event[eve, name] for name in arc.moves)
        assert arc.region == "none" or event[eve, arc.region]


def test_quiet_stretches_are_quiet(built: dict[str, list[dict[str, Any]]]) -> None:
    rows = [row for row in built[build.OUTCOMES] if row["kind"] == "market"]
    days = sorted({row["date"] for row in rows})
    quiet = {days[n] for first, end in planted.PLAN["quiet"] for n in range(first + 4, end - build.HORIZON)}
    inside = [row["event"] for row in rows if row["date"] in quiet]
    outside = [row["event"] for row in rows if row["date"] not in quiet]
    assert sum(inside) / len(inside) < 0.25 * sum(outside) / len(outside)


def test_there_are_opportunities_and_traps(built: dict[str, list[dict[str, Any]]]) -> None:
    fills = [row for row in built[build.OUTCOMES] if row["kind"] == "fill"]
    assert sum(row["filled"] and row["realised_pct"] > 0.1 for row in fills) >= 30
    assert sum(row["filled"] and row["realised_pct"] < 0 for row in fills) >= 20
    assert sum(not row["filled"] for row in fills) >= 20


def test_misleading_headlines_of_every_sort_occur(built: dict[str, list[dict[str, Any]]]) -> None:
    texts = " ".join(text for line in built[build.MARKET] for _, _, text in line.get("headlines", ()))
    for templates in planted.NEWS["decoys"].values():
        tails = [max(template.replace("}", "{").split("{"), key=len) for template in templates]
        assert sum(tail in texts for tail in tails) >= len(tails) // 2
