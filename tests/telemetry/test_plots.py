"""The charts: drawn from real rows, sized for a README, absent when there is nothing to show."""

from __future__ import annotations

import itertools
import json
import struct
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from telemetry import plots, retention
from telemetry.edge import cli
from telemetry.edge.files import here
from telemetry.logger import log_event
from telemetry.read import days, figures
from telemetry.read.rows import Window
from tests.worlds.eventlog import line, write, write_events

ALL = ["cost_over_time.png", "latency_by_agent.png", "reward_over_time.png", "reward_vs_cost_scatter.png"]
FULL = figures.DPI


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "DPI", 40)  # drawing at full size is most of the time


def drawn(root: Path) -> list[str]:
    return sorted(path.name for path in (root / plots.CHARTS).glob("*"))


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])  # type: ignore[return-value]


def test_every_chart_is_a_picture_of_twice_the_width_of_a_readme(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "DPI", FULL)
    write_events(400)
    assert plots.main(["--quiet"]) == cli.OK
    assert drawn(root) == ALL
    for name in ALL:
        width, height = size_of((root / plots.CHARTS / name).read_bytes())
        assert width == 1720
        assert 500 <= height <= 1400


def test_the_same_rows_give_the_same_bytes(root: Path) -> None:
    write_events(100)
    plots.plot(here(), Window(kind="run"))
    first = [(root / plots.CHARTS / name).read_bytes() for name in ALL]
    plots.plot(here(), Window(kind="run"))
    assert [(root / plots.CHARTS / name).read_bytes() for name in ALL] == first


def test_without_data_there_is_a_sentence_and_no_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plots.main([]) == cli.OK
    assert capsys.readouterr().out == "No charts drawn: no runs logged yet.\n"
    assert drawn(root) == []


def test_a_chart_without_its_figures_is_not_drawn_and_an_old_one_does_not_linger(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_events(50)
    plots.plot(here(), Window(kind="run"))
    write(line(cost_usd=None), line(cost_usd=None))
    assert plots.main([]) == cli.OK
    assert drawn(root) == ["latency_by_agent.png", "reward_over_time.png"]
    assert "cost_over_time.png not drawn: no run has a known cost." in capsys.readouterr().out


@pytest.mark.parametrize("only", [line(), line(cost_usd=0.0, latency_ms=0.0, reward=0.0), line(reward=None)])
def test_a_single_run_can_be_drawn(only: bytes) -> None:
    write(only)
    assert plots.main(["--quiet"]) == cli.OK


def test_unusual_names_and_many_agents_stay_legible(root: Path) -> None:
    names = ["$x_1^2$", "日本", "a" * 80, *(f"agent_{number}" for number in range(40))]
    write(
        *(line(agent=name, event_id=f"{n}") for n, name in enumerate(names)),
        *(line(agent="busy") for _ in range(30)),
    )
    series = plots.load(here(), Window())
    assert len(series) == len(figures.COLOURS) + 1
    assert "busy" in [one.name for one in series]
    assert series[-1].name.endswith("others")
    assert len({one.colour for one in series}) == len(series)
    assert plots.main(["--quiet"]) == cli.OK
    assert drawn(root) == ALL


@pytest.mark.parametrize("slowest_ms", [5, 900, 90_000])
def test_the_labels_of_a_latency_axis_never_run_into_each_other(slowest_ms: float) -> None:
    write(*(line(latency_ms=latency, event_id=f"{latency}") for latency in (0.2, 1, slowest_ms)))
    figure = figures.latency_by_agent(plots.load(here(), Window()))
    figures.png(figure)
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    shown = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    boxes = sorted((label.get_window_extent().x0, label.get_window_extent().x1) for label in shown)
    assert len(boxes) >= 2
    assert all(left[1] < right[0] for left, right in itertools.pairwise(boxes))


def test_only_the_newest_scoring_version_is_drawn() -> None:
    write(
        line(reward=9.0, scoring_version="1.0"),
        line(reward=0.5, scoring_version="1.1", ts="2026-10-02T00:00:00.000Z"),
    )
    (series,) = plots.load(here(), Window())
    np.testing.assert_array_equal(series.reward, [np.nan, 0.5])


def test_an_agent_with_weights_of_its_own_takes_nobody_else_off_the_charts() -> None:
    write(
        line(agent="a", reward=0.4, scoring_version="1.0"),
        line(agent="b", reward=0.5, scoring_version="1.0+0.5,200,0.1,500", ts="2026-10-02T00:00:00.000Z"),
    )
    assert [list(series.reward) for series in plots.load(here(), Window())] == [[0.4], [0.5]]


def test_runs_that_nobody_rewarded_are_a_sentence(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(line(reward=None, scoring_version=None), line(reward=None, scoring_version=None))
    assert plots.main([]) == cli.OK
    assert "not drawn: no run in the field has a reward" in capsys.readouterr().out


def test_the_rolling_mean_agrees_with_numpy() -> None:
    values = np.random.default_rng(1).normal(size=200)
    expected = np.lib.stride_tricks.sliding_window_view(values, 20).mean(axis=1)
    np.testing.assert_allclose(figures.rolling_mean(values, 20), expected)


def test_json_says_what_was_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    write(line(latency_ms=None))
    plots.main(["--json"])
    assert (
        json.loads(capsys.readouterr().out)["telemetry/charts/latency_by_agent.png"] == "no run has a latency"
    )


def test_production_runs_are_drawn_on_the_day_they_stood_on_and_exercises_only_if_asked(root: Path) -> None:
    log_event("a", "r", 1.0, cost_usd=0.0, reward=0.2, source="replay", as_of="2026-03-02")
    log_event("a", "r", 1.0, cost_usd=0.0, reward=0.9, source="eval")
    (shown,) = plots.load(here(), Window(kind="run"))
    assert [str(day)[:10] for day in shown.ts] == ["2026-03-02"] and list(shown.reward) == [0.2]
    (asked,) = plots.load(here(), Window(kind="run", source="eval"))
    assert list(asked.latency_s) == [0.001] and np.isnan(asked.reward).all(), (
        "an eval has a pass rate, no reward"
    )


def test_of_many_sealed_days_some_runs_stand_for_all_and_the_charts_say_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(3000)
    retention.seal(here(), date(2026, 10, 25))
    whole = plots.load(here(), Window(kind="run"))
    monkeypatch.setattr(days, "LARGE", 1)
    monkeypatch.setattr(days, "SAMPLE", 4)
    few = plots.load(here(), Window(kind="run"))
    assert [one.name for one in few] == [one.name for one in whole]
    for some, all_of_it in zip(few, whole, strict=True):
        assert some.every == 4 and len(some.ts) * 4 == pytest.approx(len(all_of_it.ts), rel=0.35)
        assert np.nanmean(some.reward) == pytest.approx(np.nanmean(all_of_it.reward), abs=0.08)
    figure = figures.latency_by_agent(few)
    assert figure and "one in 4 of them" in figure.axes[0].texts[0].get_text()
