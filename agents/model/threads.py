"""Work in daemon threads: what hangs there keeps neither the event loop nor the exit waiting."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], Any]) -> Any:
    """Run `work` in a daemon thread: one that hangs cannot keep the event loop, or the exit, waiting."""
    return await asyncio.wrap_future(start(work, "agent"))


def start(work: Callable[[], T], name: str = "source") -> Future[T]:
    """Run `work` in its own daemon thread, in a copy of the caller's context (telemetry finds its run there).

    `asyncio.to_thread` and thread pools are joined when the interpreter ends: one hung call would hang the program.
    """
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
