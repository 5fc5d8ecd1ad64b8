"""A seal moves finished days to Parquet: nothing lost, nothing twice, whatever happens meanwhile."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from telemetry import logger, retention
from telemetry.edge import cli
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import here, working_in
from telemetry.read import parquet, store
from telemetry.tiers import stage
from tests.worlds.eventlog import event, events, line, log_path, write, write_events

TODAY = date(2026, 10, 3)
STEPS = (
    *(
        "staging made",
        "lines split",
        "parquet of 2026-10-01",
        "parquet of 2026-10-02",
        "commit written",
        "locked",
    ),
    *("new lines added", "log renamed", "placed first", "placed second", "commit removed", "staging removed"),
)


class Crash(BaseException):
    """Ends a seal on the spot; no `except Exception` may soften it."""


def stop_at(wanted: str) -> Any:
    placed = iter(("placed first", "placed second"))

    def at(step: str) -> None:
        name = next(placed) if step.startswith("placed") else step
        if name == wanted:
            raise Crash

    return at


def ids() -> list[str]:
    with store.connect(here()) as con:
        return [found for (found,) in con.execute("select event_id from events order by event_id").fetchall()]


def sealed_files(root: Path) -> list[str]:
    return sorted(path.parent.name for path in (root / store.SEALED).glob("dt=*/*.parquet"))


def mixed_log() -> list[str]:
    """Three days out of order, malformed lines between; the ids of its events."""
    rows = list(events(90, days=3))
    rows[10], rows[80] = rows[80], rows[10]
    lines = [json.dumps(row).encode() for row in rows]
    write(b"\x00garbage", *lines[:40], b"", line(latency_ms="fast"), *lines[40:])
    return sorted(row["event_id"] for row in rows)


def test_a_day_that_is_written_while_others_are_read_may_still_get_rows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "BATCH", 1)
    monkeypatch.setattr(stage, "QUIET", 2_000)
    second = [line(event_id=f"b{n}", ts="2026-10-02T12:00:00.000Z") for n in range(9)]
    write(line(event_id="a1"), *second, line(event_id="a1"), line(event_id="a2"), *second[:1])
    done = retention.seal(here(), TODAY)
    assert sealed_files(root) == ["dt=2026-10-01", "dt=2026-10-01", "dt=2026-10-02"]
    assert done.rows_by_day == {"2026-10-01": 3, "2026-10-02": 9}
    assert ids() == ["a1", "a2", *(f"b{n}" for n in range(9))]


def test_a_large_log_is_sealed_in_shares_as_if_by_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = mixed_log()
    lines = log_path().read_bytes().splitlines(keepends=True)
    monkeypatch.setattr(stage, "SHARE", 2_000)
    monkeypatch.setattr(stage.os, "sched_getaffinity", lambda pid: range(3), raising=False)
    with log_path().open("rb") as log:
        assert len(stage._shares(log, log_path().stat().st_size)) == 3
    done = retention.seal(here(), TODAY)
    assert done.rows_by_day == {"2026-10-01": 30, "2026-10-02": 30}
    assert ids() == expected
    staying = [one for one in lines if b"2026-10-0" not in one or b"2026-10-03T" in one or b"fast" in one]
    assert log_path().read_bytes().splitlines(keepends=True) == staying
    assert not list(root.rglob("staging"))


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Stopped("it is broken"), "it is broken"),
        (BadInput("no such size"), "no such size"),
        (None, "was ended"),
    ],
)
def test_a_share_that_fails_leaves_the_log_untouched_and_says_so_once(
    problem: Exception | None, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    expected, parent, real = mixed_log(), os.getpid(), parquet.row

    def row(*found: Any) -> bytes | None:
        if os.getpid() == parent:
            return real(*found)
        if problem is None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise problem

    monkeypatch.setattr(stage, "SHARE", 2_000)
    monkeypatch.setattr(stage.os, "sched_getaffinity", lambda pid: range(2), raising=False)
    monkeypatch.setattr(parquet, "row", row)
    before = log_path().read_bytes()
    with pytest.raises((Stopped, BadInput), match=said):
        retention.seal(here(), TODAY)
    assert log_path().read_bytes() == before and not capfd.readouterr().err
    monkeypatch.undo()
    assert ids() == expected


def test_finished_days_move_and_today_stays(root: Path) -> None:
    expected = mixed_log()
    done = retention.seal(here(), TODAY)
    assert done.rows_by_day == {"2026-10-01": 30, "2026-10-02": 30}
    assert sealed_files(root) == ["dt=2026-10-01", "dt=2026-10-02"]
    assert ids() == expected
    kept = log_path().read_bytes().splitlines()
    assert sum(b"2026-10-03T" in each for each in kept) == 30
    assert b"\x00garbage" in kept
    assert any(b'"latency_ms":"fast"' in each for each in kept)


def test_sealing_twice_seals_nothing_twice(root: Path) -> None:
    expected = mixed_log()
    retention.seal(here(), TODAY)
    assert retention.seal(here(), TODAY).rows_by_day == {}
    assert len(sealed_files(root)) == 2
    assert ids() == expected


def test_a_late_line_of_a_sealed_day_is_sealed_beside_it(root: Path) -> None:
    write(line(event_id="early"))
    retention.seal(here(), TODAY)
    with log_path().open("ab") as log:
        log.write(line(event_id="late") + b"\n")
    retention.seal(here(), TODAY)
    assert sealed_files(root) == ["dt=2026-10-01"] * 2
    assert ids() == ["early", "late"]


@pytest.mark.parametrize("step", STEPS)
def test_a_seal_interrupted_at_any_step_loses_and_doubles_nothing(step: str, root: Path) -> None:
    expected = mixed_log()
    malformed = 2
    with pytest.raises(Crash):
        retention.seal(here(), TODAY, at=stop_at(step))
    assert ids() == expected, "as seen by a reader before anyone recovers"
    with log_path().open("ab") as log:
        log.write(line(event_id="zz-after", ts="2026-10-03T23:00:00.000Z") + b"\n")
    expected = [*expected, "zz-after"]
    assert ids() == expected
    retention.seal(here(), TODAY)
    assert ids() == expected
    assert sealed_files(root) == ["dt=2026-10-01", "dt=2026-10-02"]
    assert not (root / store.STAGING).exists()
    with store.connect(here()) as con:
        assert con.execute("select count(*) from lines where malformed").fetchone() == (malformed,)


@pytest.mark.parametrize(
    "step", ["lines split", "commit written", "new lines added", "log renamed", "placed first"]
)
def test_a_sealer_killed_at_a_step_is_recovered_from(step: str, root: Path) -> None:
    expected = mixed_log()
    program = (
        "import os, signal, sys; from datetime import date; from pathlib import Path\n"
        "from telemetry import retention\nfrom telemetry.edge.files import here, working_in\n"
        "def at(step):\n"
        f"    if step.startswith({step.split(' first')[0]!r}): os.kill(os.getpid(), signal.SIGKILL)\n"
        "with working_in(Path(sys.argv[1])): retention.seal(here(), date(2026, 10, 3), at=at)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(root)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert ids() == expected
    retention.seal(here(), TODAY)
    assert ids() == expected
    assert sealed_files(root) == ["dt=2026-10-01", "dt=2026-10-02"]


def test_a_recovery_that_is_interrupted_in_turn_is_recovered_from(root: Path) -> None:
    expected = mixed_log()
    for step in ("commit written", "log renamed", "placed first", "commit removed"):
        with pytest.raises(Crash):
            retention.seal(here(), TODAY, at=stop_at(step))
        assert ids() == expected
    retention.seal(here(), TODAY)
    assert ids() == expected
    assert sealed_files(root) == ["dt=2026-10-01", "dt=2026-10-02"]


def test_a_wrong_row_count_leaves_the_log_untouched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = mixed_log()
    before = log_path().read_bytes()
    monkeypatch.setattr(parquet, "row", lambda *found: b"")
    with pytest.raises(Stopped, match="the log is untouched"):
        retention.seal(here(), TODAY)
    assert log_path().read_bytes() == before
    monkeypatch.undo()
    with working_in(root):
        assert ids() == expected


def test_lines_that_parquet_would_change_stay_in_the_log() -> None:
    odd = [
        line(event_id="a", agent=5),
        line(event_id="b", tokens_in=3.7),
        line(event_id="b2", signal_strength="strong"),
        json.dumps(event(event_id="c", tokens_in=2**70)).encode(),
    ]
    write(*odd, line(event_id="d"))
    assert sum(retention.seal(here(), TODAY).rows_by_day.values()) == 1
    assert log_path().read_bytes().splitlines() == odd
    assert ids() == ["a", "b", "b2", "c", "d"]


def test_a_torn_tail_stays_for_the_next_writer_to_close_off() -> None:
    write(line(event_id="a"), line()[:30], end=b"")
    retention.seal(here(), TODAY)
    assert log_path().read_bytes() == line()[:30]
    logger.log_event("reviewer", "r", 1.0)
    assert log_path().read_bytes().count(b"\n") == 2


def test_every_field_comes_back_from_parquet() -> None:
    original = event(
        mood="calm", nested={"a": [1, None]}, raw_output="ß\n" * 10, error="x", error_kind="agent"
    )
    write(json.dumps(original).encode())
    retention.seal(here(), TODAY)
    [row] = parquet.events(store.snapshot(here()).sealed)
    assert {name: value for name, value in row.items() if name in original} == original


def test_the_log_keeps_its_permissions() -> None:
    mixed_log()
    log_path().chmod(0o640)
    retention.seal(here(), TODAY)
    assert log_path().stat().st_mode & 0o777 == 0o640


def test_a_second_sealer_gives_way(capsys: pytest.CaptureFixture[str]) -> None:
    mixed_log()
    inside: list[int] = []

    def at(step: str) -> None:
        if step == "lines split":
            inside.append(retention.main(["seal"]))

    retention.seal(here(), TODAY, at=at)
    assert inside == [cli.STOPPED]
    assert "another seal is at work in this checkout (process" in capsys.readouterr().err


def test_a_log_replaced_during_the_seal_is_left_alone(root: Path) -> None:
    mixed_log()

    def at(step: str) -> None:
        if step == "commit written":
            (root / "other").write_bytes(line(event_id="other") + b"\n")
            (root / "other").rename(log_path())

    with pytest.raises(Stopped, match="replaced by someone else"):
        retention.seal(here(), TODAY, at=at)
    assert log_path().read_bytes() == line(event_id="other") + b"\n"


def test_the_script_seals_up_to_yesterday(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC)
    stamps = [f"{now - timedelta(days=back):%Y-%m-%dT%H:%M:%S}.000Z" for back in (2, 1, 0)]
    write(*(line(event_id=stamp, ts=stamp) for stamp in stamps))
    assert retention.main(["seal", "--json"]) == cli.OK
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert retention.main(["seal"]) == cli.OK
    assert "No finished day" in capsys.readouterr().out


def test_without_a_log_there_is_nothing_to_seal() -> None:
    assert retention.seal(here(), TODAY).rows_by_day == {}


def _append_events(root: Path, writer: int, count: int) -> None:
    with working_in(root):
        for number in range(count):
            stamp = "2026-10-01T10:00:00.000Z" if number % 3 else "2026-10-03T10:00:00.000Z"
            logger.append(line(event_id=f"{writer}-{number:05d}", ts=stamp) + b"\n")


def test_writers_append_through_seals_and_readers_see_each_row_once(root: Path) -> None:
    write()
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append_events, args=(root, n, 3000)) for n in range(2)]
    for writer in writers:
        writer.start()
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        last = 0
        while not done.is_set():
            found = ids()
            if len(found) != len(set(found)) or len(found) < last:
                problems.append(f"{len(found)} rows, {len(set(found))} different, {last} before")
            last = len(found)

    reader = threading.Thread(target=read)
    reader.start()
    seals = 0
    while any(writer.is_alive() for writer in writers):
        seals += bool(retention.seal(here(), TODAY).rows_by_day)
    done.set()
    reader.join()
    retention.seal(here(), TODAY)
    assert problems == []
    assert seals >= 1
    assert ids() == sorted(f"{n}-{number:05d}" for n in range(2) for number in range(3000))


def test_a_seal_needs_no_more_than_a_few_bytes_an_event(root: Path) -> None:
    write_events(5000, days=1)
    done = retention.seal(here(), TODAY)
    assert done.bytes_sealed == sum(path.stat().st_size for path in (root / store.SEALED).rglob("*.parquet"))
    assert done.bytes_sealed / 5000 <= 70
