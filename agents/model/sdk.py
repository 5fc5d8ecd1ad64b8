"""The openai SDK, used leanly: one connection pool per event loop, answers as bytes, none larger than it should be.

`client.post(..., cast_to=httpx2.Response)` is the SDK's own door for responses that it shall not turn into
pydantic objects: authentication, errors and the pool are the SDK's, and a call costs a quarter less CPU.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    import httpx2
    import openai

MAX_RESPONSE_BYTES = 2_000_000  # 128k tokens are about 0.5 MB; more is a server gone wrong
CONNECT_TIMEOUT_S = 10.0  # a dead host is noticed early enough for another attempt
HEAD_BYTES = 4096  # of an oversized response, kept to show


class TooLarge(Exception):
    """A response over the limit; `head` is how it begins."""

    def __init__(self, head: str) -> None:
        super().__init__(f"the response is larger than {MAX_RESPONSE_BYTES} bytes")
        self.head = head


@functools.cache
def sdk() -> Any:
    """The SDK, imported when first needed, out of the garbage collector's sight.

    Its hundred thousand objects live as long as the process. Not scanning them while they are made, nor again at
    exit, saves 0.1 s of CPU, a fifth of what the import costs.
    """
    atexit.register(_thaw)
    enabled = gc.isenabled()
    gc.disable()
    try:
        import openai
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
    return openai


def _thaw() -> None:
    """Let the collector see everything at exit after all, if DuckDB is there: it lists what is not freed on stderr."""
    if "duckdb" in sys.modules:
        gc.unfreeze()


@dataclass(frozen=True, slots=True)
class Wire:
    """A client and its slots, bound to the event loop that opened them."""

    loop: asyncio.AbstractEventLoop
    client: openai.AsyncOpenAI
    slots: asyncio.Semaphore
    response_type: type[httpx2.Response]

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop, api_key: str, base_url: str, concurrency: int) -> Wire:
        import asyncio
        import ssl

        openai = sdk()
        import httpx2

        pool = httpx2.AsyncClient(
            # Plain HTTP verifies nothing: loading the certificates of the world would take 50 ms.
            verify=base_url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),  # the caller's deadline covers the rest
            event_hooks={"response": [_bound]},
            headers={"Accept-Encoding": "identity"},  # so that the limit counts what will be held
            follow_redirects=False,  # the key goes nowhere but where it was sent
        )
        client = openai.AsyncOpenAI(
            api_key=api_key or "none",  # local servers ask for no key, the SDK does
            base_url=base_url,
            max_retries=0,  # attempts are counted, budgeted and logged by the caller
            http_client=pool,
        )
        return cls(loop, client, asyncio.Semaphore(concurrency), httpx2.Response)

    async def post(self, request: dict[str, Any]) -> httpx2.Response:
        """Send one chat completion request; raises what the SDK raises, and TooLarge."""
        try:
            return await self.client.post("/chat/completions", cast_to=self.response_type, body=request)
        except UnicodeEncodeError:  # half a character, from a feed that cut a text in two
            whole = _whole(request)
            return await self.client.post("/chat/completions", cast_to=self.response_type, body=whole)


def _whole(value: Any) -> Any:
    """`value` with every half character replaced by a question mark."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_whole(key): _whole(inner) for key, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, list) else value


async def _bound(response: httpx2.Response) -> None:
    """Hook: bound the body, of errors too, before anyone reads it."""
    announced = int(response.headers.get("content-length", 0))
    response.stream = _stream_type()(response.stream, announced)


@functools.cache
def _stream_type() -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any, announced: int) -> None:
            self._inner, self._announced = inner, announced

        async def __aiter__(self) -> AsyncIterator[bytes]:
            head, size = b"", 0
            async for chunk in self._inner:
                size += len(chunk)
                if len(head) < HEAD_BYTES:
                    head += chunk[:HEAD_BYTES]
                if max(size, self._announced) > MAX_RESPONSE_BYTES:
                    raise TooLarge(head.decode("utf-8", "replace"))
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Bounded
