"""Work by all cores: a process that is split off has everything as it is here, and tells what it finds."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from telemetry.edge.errors import Stopped, unwritten

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
Tell = Callable[[Any], None]
_MOST: Final = 4  # processes at most, each with what this one holds in memory
_AT_ONCE: Final = 64  # values told at a time: to wake who listens costs as much as ten of them
_TOLD, _DONE, _MET = "told", "done", "met"
_PR_SET_PDEATHSIG: Final = 1


def cores(most: int = _MOST) -> int:
    """How many processes may work at once; one where none may be split off."""
    return max(1, min(most, _MOST, len(os.sched_getaffinity(0)))) if sys.platform == "linux" else 1


class SplitOff(Generic[T]):
    """A process that does some work: `work(tell)`, where `tell` sends a value here before it is done."""

    def __init__(self, work: Callable[[Tell], T]) -> None:
        import multiprocessing

        split = multiprocessing.get_context("fork")
        self.hearing, telling = split.Pipe(duplex=False)
        self._process = split.Process(target=_work, args=(work, telling, ending_with_us()), daemon=True)
        self._process.start()
        telling.close()
        self._result: T

    def result(self) -> T:
        """What came of it, once it has ended; raises what it met."""
        if not self.hearing.closed:
            for _ in heard([self]):
                pass
        return self._result

    def next(self) -> Iterator[Any]:
        """The next values that it tells; none if it has ended."""
        try:
            kind, value, lost = self.hearing.recv()
        except EOFError:
            raise Stopped("a process that did a share of the work was ended") from None
        if kind == _TOLD:
            yield from value
            return
        self.hearing.close()
        if lost:  # what found no room there is missing here
            unwritten.count, unwritten.last = unwritten.count + lost[0], lost[1]
        if kind == _MET:
            raise value
        self._result = value

    def end(self) -> None:
        """Leave nothing of it behind, wherever it is."""
        self._process.kill()
        self._process.join()


@contextmanager
def split_off(works: Sequence[Callable[[Tell], T]]) -> Iterator[list[SplitOff[T]]]:
    """A process for each work; all of them end with the block."""
    begun: list[SplitOff[T]] = []
    try:
        for work in works:
            begun.append(SplitOff(work))
        yield begun
    finally:
        for one in begun:
            one.end()


def heard(processes: Sequence[SplitOff[Any]]) -> Iterator[Any]:
    """What processes tell, as it comes, until the last has ended; raises what one of them met."""
    from multiprocessing.connection import wait

    listening = {one.hearing: one for one in processes}
    while listening:
        for ready in wait(list(listening)):
            one = listening[ready]  # type: ignore[index]  # of Connections, as it was given
            yield from one.next()
            if one.hearing.closed:
                del listening[one.hearing]


def ending_with_us() -> Callable[[], None]:
    """What a process that is started here does first, so that it goes when we are killed: nobody is left to end it."""
    import ctypes

    prctl, us = getattr(ctypes.CDLL(None), "prctl", None), os.getpid()

    def first() -> None:
        if prctl is not None:  # on Linux
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != us:
                os._exit(1)

    return first


def _work(work: Callable[[Tell], Any], telling: Connection, first: Callable[[], None]) -> None:
    """What such a process does."""
    first()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever split it off is interrupted too, and ends it
    before, told = unwritten.count, list[Any]()

    def tell(value: Any) -> None:
        told.append(value)
        if len(told) >= _AT_ONCE:
            send()

    def send() -> None:
        if told:
            telling.send((_TOLD, told, None))
            told.clear()

    kind, value = _DONE, None
    try:
        value = work(tell)
    except Exception as problem:  # noqa: BLE001 - for whoever waits
        problem.add_note(traceback.format_exc())
        kind, value = _MET, problem
        try:
            pickle.loads(pickle.dumps(problem))
        except Exception:  # noqa: BLE001 - one that does not survive the way
            value = RuntimeError("".join(problem.__notes__))
    lost = unwritten.count - before
    send()
    telling.send((kind, value, (lost, unwritten.last) if lost else None))
