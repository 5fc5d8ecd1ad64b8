"""The table a person reads in the terminal."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from telemetry import summarize
from telemetry.edge import cli
from tests.worlds.eventlog import AGENTS, line, write, write_events


def printed(width: int, last_n: int = 5000) -> str:
    console = Console(file=io.StringIO(), width=width)
    summarize.summarize(last_n, console=console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_every_agent_and_heading_is_readable_at_any_usual_width(width: int) -> None:
    write_events(200)
    text = printed(width)
    assert all(agent in text for agent in AGENTS)
    assert all(heading in text for heading in ("runs", "errors", "p50", "p95", "cost/run", "reward ± 95 %"))
    assert "…" not in text


def test_what_the_table_cannot_say_is_said_below_it() -> None:
    write(line(), line(cost_usd=None, error="x", error_kind="parse"), line(scoring_version="2.0"), b"garbage")
    text = printed(140)
    assert "The last 3 runs." in text
    assert "Errors: 1 parse." in text
    assert "The cost of 1 runs is unknown; sums and means leave them out." in text
    assert "Several scoring versions (1.0, 2.0)" in text
    assert "1 malformed lines" in text


def test_without_data_it_says_so_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert summarize.main([]) == cli.OK
    assert capsys.readouterr().out == "No runs logged yet.\n"


def test_an_agent_name_is_not_markup() -> None:
    write(line(agent="[red]x[/red]"))
    assert "[red]x[/red]" in printed(140)


def test_json_is_the_summary_itself(capsys: pytest.CaptureFixture[str]) -> None:
    write(line())
    assert summarize.main(["--json"]) == cli.OK
    assert json.loads(capsys.readouterr().out)["by_agent"]["macro_watcher"]["count"] == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0, "$0.00"), (0.000123, "$0.00012"), (3.5, "$3.50"), (12345.6, "$12,345.60")],
)
def test_money_is_as_fine_as_it_needs_to_be(value: float | None, shown: str) -> None:
    assert summarize.money(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (12.4, "12 ms"), (1234.0, "1.23 s"), (62000.0, "62 s")]
)
def test_durations_have_a_unit(value: float | None, shown: str) -> None:
    assert summarize.duration(value) == shown
