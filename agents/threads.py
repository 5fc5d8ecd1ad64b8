"""How does blocking code run beside the event loop without being able to hold up the exit? In a daemon thread.

`asyncio.to_thread` and thread pools are joined when the interpreter ends, so one hung call would hang the program.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start(fn: Callable[[], T], name: str = "ratchet") -> Future[T]:
    """Run `fn` in its own daemon thread, in a copy of the caller's context (telemetry finds its run there)."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def body() -> None:
        try:
            result = context.run(fn)
        except BaseException as problem:  # noqa: BLE001 - handed to whoever waits
            if not future.cancelled():
                future.set_exception(problem)
        else:
            if not future.cancelled():
                future.set_result(result)

    threading.Thread(target=body, name=name, daemon=True).start()
    return future


async def run(fn: Callable[[], T], name: str = "ratchet") -> T:
    """Await `fn` running in a daemon thread; cancelled, it is left behind and its result dropped."""
    return await asyncio.wrap_future(start(fn, name))
