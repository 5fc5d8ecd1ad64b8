"""Processes that are split off: what they tell and meet arrives here, and none of them outlives the block."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.edge.errors import BadInput, Stopped, unwritten
from telemetry.edge.split import Tell, heard, split_off

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are split off on Linux only")


def telling(first: int, many: int) -> Callable[[Tell], int]:
    def work(tell: Tell) -> int:
        for number in range(first, first + many):
            tell(number)
        return first

    return work


def failing(problem: Exception) -> Callable[[Tell], int]:
    def work(tell: Tell) -> int:
        tell("begun")
        raise problem

    return work


@pytest.mark.parametrize("many", [0, 1, 63, 64, 200])
def test_everything_told_is_heard_once_in_the_order_of_each_and_the_result_is_there(many: int) -> None:
    with split_off([telling(0, many), telling(1000, many)]) as parts:
        told = list(heard(parts))
        assert [part.result() for part in parts] == [0, 1000]
    assert [number for number in told if number < 1000] == list(range(many))
    assert [number for number in told if number >= 1000] == list(range(1000, 1000 + many))


def test_what_one_meets_is_raised_here_after_what_it_told_with_where_it_happened() -> None:
    told = []
    work = failing(BadInput("a.yaml: field: must be a word"))
    with pytest.raises(BadInput, match="must be a word") as raised, split_off([work]) as parts:
        for value in heard(parts):
            told.append(value)
    assert told == ["begun"]
    assert "in work" in raised.value.__notes__[0]


def test_an_error_that_no_pipe_takes_is_told_in_words() -> None:
    class Local(Exception):
        pass

    work = failing(Local("nobody can rebuild me"))
    with pytest.raises(RuntimeError, match="nobody can rebuild me"), split_off([work]) as parts:
        parts[0].result()


def test_one_that_is_killed_is_no_result() -> None:
    def work(_tell: Tell) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with split_off([work]) as parts, pytest.raises(Stopped, match="was ended"):
        parts[0].result()


def test_none_outlives_the_block() -> None:
    def work(tell: Tell) -> None:
        for _ in range(64):
            tell(os.getpid())
        time.sleep(60)

    with split_off([work]) as parts:
        process = next(heard(parts))
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


SPLITTING = """
import os, time
from telemetry.edge.split import split_off

def work(tell):
    print(os.getpid(), flush=True)
    time.sleep(60)

with split_off([work]) as parts:
    parts[0].result()
"""


def test_none_outlives_whoever_split_it_off_and_was_killed(repository: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SPLITTING], cwd=repository, stdout=subprocess.PIPE
    ) as victim:
        assert victim.stdout is not None
        left = Path(f"/proc/{int(victim.stdout.readline())}")
        victim.kill()
    given_up = time.monotonic() + 30
    while left.exists() and time.monotonic() < given_up:
        time.sleep(0.01)
    assert not left.exists()


def test_rows_that_found_no_room_there_are_missing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten, "scripts", 1)
    monkeypatch.setattr(unwritten, "count", 0)
    monkeypatch.setattr(unwritten, "last", OSError())

    def work(_tell: Tell) -> bool:
        return unwritten.take(OSError(errno.ENOSPC, "no room", "events.jsonl"))

    with split_off([work, work]) as parts:
        assert all(part.result() for part in parts)
    assert unwritten.count == 2
    assert unwritten.last.errno == errno.ENOSPC
