"""The summary: right figures, held to numpy and to plain Python, and honest about what it does not know."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from datetime import UTC, date, datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from telemetry import logger, retention, rollup
from telemetry.edge import cli
from telemetry.edge.files import SUMMARY, Repo, here, working_in
from telemetry.read import store
from telemetry.read.intervals import t95
from telemetry.read.rows import Window
from tests.worlds.eventlog import line, log_path, write, write_events

ASKED = {
    *(
        "count",
        "error_rate",
        "p50_latency_ms",
        "p95_latency_ms",
        "p99_latency_ms",
        "avg_cost_usd",
        "total_cost_usd",
    ),
    *(
        "unpriced_runs",
        "avg_reward",
        "reward_standard_error",
        "reward_interval_95",
        "errors_by_kind",
        "last_ts",
    ),
}


def test_without_a_log_the_summary_says_so_and_the_script_succeeds(root: Path) -> None:
    assert rollup.main(["--quiet"]) == cli.OK
    summary = json.loads((root / "telemetry/summary.json").read_text())
    assert summary["available"] is False
    assert summary["by_agent"] == {}
    assert summary["malformed_lines"] == 0


def test_the_summary_holds_every_key_that_is_promised() -> None:
    write_events(50)
    summary = rollup.rollup(last_n=20)
    top = {
        "available",
        "generated_at",
        "window_last_n_events",
        "by_source",
        "by_day",
        "malformed_lines",
        "scoring_versions",
    }
    assert top <= summary.keys()
    assert summary["window_last_n_events"] == 20
    assert all(figures.keys() >= ASKED for figures in summary["by_agent"].values())
    assert sum(figures["count"] for figures in summary["by_agent"].values()) == 20


@pytest.mark.parametrize(
    "sealed_before", [None, date(2026, 10, 10), date(2026, 12, 1)], ids=["live", "both", "sealed"]
)
def test_figures_agree_with_numpy_wherever_the_rows_lie(sealed_before: date | None) -> None:
    rows = write_events(3000)
    if sealed_before:
        retention.seal(here(), sealed_before)
    summary = rollup.rollup(last_n=0)
    assert summary["count"] == 3000
    for agent, figures in summary["by_agent"].items():
        own = [row for row in rows if row["agent"] == agent]
        rewards = day_means(own)
        costs = [row["cost_usd"] for row in own if row["cost_usd"] is not None]
        assert figures["count"] == len(own)
        for share in (50, 95, 99):
            expected = np.percentile([row["latency_ms"] for row in own], share)
            assert figures[f"p{share}_latency_ms"] == pytest.approx(expected, rel=1e-12)
        assert figures["error_rate"] == pytest.approx(np.mean([row["error"] is not None for row in own]))
        assert figures["avg_cost_usd"] == pytest.approx(np.mean(costs))
        assert figures["total_cost_usd"] == pytest.approx(np.sum(costs))
        assert figures["unpriced_runs"] == len(own) - len(costs)
        assert figures["avg_reward"] == pytest.approx(rewards.mean())
        assert figures["reward_standard_error"] == pytest.approx(rewards.std(ddof=1) / np.sqrt(len(rewards)))
        assert figures["last_ts"] == max(row["ts"] for row in own)
        assert figures["errors_by_kind"] == dict(Counter(row["error_kind"] for row in own if row["error"]))
    by_day = Counter(row["ts"][:10] for row in rows)
    assert {day: figures["count"] for day, figures in summary["by_day"].items()} == by_day
    by_source = Counter(row["source"] for row in rows)
    assert {name: figures["count"] for name, figures in summary["by_source"].items()} == by_source


def day_means(rows: list[dict[str, Any]]) -> Any:
    """The mean reward of each day in the field; a time-out is no run."""
    days: dict[str, list[float]] = {}
    for row in rows:
        if row["source"] in logger.FIELD and row["error_kind"] not in logger.INFRASTRUCTURE:
            days.setdefault(row["ts"][:10], []).append(row["reward"])
    return np.array([np.mean(own) for own in days.values()])


def test_evals_have_no_reward_and_four_runs_of_a_day_are_one() -> None:
    write(
        line(source="eval", reward=0.9),
        *(line(reward=0.8) for _ in range(3)),
        line(reward=0.0, ts="2026-10-02T00:00:00.000Z"),
        line(agent="reviewer", source="ab_test", reward=0.9),
    )
    summary = rollup.rollup()
    figures = summary["by_agent"]["macro_watcher"]
    assert figures["avg_reward"] == pytest.approx(0.4)
    assert (figures["rewarded_runs"], figures["rewarded_days"]) == (4, 2)
    assert summary["by_agent"]["reviewer"]["avg_reward"] is None
    assert summary["by_source"]["eval"]["avg_reward"] is None


def test_duckdb_interpolates_percentiles_as_numpy_does() -> None:
    values = [3.0, 1.0, 10.0, 2.0]
    write(*(line(latency_ms=value) for value in values))
    with store.connect(here()) as con:
        sql = "select percentile_cont(array[0.5, 0.95]) within group (order by latency_ms) from events"
        found = con.execute(sql).fetchone()
    assert found is not None
    assert found[0] == pytest.approx(np.percentile(values, [50, 95]))


def test_an_unknown_cost_is_not_zero() -> None:
    write(
        line(cost_usd=0.5), line(cost_usd=None, cost_source="unknown"), line(agent="reviewer", cost_usd=None)
    )
    by_agent = rollup.rollup()["by_agent"]
    assert by_agent["macro_watcher"]["avg_cost_usd"] == 0.5
    assert by_agent["macro_watcher"]["unpriced_runs"] == 1
    assert by_agent["reviewer"]["avg_cost_usd"] is None
    assert by_agent["reviewer"]["total_cost_usd"] is None


def test_scoring_versions_are_never_averaged_together() -> None:
    write(
        line(reward=0.9, scoring_version="1.0", ts="2026-10-01T00:00:00.000Z"),
        line(reward=0.1, scoring_version="1.1", ts="2026-10-02T00:00:00.000Z"),
        line(reward=0.3, scoring_version="1.1", ts="2026-10-03T00:00:00.000Z"),
    )
    summary = rollup.rollup()
    assert summary["scoring_versions"] == {"1.0": 1, "1.1": 2}
    assert summary["by_agent"]["macro_watcher"]["avg_reward"] == pytest.approx(0.2)
    assert summary["by_agent"]["macro_watcher"]["scoring_version"] == "1.1"


def test_only_runs_are_counted_as_runs() -> None:
    write(line(), line(kind="llm_call"), line(kind="routing"), line(kind="evaluation"))
    assert rollup.rollup()["count"] == 1


def test_malformed_lines_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write(line(), b"\x00garbage", line(latency_ms="fast"), b"", line())
    assert rollup.main([]) == cli.OK
    assert "2 malformed lines" in capsys.readouterr().out
    assert rollup.rollup(last_n=0)["malformed_lines"] == 2


def test_filters_choose_rows(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        line(source="eval", ts="2026-10-01T00:00:00.000Z"),
        line(source="runtime", ts="2026-10-02T00:00:00.000Z"),
        line(source="runtime", ts="2026-10-03T00:00:00.000Z"),
    )
    assert rollup.main(["--json", "--source", "runtime", "--since", "2026-10-03", "--last-n", "0"]) == cli.OK
    assert json.loads(capsys.readouterr().out)["count"] == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--last-n", "-1"], "whole number"),
        (["--last-n", "many"], "whole number"),
        (["--since", "last week"], "must be a day or time like"),
        (["--since", "9999-12-31T23:59-10:00"], "must be a day or time like"),
        (["--source", "rumour"], "must be one of runtime"),
    ],
)
def test_bad_flags_are_refused_in_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    assert rollup.main(arguments) == cli.BAD_INPUT
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert not (root / SUMMARY).exists()


def test_one_run_has_a_mean_but_no_interval() -> None:
    write(line(reward=0.4))
    figures = rollup.rollup()["by_agent"]["macro_watcher"]
    assert (figures["avg_reward"], figures["reward_standard_error"], figures["reward_interval_95"]) == (
        0.4,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("freedom", "published"),  # NIST/SEMATECH e-Handbook, table 1.3.6.7.2
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (10, 2.228),
        (30, 2.042),
        (100, 1.984),
        (10**6, 1.960),
    ],
)
def test_the_t_quantile_agrees_with_the_published_table(freedom: int, published: float) -> None:
    assert t95(freedom) == pytest.approx(published, abs=0.006)


def _storm(root: Path, rows: int, enough: Event) -> None:
    """Half the rows while somebody reads, and the rest once that was several times."""
    with working_in(root):
        for number in range(rows):
            if number == rows // 2:
                enough.wait(60)
            logger.log_event("macro_watcher", f"run-{number}", 5.0, note="n" * (number % 5000))


def test_a_rollup_while_writers_append_sees_whole_lines_only(root: Path) -> None:
    context = multiprocessing.get_context("spawn")
    enough = context.Event()
    writers = [context.Process(target=_storm, args=(root, 1000, enough)) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen: dict[int, list[dict[str, Any]]] = {0: [], 300: []}
    while any(writer.is_alive() for writer in writers):
        for last_n, summaries in seen.items():
            summaries.append(rollup.rollup(last_n))
        if len(summaries) > 2:
            enough.set()
    for summaries in seen.values():
        assert {summary["malformed_lines"] for summary in summaries} == {0}
        counts = [summary["count"] for summary in summaries]
        assert counts == sorted(counts)
    assert rollup.rollup(0)["count"] == 2000 == log_path().read_bytes().count(b"\n")


def test_a_line_half_written_during_the_scan_is_not_called_malformed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = line(event_id="late") + b"\n"
    write(line())
    log = root / "telemetry/events.jsonl"
    log.write_bytes(log.read_bytes() + whole[:40])
    scan = rollup._scan

    def while_the_writer_goes_on(repo: Repo, window: Window) -> Any:
        found = scan(repo, window)
        if not log.read_bytes().endswith(whole):
            log.write_bytes(log.read_bytes() + whole[40:])
        return found

    monkeypatch.setattr(rollup, "_scan", while_the_writer_goes_on)
    summary = rollup.rollup(0)
    assert (summary["count"], summary["malformed_lines"]) == (2, 0)


def test_generated_at_is_now() -> None:
    before = datetime.now(UTC)
    generated = datetime.fromisoformat(rollup.rollup()["generated_at"])
    assert abs((generated - before).total_seconds()) < 60


@pytest.mark.parametrize(
    ("limit", "code", "told"),
    [
        ("100KB", cli.STOPPED, "stopped early: not enough memory"),
        ("plenty", cli.BAD_INPUT, "error: TELEMETRY_MEMORY=plenty: must be a size like 500MB or 2GB"),
    ],
)
def test_too_little_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: str, code: int, told: str
) -> None:
    write_events(3000)
    retention.seal(here(), date(2026, 12, 1))
    monkeypatch.setenv("TELEMETRY_MEMORY", limit)
    assert rollup.main(["--last-n", "0"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(told)


def test_beyond_some_millions_percentiles_are_a_sketch_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = write_events(3000)
    exact = rollup.rollup(last_n=0)
    monkeypatch.setattr(rollup, "EXACT", 2999)
    sketched = rollup.rollup(last_n=0)
    assert (exact["latency_percentiles"], sketched["latency_percentiles"]) == ("exact", "approximate")
    for agent, figures in sketched["by_agent"].items():
        for share in (50, 95):  # of the few hundred runs here
            name = f"p{share}_latency_ms"
            assert figures[name] == pytest.approx(exact["by_agent"][agent][name], rel=0.1)
    assert sketched["count"] == len(rows)


def test_a_large_log_is_kept_on_disk_while_it_is_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    write_events(3000)
    in_memory = rollup.rollup(last_n=0)
    monkeypatch.setattr(store, "IN_MEMORY", 0)
    on_disk = rollup.rollup(last_n=0)
    assert on_disk["by_agent"].keys() == in_memory["by_agent"].keys()
    for agent, figures in on_disk["by_agent"].items():  # sums of floats depend on the order of rows
        for name in ("count", "error_rate", "total_cost_usd", "avg_reward", "p95_latency_ms"):
            assert figures[name] == pytest.approx(in_memory["by_agent"][agent][name])
