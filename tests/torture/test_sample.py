"""A sample of every torture: what `make torture` tries by the hundred, tried a few times in every test run."""

from __future__ import annotations

import pytest

from tests.conftest import REPOSITORY
from tests.torture import Clock, Figure, corrupt, disk, endpoint, kills, lines, lived, nonsense, writers

LONG = 300.0  # seconds; nothing here takes a tenth of it


def held(figures: list[Figure]) -> None:
    assert not (faults := [fault for figure in figures for fault in figure.faults]), "\n".join(faults)
    assert all(figure.ok for figure in figures)


# The others are killed step by step in tests of their own: test_retention.py, test_sync.py, test_night.py.
@pytest.mark.parametrize("name", ["A/B", "harness", "orchestrator", "rollup"])
def test_killed_in_mid_run_nothing_is_lost_or_twice(name: str) -> None:
    count, faults = kills.killed(name, Clock(LONG), 2, seed=7)
    assert (count, faults) == (2, [])


def test_a_corrupted_file_ends_no_script_in_a_traceback() -> None:
    some = ("eval.suites", "meta.prompt_variant_manager", "eval.drift", "meta.retirement", "telemetry.rollup")
    held(corrupt.run(Clock(LONG), 12, 3, some, whole=False))


def test_no_fault_of_an_endpoint_decides_a_test_or_tells_a_key() -> None:
    held(endpoint.run(Clock(LONG), some=("status 401", "prose", "dead after ten calls")))


def test_nights_on_a_model_that_talks_nonsense_come_through() -> None:
    held(nonsense.run(Clock(LONG), 1))


def test_every_script_is_tried_or_said_why_not() -> None:
    scripts = {
        f"{file.parent.name}.{file.stem}"
        for package in ("telemetry", "agents", "eval", "meta")
        for file in (REPOSITORY / package).glob("*.py")
        if "@cli.entry(" in file.read_text()
    }
    gone = set() if (REPOSITORY / "agents/market").is_dir() else {"eval.build_suites", "agents.sample_market"}
    assert scripts == {*lived.SCRIPTS, *lived.ELSEWHERE} - gone


@pytest.mark.outside
def test_a_full_disk_is_one_line_and_stopped_early() -> None:
    held(disk.run(Clock(LONG), some=("eval.harness", "telemetry.rollup", "meta.critique_loops"), whole=False))


def test_a_broken_line_is_counted_and_hides_no_other() -> None:
    held(lines.run(Clock(LONG), 2))


def test_writers_and_sealers_lose_no_row() -> None:
    held(writers.run(Clock(LONG), 4_000))
