"""Rows can be watched as they are logged."""

from __future__ import annotations

import asyncio
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
