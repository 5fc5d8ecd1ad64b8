"""The openai SDK, used leanly: one connection pool per event loop, answers as bytes, none larger than it should be.

An address may carry a login or a token (`https://user:token@host/v1?key=...`): they are sent, and never shown.

`client.post(..., cast_to=httpx2.Response)` is the SDK's own door for responses that it shall not turn into
pydantic objects: authentication, errors and the pool are the SDK's, and a call costs a quarter less CPU.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.model.pace import Pace
from telemetry.edge.text import remember

if TYPE_CHECKING:
    import asyncio

    import httpx2
    import openai

MAX_RESPONSE_BYTES = 2_000_000  # 128k tokens are about 0.5 MB; more is a server gone wrong
CONNECT_TIMEOUT_S = 10.0  # a dead host is noticed early enough for another attempt
HEAD_BYTES = 4096  # of an oversized response, kept to show
UNPACKED_BYTES = 65_536  # at a time


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint is: what may be shown of it, and what may not."""

    url: str
    query: Mapping[str, str]
    login: str  # `user:password`, or empty

    @classmethod
    def of(cls, text: str) -> Address:
        from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

        parts = urlsplit(text)
        login, _, host = parts.netloc.rpartition("@")
        query = dict(parse_qsl(parts.query))
        user, _, password = map(unquote, login.partition(":"))
        plain = f"{user}:{password}" if login else ""
        for secret in (plain, user, password, *query.values()):
            remember(secret)
        return cls(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), query, plain)


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
    """A client and its calls in flight, bound to the event loop that opened them."""

    loop: asyncio.AbstractEventLoop
    client: openai.AsyncOpenAI
    response_type: type[httpx2.Response]
    _paces: dict[str, Pace] = field(default_factory=dict)  # by model

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop, api_key: str, at: Address) -> Wire:
        import base64
        import ssl

        openai = sdk()
        import httpx2

        pool = httpx2.AsyncClient(
            # Plain HTTP verifies nothing: loading the certificates of the world would take 50 ms.
            verify=at.url.startswith("https:") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),  # `Pace` bounds them
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),  # the caller's deadline covers the rest
            event_hooks={"response": [_bound]},
            headers={"Accept-Encoding": "identity"},  # so that the limit counts what will be held
            follow_redirects=False,  # the key goes nowhere but where it was sent
        )
        login = base64.b64encode(at.login.encode()).decode()
        client = openai.AsyncOpenAI(
            api_key=api_key or "none",  # local servers ask for no key, the SDK does
            base_url=at.url,
            default_query=dict(at.query),
            default_headers={"Authorization": f"Basic {login}"} if login else None,
            max_retries=0,  # attempts are counted, budgeted and logged by the caller
            http_client=pool,
        )
        return cls(loop, client, httpx2.Response)

    def pace(self, model: str, most: int) -> Pace:
        """The calls of that model in flight here."""
        if model not in self._paces:
            self._paces[model] = Pace(self.loop, most)
        return self._paces[model]

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
    packed = response.headers.pop("content-encoding", "identity").lower()
    response.stream = _stream_type()(response.stream, announced, packed)


@functools.cache
def _stream_type() -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any, announced: int, packed: str) -> None:
            self._inner, self._announced = inner, announced
            self._unpacked = _unpacker(packed)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            head, size = b"", 0
            async for chunk in self._inner:
                for part in self._unpacked(chunk):
                    size += len(part)
                    if len(head) < HEAD_BYTES:
                        head += part[:HEAD_BYTES]
                    if max(size, self._announced) > MAX_RESPONSE_BYTES:
                        raise TooLarge(head.decode("utf-8", "replace"))
                    yield part

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Bounded


def _unpacker(packed: str) -> Callable[[bytes], Iterator[bytes]]:
    """Unpacks in small parts, whatever was asked for: a megabyte of gzip may hold a gigabyte."""
    if packed not in ("gzip", "x-gzip", "deflate"):
        return lambda chunk: iter(
            [chunk]
        )  # plain, or packed in a way that was not asked for: no JSON either way
    import zlib

    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, as its head says

    def parts(chunk: bytes) -> Iterator[bytes]:
        while chunk:
            yield stream.decompress(chunk, UNPACKED_BYTES)
            chunk = stream.unconsumed_tail

    return parts
