"""Rows of other programs: read as they are where they are appended, taken once where they are imported."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from telemetry import logger, plots, retention, rollup, summarize, sync
from telemetry.edge import cli
from telemetry.edge.files import here
from telemetry.read import field, rows, store
from tests.worlds.eventlog import event

ZONES = {
    "2026-10-01T12:00:00.250000+00:00": "2026-10-01T12:00:00.250Z",
    "2026-10-01T14:00:00+02:00": "2026-10-01T12:00:00.000Z",
    "2026-10-01 07:00:00.123456-0500": "2026-10-01T12:00:00.123Z",
    "2026-10-02T01:30+13": "2026-10-01T12:30:00.000Z",
    "2026-10-01T12:00:00Z": "2026-10-01T12:00:00Z",
}


def foreign(number: int = 0, **fields: Any) -> dict[str, Any]:
    """A row as the first version of these logs had it."""
    row: dict[str, Any] = {
        "ts": f"2026-10-{number % 20 + 1:02}T08:15:{number % 60:02}.5+02:00",
        "agent": "triage",
        "run_id": f"run-{number}",
        "latency_ms": 120.0 + number,
        "cost_usd": 0.001,
        "tokens_in": 10,
        "tokens_out": 5,
        "error": None,
        "reward": 0.25,
    }
    return row | fields


def put(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def log(root: Path, *lines: object) -> None:
    put(root / logger.LOG_PATH, *lines)


def seen() -> list[tuple[Any, ...]]:
    with store.connect(here()) as con:
        columns = "event_id, ts, kind, source, agent, error_kind, reward, latency_ms"
        return con.execute(f"select {columns} from events order by ts, event_id").fetchall()


@pytest.mark.parametrize(("said", "meant"), ZONES.items())
def test_a_moment_of_any_zone_is_the_same_moment_for_every_reader(root: Path, said: str, meant: str) -> None:
    line = foreign(ts=said)
    log(root, line)
    parsed = rows.parse(json.dumps(line).encode())
    assert parsed is not None and parsed["ts"] == meant
    [(event_id, ts, kind, source, *_)] = seen()
    assert f"{ts.isoformat(timespec='milliseconds')}Z" == meant.replace(":00Z", ":00.000Z")
    assert (event_id, kind, source) == (parsed["event_id"], "run", "runtime")


@pytest.mark.parametrize(
    "ts", ["2026-10-01T12:00:00", "20261001T120000Z", "2026-10-01", "2026-02-30T12:00:00+00:00"]
)
def test_a_moment_without_zone_or_sense_stays_malformed(root: Path, ts: str) -> None:
    log(root, foreign(ts=ts))
    assert seen() == [] and rows.parse(json.dumps(foreign(ts=ts)).encode()) is None
    assert rollup.rollup()["malformed_lines"] == 1


def test_every_reader_counts_what_another_program_appends(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log(
        root,
        event(agent="ours"),
        *(foreign(number) for number in range(30)),
        foreign(31, error="boom", reward=None),
    )
    summary = rollup.rollup(last_n=0)
    found = summary["by_agent"]["triage"]
    assert (found["count"], summary["malformed_lines"]) == (31, 0)
    assert found["errors_by_kind"] == {"agent": 1} and found["rewarded_days"] == 20
    assert rollup.rollup(last_n=10)["count"] == 10
    with store.connect(here()) as con:
        days = field.lately(field.by_agent(field.load(con, logger.FIELD))["triage"])
    assert days.runs == 31  # what retirement looks at
    assert summarize.main([]) == cli.OK and "triage" in capsys.readouterr().out
    assert plots.main(["--quiet"]) == cli.OK


def test_sealing_moves_them_like_any_other_and_changes_nothing(root: Path) -> None:
    log(root, *(foreign(number) for number in range(5)), foreign(6, error="boom"), event())
    before = seen()
    assert sum(retention.seal(here(), date(2026, 11, 1)).rows_by_day.values()) == 7
    assert seen() == before and (root / logger.LOG_PATH).read_bytes() == b""


def test_an_import_is_taken_once_however_often_it_is_run(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twins = [
        foreign(1, latency_ms=1.0),
        foreign(1, latency_ms=2.0),
    ]  # one run by its name, two by what they say
    file = put(root / "old.jsonl", *twins, foreign(2), {"agent": "nobody"}, "not JSON", "")
    assert sync.main(["import", str(file)]) == cli.FOUND
    assert capsys.readouterr().out.strip() == (
        "3 rows taken, 0 were here already. 2 lines are no rows, the first is line 4."
    )
    put(file, *reversed(twins), dict(reversed(foreign(2).items())), foreign(3))  # other order, one more
    assert sync.main(["import", str(file), "--json"]) == cli.OK
    assert json.loads(capsys.readouterr().out) == {"action": "import", "rows": 1, "known": 3, "malformed": []}
    retention.seal(here(), date(2026, 11, 1))
    assert sync.main(["import", str(file), "--quiet"]) == cli.OK
    assert len(seen()) == 4


def test_what_another_program_appended_is_not_imported_beside_it(root: Path) -> None:
    log(root, foreign(1))
    assert sync.take(here(), put(root / "old.jsonl", foreign(1), foreign(2))) == sync.Taken(1, 1, ())
    retention.seal(here(), date(2026, 11, 1))
    assert sync.take(here(), put(root / "old.jsonl", foreign(1), foreign(2))) == sync.Taken(0, 2, ())


def test_an_imported_secret_is_redacted(root: Path) -> None:
    sync.take(
        here(), put(root / "old.jsonl", foreign(1, error="refused: sk-proj-abcdefghijklmnopqrstuvwxyz123456"))
    )
    assert "abcdefghijklmnop" not in (root / logger.LOG_PATH).read_text()


@pytest.mark.parametrize("argv", [["import"], ["pull", "x.jsonl"], ["import", "nowhere.jsonl"]])
def test_a_file_that_is_missing_or_not_wanted_is_told(
    argv: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sync.main(argv) == cli.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
