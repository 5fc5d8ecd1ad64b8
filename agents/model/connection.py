"""One HTTP/1.1 connection: a request leaves, a whole answer comes back, none larger than it should be."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator, Mapping

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from telemetry.edge.frozen import frozen

MAX_RESPONSE_BYTES = 2_000_000  # 128k tokens are about 0.5 MB; more is a server gone wrong
HEAD_BYTES = 4096  # of an oversized response, kept to show
PART_BYTES = 65_536  # unpacked at a time; and the most that headers may take


@frozen
class Response:
    """What an endpoint said; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class TooLarge(Exception):
    """A response over the limit; `head` is how it begins."""

    def __init__(self, head: bytes) -> None:
        super().__init__(f"the response is larger than {MAX_RESPONSE_BYTES} bytes")
        self.head = head[:HEAD_BYTES].decode("utf-8", "replace")


class Unreachable(Exception):
    """No connection, or one that broke before a whole answer came; `sent` says whether a request may have left."""

    def __init__(self, reason: Exception | str, sent: bool) -> None:
        super().__init__(" ".join(str(reason).split()) or type(reason).__name__)
        self.sent = sent


class Connection(asyncio.Protocol):
    """A connection that carries one request at a time; `reusable` once a whole answer has come and it stays open."""

    reusable = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._parser = loop, HttpResponseParser(self)
        self._answer: asyncio.Future[Response] | None = None  # while somebody waits for one
        self.idle_since = 0.0
        self._begin()

    async def ask(self, request: bytes, *, tunnel: bool = False) -> Response:
        """Send a request; raises Unreachable and TooLarge. Behind the head of the answer to `tunnel` is no body."""
        if self.transport.is_closing():
            raise Unreachable("the connection is closed", sent=False)
        self._received, self._tunnel, self.reusable = 0, tunnel, False
        self._begin()
        self._answer = self._loop.create_future()
        self.transport.write(request)
        try:
            return await self._answer
        finally:
            self._answer = None
            if not (self.reusable or tunnel):  # what comes now is nobody's answer
                self.transport.abort()

    def _begin(self) -> None:
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._status = self._size = 0

    def _end(self, problem: Exception | None = None) -> bool:
        """It is all there, or will never be; whether anybody waited for it."""
        if self._answer is None or self._answer.done():
            return False
        if problem is not None:
            self._answer.set_exception(problem)
        else:
            self._answer.set_result(Response(self._status, self._headers, b"".join(self._parts)))
        return True

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # unasked
            self.reusable = False
            self.transport.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as problem:
            self._end(Unreachable(f"the answer is no HTTP: {problem}", sent=True))
        if self._received > MAX_RESPONSE_BYTES + PART_BYTES:  # of headers without end, say
            self._end(TooLarge(b"".join(self._parts)))

    def connection_lost(self, problem: Exception | None) -> None:
        self.reusable = False
        whole = self._status and not self._headers.keys() & {"content-length", "transfer-encoding"}
        if problem is None and whole:
            self._end()
        else:
            self._end(Unreachable(problem or "the connection ended before the answer did", sent=True))

    # What the parser tells.

    def on_message_begin(self) -> None:
        self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._unpacked = _unpacker(self._headers.get("content-encoding", "identity").lower())
        if self._tunnel:
            self._end()

    def on_body(self, body: bytes) -> None:
        announced = int(self._headers.get("content-length", 0))
        try:
            for part in self._unpacked(body):
                self._size += len(part)
                self._parts.append(part)
                if max(self._size, announced) > MAX_RESPONSE_BYTES:
                    self._end(TooLarge(b"".join(self._parts)))
                    return
        except zlib.error as problem:
            self._end(Unreachable(problem, sent=True))

    def on_message_complete(self) -> None:
        if self._status < 200:  # a word in between; the answer is still to come
            self._begin()
            return
        self.reusable, self.idle_since = self._end() and self._parser.should_keep_alive(), self._loop.time()


def _unpacker(packed: str) -> Callable[[bytes], Iterator[bytes]]:
    """Unpacks in small parts, whatever was asked for: a megabyte of gzip may hold a gigabyte."""
    if packed not in ("gzip", "x-gzip", "deflate"):
        # Plain, or packed in a way that was not asked for: no JSON either way.
        return lambda chunk: iter([chunk])
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, as its head says

    def parts(chunk: bytes) -> Iterator[bytes]:
        while chunk:
            yield stream.decompress(chunk, PART_BYTES)
            chunk = stream.unconsumed_tail

    return parts
