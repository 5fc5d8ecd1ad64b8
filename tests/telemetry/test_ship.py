"""Sealed days in a real PostgreSQL: each row once, the same figures as here, whatever is killed when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import orjson
import pytest

from agents.run.order import BEFORE, FIGURES_SQL, RECENT
from telemetry import retention, rollup, ship
from telemetry.edge import cli
from telemetry.edge.files import Repo, here
from telemetry.read.rows import Window
from telemetry.read.store import connect
from tests.worlds import eventlog, postgres, routed

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = [
    pytest.mark.skipif(postgres.binaries() is None, reason="no PostgreSQL server on this machine"),
    pytest.mark.outside,  # it listens on a socket of the file system
]


@pytest.fixture(scope="module")
def running() -> Iterator[postgres.Server]:
    with postgres.server() as one:
        yield one


@pytest.fixture
def server(running: postgres.Server, monkeypatch: pytest.MonkeyPatch) -> postgres.Server:
    """The server, empty, and named by the environment."""
    if running.process is None:
        running.start()
    with psycopg.connect(running.dsn, autocommit=True) as con:
        con.execute("drop schema public cascade")
        con.execute("create schema public")
    monkeypatch.setenv(ship.DSN, running.dsn)
    return running


def asked(server: postgres.Server, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn) as con:
        return con.execute(sql).fetchall()


def sealed(*lines: bytes) -> Repo:
    """These lines as sealed days."""
    eventlog.write(*lines)
    retention.seal(here(), date(2099, 1, 1))
    return here()


def some(count: int = 300, days: float = 3) -> Repo:
    return sealed(*(orjson.dumps(row) for row in eventlog.events(count, days)))


def test_every_row_arrives_once_in_partitions_by_day(server: postgres.Server) -> None:
    repo = some()
    assert ship.ship(repo, server.dsn) == ship.Shipped(3, 300, 0)
    assert ship.ship(repo, server.dsn) == ship.Shipped(0, 0, 0), "again: nothing"
    assert asked(server, "select count(*), count(distinct event_id) from events") == [(300, 300)]
    parts = asked(server, "select relname from pg_class where relname ~ '^events_[0-9]+$' order by 1")
    assert parts == [("events_20261001",), ("events_20261002",), ("events_20261003",)]


def test_rows_that_come_in_another_file_are_not_taken_twice(server: postgres.Server) -> None:
    ship.ship(some(), server.dsn)
    with psycopg.connect(server.dsn, autocommit=True) as con:
        con.execute("truncate shipped")
    assert ship.ship(here(), server.dsn) == ship.Shipped(3, 0, 300)


def test_the_sql_of_the_readers_gives_the_same_figures_there(server: postgres.Server) -> None:
    ship.ship(some(2000, 5), server.dsn)
    sql = FIGURES_SQL.format(recent=RECENT, before=BEFORE, foreign="'timeout'") + " order by 1, 2"
    with connect(here(), Window()) as con:
        ours = con.execute(sql).fetchall()
    theirs = asked(server, sql)
    assert len(ours) == len(theirs) == 10
    for mine, other in zip(ours, theirs, strict=True):
        assert [float(one) if isinstance(one, (int, float)) else one for one in mine[2:]] == pytest.approx(
            [float(one) for one in other[2:]],  # type: ignore[arg-type]
            rel=1e-9,
        )
        assert mine[:2] == other[:2]


def test_what_rows_hold_arrives_as_it_was(server: postgres.Server) -> None:
    odd = 'quote " comma, line\nfeed, tab\t, \\N, ü, \U0001f600'
    line = eventlog.line(
        event_id="odd", error=odd, error_kind="agent", signals="", model=None, note={"a": [1, odd]}
    )
    ship.ship(sealed(line, eventlog.line(event_id="nul", error="a\x00b", error_kind="agent")), server.dsn)
    [row] = asked(
        server,
        "select error, signals, model, extra -> 'note' -> 'a' ->> 1 from events where event_id = 'odd'",
    )
    assert row == (odd, "", None, odd)
    assert asked(server, "select error from events where event_id = 'nul'") == [("a\ufffdb",)]


def test_the_views_tell_of_choices_runs_agents_and_days(server: postgres.Server) -> None:
    done = routed.played(routed.some_world(1, types=2, agents=3), 40, seed=1)
    ship.ship(sealed(*map(orjson.dumps, routed.as_rows(done))), server.dsn)
    choices = asked(server, "select selected_agent_id, propensity from routing_decisions order by event_id")
    assert choices == [(one.selected_agent_id, one.propensity) for _, one, _ in done]
    assert asked(server, "select count(*), sum(runs) from execution_metrics, (select 1 as runs) x") == [
        (40, 40)
    ]
    assert asked(server, "select sum(runs) from agent_profiles") == [(40,)]
    assert asked(server, "select sum(runs), count(distinct day) from agent_stats_daily") == [(40, 1)]


def test_a_server_killed_in_mid_load_costs_nothing_and_brings_nothing_twice(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some(3000, 6)
    real, seen = ship._as_csv, []

    def killing(path: Path, target: Path) -> int:
        seen.append(path)
        if len(seen) == 4:
            server.kill()
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(ship, "_as_csv", killing)
        assert ship.main([]) == cli.STOPPED
    assert "6 sealed files wait here" in capsys.readouterr().err
    server.start()
    assert asked(server, "select count(*) from events") == [(1500,)]
    assert ship.main([]) == cli.OK
    assert asked(server, "select count(*), count(distinct event_id) from events") == [(3000, 3000)]


def test_while_the_server_is_away_the_days_wait_here(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some()
    monkeypatch.setenv(ship.DSN, f"host={root} user=nobody")
    assert ship.main([]) == cli.STOPPED
    assert "3 sealed files wait here until it is back" in capsys.readouterr().err


def test_no_address_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert ship.main([]) == cli.BAD_INPUT
    assert "TELEMETRY_DSN: must say where to" in capsys.readouterr().err


def test_old_days_leave_the_database_and_what_they_came_to_stays(server: postgres.Server) -> None:
    from telemetry.tiers import database
    from telemetry.tiers.ages import Ages

    repo = some()
    ship.ship(repo, server.dsn)
    figures = "select agent, day, runs, round(cost_usd::numeric, 9) from agent_stats_daily order by 1, 2"
    before, today = asked(server, figures), date(2026, 10, 3) + timedelta(days=91)
    assert database.thin(server.dsn, Ages(), today, dry_run=True) == {"days_to_cold": 3, "gone": 0}
    assert database.thin(server.dsn, Ages(), today) == {"days_to_cold": 3, "gone": 0}
    assert asked(server, "select count(*) from events") == [(0,)] and asked(server, figures) == before
    assert ship.ship(repo, server.dsn) == ship.Shipped(0, 0, 0), "and nobody brings them back"
    database.thin(server.dsn, Ages(), today + timedelta(days=700))
    assert asked(server, figures) == []


@pytest.mark.parametrize("last_n", [0, 700])
def test_a_summary_of_the_server_says_what_one_of_the_files_says(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch, last_n: int
) -> None:
    said = {"signals": 'a "b", c\n', "as_of": "2026-09-30"}
    rows = [
        row | (said if at % 3 else {"input_hash": f"{at % 50:012}"})
        for at, row in enumerate(eventlog.events(2000, 5))
    ]
    repo = sealed(*map(orjson.dumps, rows))
    ship.ship(repo, server.dsn)
    window = Window(last_n, kind="run")
    theirs = rollup.summary_of(repo, window)
    monkeypatch.delenv(ship.DSN)
    ours = rollup.summary_of(repo, window)
    assert theirs["count"] == (last_n or 2000) and theirs["by_agent"].keys() == ours["by_agent"].keys()
    assert list(_numbers(theirs)) == pytest.approx(list(_numbers(ours)), rel=1e-9, abs=1e-12)
    assert len(list(_numbers(ours))) > 100 and theirs["latency_percentiles"] == "exact"


def _numbers(value: object) -> Iterator[float]:
    """Every number of a summary, in order."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from _numbers(value[name])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float):
        yield float(value)
