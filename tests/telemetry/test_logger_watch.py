"""Rows can be watched as they are logged, and written together."""

from __future__ import annotations

import asyncio
import contextvars
import json
from pathlib import Path

import pytest

from telemetry import logger
from telemetry.edge.files import here, working_in


@pytest.fixture(autouse=True)
def _own_root(tmp_path: Path) -> object:
    with working_in(tmp_path):
        yield


def _log(agent: str) -> None:
    logger.log_event(agent=agent, run_id="r", latency_ms=1.0)


def test_a_watch_sees_what_is_logged_inside_it_and_the_log_still_gets_it() -> None:
    _log("before")
    with logger.watch() as rows:
        _log("inside")
    _log("after")
    assert [row["agent"] for row in rows] == ["inside"]
    assert len((here() / logger.LOG_PATH).read_text().splitlines()) == 3


def test_two_tasks_at_once_each_see_their_own_rows() -> None:
    async def one(agent: str) -> list[str]:
        with logger.watch() as rows:
            _log(agent)
            await asyncio.sleep(0)
            await asyncio.to_thread(_log, agent)
        return [row["agent"] for row in rows]

    async def both() -> list[list[str]]:
        return await asyncio.gather(one("a"), one("b"))

    assert asyncio.run(both()) == [["a", "a"], ["b", "b"]]


def _logged() -> list[str]:
    file = here() / logger.LOG_PATH
    return [json.loads(line)["agent"] for line in file.read_text().splitlines()] if file.exists() else []


def test_rows_logged_together_are_one_write_at_the_end_also_of_what_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = list[bytes]()
    monkeypatch.setattr(logger, "append", lambda line: writes.append(line))
    with pytest.raises(ZeroDivisionError), logger.together():
        _log("a")
        _log("b")
        assert not writes
        raise ZeroDivisionError
    assert [line.count(b"\n") for line in writes] == [2]
    with logger.together():
        pass
    assert len(writes) == 1


def test_what_a_thread_logs_after_the_block_it_was_started_in_is_not_lost() -> None:
    with logger.together():
        context = contextvars.copy_context()
        context.run(_log, "inside")
    context.run(_log, "late")
    assert _logged() == ["inside", "late"]


def test_rows_that_cannot_be_written_together_are_told_and_raise_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (here() / logger.LOG_PATH).mkdir(parents=True)
    with logger.together():
        _log("unlucky")
        _log("unlucky too")
    said = capsys.readouterr().err
    assert "an event of 'unlucky' was not written" in said and "'unlucky too'" in said
