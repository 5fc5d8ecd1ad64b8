"""Feedback and health: a trend is one only if it is proven, a target missed is exit code 1 with what is missing."""

from __future__ import annotations

import itertools
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents import orchestrator
from eval import harness
from telemetry import feedback, health, logger, retention
from telemetry.edge import cli
from telemetry.edge.files import FEEDBACK, Repo
from telemetry.feedback import Area, Day
from telemetry.logger import encode
from telemetry.read.trends import direction, mann_kendall, shares_differ
from tests.worlds import world
from tests.worlds.eventlog import event, write

WINDOW = ("2026-10-01", "2026-10-29")


def test_the_p_value_is_close_to_that_of_all_orders() -> None:
    def statistic(order: tuple[int, ...]) -> int:
        return sum(b > a for at, a in enumerate(order) for b in order[at + 1 :]) * 2 - 28

    every = [abs(statistic(order)) for order in itertools.permutations(range(8))]
    for days in ([0, 1, 2, 3, 4, 5, 7, 6], [3, 0, 1, 2, 4, 5, 6, 7], [4, 2, 0, 1, 3, 6, 5, 7]):
        p, s = mann_kendall(days)
        assert p == pytest.approx(sum(one >= abs(s) for one in every) / len(every), abs=0.02)


def test_noise_is_taken_for_a_trend_in_about_five_percent() -> None:
    draw = random.Random(1)
    found = sum(direction([draw.gauss(0, 1) for _ in range(28)]) != 0 for _ in range(600))
    assert found / 600 < 0.08


def test_a_slow_rise_under_noise_is_found_and_a_short_one_is_not() -> None:
    draw = random.Random(2)
    assert direction([0.02 * day + draw.gauss(0, 0.1) for day in range(28)]) == 1
    assert direction([1, 2, 3, 4, 5, 6, 7]) == 0, "seven days prove nothing"
    assert direction([1.0] * 28) == 0


def test_shares_differ_only_beyond_chance() -> None:
    assert shares_differ((90, 100), (60, 100))
    assert not shares_differ((9, 10), (7, 10))
    assert not shares_differ((0, 0), (7, 10))
    assert not shares_differ((10, 10), (10, 10))


def days(success: Any, quality: Any, latency: Any) -> list[Day]:
    return [Day(f"d{n}", 100, int(100 * success(n)), latency(n), 10, quality(n)) for n in range(20)]


def test_an_agent_is_told_what_moves_and_slower_is_worse() -> None:
    told = feedback.feedback(
        "a", WINDOW, days(lambda n: 0.9, lambda n: 0.5 + n / 50, lambda n: 100.0 + n), []
    )
    assert told.trends == feedback.Trends("stable", "improving", "degrading")
    assert told.quality_change == pytest.approx(0.2)
    assert told.time_range == {"since": WINDOW[0], "until": WINDOW[1]}


def test_needs_and_strengths_are_what_is_surely_so() -> None:
    areas = [
        Area("weak", (10, 50), (12, 50)),
        Area("strong", (50, 50), (49, 50)),
        Area("few", (0, 4), (0, 4)),
        Area("between", (38, 50), (37, 50)),
        Area("risen", (20, 50), (45, 50)),
    ]
    told = feedback.feedback("a", WINDOW, [], areas)
    assert [one["area"] for one in told.training_needs] == ["weak"]
    assert [one["area"] for one in told.strength_areas] == ["strong"]
    assert [(one["area"], one["change"]) for one in told.capability_changes] == [("risen", 0.5)]


