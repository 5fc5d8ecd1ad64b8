"""An answer is read to its end, however it is told and in whatever pieces; what is none ends the connection."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.connection import MAX_RESPONSE_BYTES, Connection, Response, TooLarge, Unreachable

BODY = b'{"risk": "\xc3\xa4 50"}' * 20
PACKED = gzip.compress(BODY)
CHUNKS = (
    b"a;x=1\r\n" + BODY[:10] + b"\r\n%x\r\n" % (len(BODY) - 10) + BODY[10:] + b"\r\n0\r\nTrailer: t\r\n\r\n"
)
STAYS = {
    "announced": b"HTTP/1.1 200 OK\r\nX-Request-ID: r1\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
    "in chunks": b"HTTP/1.1 200 OK\r\nx-request-id: r1\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    "packed": b"HTTP/1.1 200 OK\r\nX-REQUEST-ID: r1\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    % len(PACKED)
    + PACKED,
    "after a word in between": b"HTTP/1.1 103 Early Hints\r\nX-Request-ID: r0\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nX-Request-ID: r1\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY,
}
ENDS = {
    "by its end": b"HTTP/1.1 200 OK\r\nX-Request-ID: r1\r\n\r\n" + BODY,
    "said to be closed": b"HTTP/1.1 200 OK\r\nX-Request-ID: r1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    % len(BODY)
    + BODY,
    "of the old kind": b"HTTP/1.0 200 OK\r\nX-Request-ID: r1\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    + BODY,
    "more than was asked for": STAYS["announced"] + STAYS["announced"],
}


class Line(asyncio.Transport):
    """The other end: notes what is sent, and whether it was hung up."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.hung_up = b"", False

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def is_closing(self) -> bool:
        return self.hung_up

    def abort(self) -> None:
        self.hung_up = True


def told(pieces: Iterable[bytes], problem: Exception | None = None) -> tuple[Response, Connection, Line]:
    """What a connection makes of an answer in pieces, after which the other end hangs up if more is waited for."""

    async def asked() -> tuple[Response, Connection, Line]:
        connection, line = Connection(asyncio.get_running_loop()), Line()
        connection.connection_made(line)
        asking = asyncio.ensure_future(connection.ask(b"GET / HTTP/1.1\r\n\r\n"))
        await asyncio.sleep(0)
        for piece in pieces:
            if not line.hung_up:
                connection.data_received(piece)
        await asyncio.sleep(0)
        if not asking.done():
            connection.connection_lost(problem)
        return await asking, connection, line

    return asyncio.run(asked())


@pytest.mark.parametrize("name", [*STAYS, *ENDS])
@given(cuts=st.lists(st.integers(0, 600), max_size=8))
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(name: str, cuts: list[int]) -> None:
    whole = {**STAYS, **ENDS}[name]
    at = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    answer, connection, line = told(whole[a:b] for a, b in pairwise(at))
    assert (answer.status, answer.content, answer.headers["x-request-id"]) == (200, BODY, "r1")
    if name in STAYS:
        assert connection.reusable and not line.hung_up
    elif name != "more than was asked for":  # of which a cut may have held back the rest
        assert not connection.reusable


def test_more_than_was_asked_for_ends_the_connection() -> None:
    for cut in (len(ENDS["more than was asked for"]), len(STAYS["announced"]) + 1):
        _, connection, line = told([ENDS["more than was asked for"][:cut]])
        assert not connection.reusable and line.hung_up
    _, connection, line = told([STAYS["announced"]])
    connection.data_received(b"HTTP/1.1 200 OK\r\n")
    assert not connection.reusable and line.hung_up


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x02hi",
    ],
    ids=["nothing", "not HTTP", "two lengths", "cut", "without the last chunk", "another protocol"],
)
def test_what_is_no_whole_answer_is_none(answer: bytes) -> None:
    with pytest.raises(Unreachable) as caught:
        told([answer])
    assert caught.value.sent and str(caught.value)


def test_an_answer_that_broke_off_is_none_though_its_length_was_never_said() -> None:
    with pytest.raises(Unreachable, match="reset by peer"):
        told([ENDS["by its end"]], ConnectionResetError("reset by peer"))


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n{"],
        [b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 100_000] * 21],
        [b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"x" * 100_000 + b"\r\n"] * 21],
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 50_000_000)],
    ],
    ids=["announced", "without end", "headers without end", "unpacked"],
)
def test_no_more_is_read_than_an_answer_may_hold(pieces: list[bytes]) -> None:
    with pytest.raises(TooLarge, match=str(MAX_RESPONSE_BYTES)) as caught:
        told(pieces)
    assert len(caught.value.head) <= 4096


def test_who_stops_waiting_hangs_up() -> None:
    async def given_up() -> bool:
        connection, line = Connection(asyncio.get_running_loop()), Line()
        connection.connection_made(line)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await connection.ask(b"GET / HTTP/1.1\r\n\r\n")
        return line.hung_up

    assert asyncio.run(given_up())
