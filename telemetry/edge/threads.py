"""Runs blocking code on the side, in a daemon thread that cannot hold up the exit.

`asyncio.to_thread` and thread pools are joined when the interpreter ends: one hung call would hang the program.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start(work: Callable[[], T], name: str = "source") -> Future[T]:
    """Run `work` in its own daemon thread, in a copy of the caller's context (telemetry finds its run there)."""
    future: Future[T] = Future()
    context = contextvars.copy_context()
    future.set_running_or_notify_cancel()  # it cannot be stopped; who gives up on it drops the result

    def body() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as problem:  # noqa: BLE001 - handed to whoever waits, whatever it is
            future.set_exception(problem)

    threading.Thread(target=body, name=name, daemon=True).start()
    return future