def test_it_is_worked_out_from_rows_and_outages_count_for_nothing(root: Path) -> None:
    now, lines = datetime.now(UTC), []
    for number in range(24):
        ts = (now - timedelta(days=24 - number)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        run = {"run_id": f"r{number}", "ts": ts, "task_type": "news"}
        lines.append(encode(event(event_id=f"a{number}", success=number > 12, **run)).strip())
        lines.append(encode(event(event_id=f"o{number}", error="x", error_kind="provider", **run)).strip())
        gates = [{"name": "format", "passed": True, "score": 1.0, "threshold": 1.0, "mandatory": True}]
        graded = {"kind": "evaluation", "source": "eval", "score": 0.5, "ok": False, "gates": gates}
        lines.append(encode(event(event_id=f"e{number}", **run, **graded)).strip())
        other = graded | {"source": "ab_test", "score": 1.0, "ok": True}
        lines.append(encode(event(event_id=f"b{number}", **run, **other)).strip())
    write(*lines)
    assert feedback.main(["--quiet"]) == cli.OK
    (told,) = json.loads((root / FEEDBACK).read_text())["agents"]
    assert (told["runs"], told["quality_score"]) == (24, 0.5)
    assert told["trends"]["success_rate_trend"] == "improving"
    assert [one["area"] for one in told["training_needs"]] == ["news"]
    assert [one["area"] for one in told["strength_areas"]] == ["news/format"]


def checks(repo: Repo) -> dict[str, health.Check]:
    return {check.name: check for check in health.health(repo).checks}


def test_a_night_of_the_engine_is_tracked_valid_and_private(toy: Path) -> None:
    assert orchestrator.main(["--quiet"]) == cli.OK
    harness.main(["--quiet", "--agent", "meta_agent", "--max-calls", "4"])
    found = checks(Repo(toy))
    assert {name: check.value for name, check in found.items() if name not in ("task_types", "agents")} == {
        "readable": 1.0,
        "tracked": 1.0,
        "schema_failures": 0.0,
        "privacy_violations": 0,
    }
    assert not found["task_types"].ok and "only " in found["task_types"].why


def test_what_is_missed_is_named_and_is_exit_code_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world.manifest(root, [world.prompted("silent")])
    ts = logger.utc_now()
    bad = event(event_id="1", ts=ts, schema_version=2, task_type="a", success=True)
    write(encode(bad).strip(), b"torn", encode(event(event_id="2", ts=ts) | {"error": None}).strip())
    with (root / "telemetry/texts.jsonl").open("wb") as texts:
        said = "key sk-abcdefghijklmnopqrstuvwx"
        texts.write(json.dumps({"sha256": "0" * 64, "ts": ts, "text": said}).encode() + b"\n")
    assert health.main([]) == cli.FOUND
    shown = capsys.readouterr().out
    for said in (
        "1 lines are malformed",
        "1 of 2 runs lack",
        "did not run: silent",
        "only a",
        "schema_version",
        "1 rows or texts hold a secret",
    ):
        assert said in shown


def test_a_log_of_long_lines_is_looked_at_in_little_memory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEMETRY_MEMORY", "150MB")
    ts, odd = logger.utc_now(), {"schema_version": 2}
    words = {f"note_{number}": "said by a model " * 5 for number in range(12)}
    rows = (event(ts=ts, **words, **(odd if number % 2 else {})) for number in range(15_000))
    write(*(encode(row).strip() for row in rows))
    found = checks(Repo(root))
    assert found["readable"].value == 1
    assert found["schema_failures"].value == pytest.approx(0.5, abs=0.03)  # of those that were drawn


def test_sealed_rows_are_looked_at_as_live_ones_are(root: Path) -> None:
    now = datetime.now(UTC)
    days = [f"{now - timedelta(days=age):%Y-%m-%d}T12:00:00.000Z" for age in (9, 2)]
    write(*(encode(event(ts=ts, schema_version=number)).strip() for number, ts in enumerate(days, 1)))
    retention.seal(Repo(root), now.date())
    assert checks(Repo(root))["schema_failures"].value == 1  # the older one is of another week


def test_batches_are_counted(root: Path) -> None:
    world.manifest(root, [])
    for name in ("sft-20261101-0123456789ab", "sft-20261102-0123456789ab"):
        world.put(root, f"telemetry/exports/{name}/manifest.json", {})
    world.put(root, "telemetry/exports/sft-20261101-0123456789ab/consumed.json", {})
    found = health.health(Repo(root))
    assert (found.batches_exported, found.batches_consumed, found.avg_quality_increase) == (2, 1, None)


@pytest.mark.parametrize(
    "broken", ["[[1], [2]]", "agents: 5", "agents: [5]\ndefaults: [1]", "agents: {", "'"]
)
def test_a_broken_manifest_is_named_or_names_nobody(
    broken: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(*(json.dumps(event(agent="watcher")).encode() for _ in range(2)))
    world.put(root, "agents/manifest.yaml", broken)
    assert health.main(["--quiet"]) in (cli.FOUND, cli.BAD_INPUT)
    said = capsys.readouterr().err
    assert said.startswith("error: agents/manifest.yaml: ") or "[5]" in broken
