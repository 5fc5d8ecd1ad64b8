"""A scriptable HTTP server on the loopback interface: what the outside world does to a client, on demand.

    with Loopback([Reply(429, headers={"Retry-After": "0"}), chat('{"a": 1}')]) as server:
        ...  # talk to server.url; then look at server.requests

Replies are given in order and the last one repeats for ever; a function `Request -> Reply` may decide instead.
It runs in a thread of its own. `python -m tests.worlds.loopback --latency-ms 50` runs it in a process of its own,
answering every chat completion alike, and prints its address: that is what benchmarks use.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
DRIP_S = 0.02  # between two bytes of a dripping reply


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; header names in lower case."""

    method: str
    path: str  # with its query
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What to answer. `fault`: `hang` never answers, `reset` breaks the connection before a byte, `drip` sends
    the head and then a byte now and then, `cut` announces the whole body, sends half and closes."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    fault: str | None = None

    @functools.cached_property
    def encoded(self) -> bytes:
        """The reply on the wire, made once: in a benchmark the server must not be what is measured."""
        head = {"Content-Type": "application/json", "Content-Length": str(len(self.body)), **self.headers}
        reason = HTTPStatus(self.status).phrase
        lines = [f"HTTP/1.1 {self.status} {reason}", *(f"{name}: {value}" for name, value in head.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def as_json(value: Any, status: int = 200, **rest: Any) -> Reply:
    """A JSON document as reply."""
    return Reply(status, json.dumps(value).encode(), **rest)


def chat(
    content: str | None,
    *,
    usage: Mapping[str, Any] | None = USAGE,
    model: str = "gpt-4.1-mini-2025-04-14",
    finish_reason: str = "stop",
    refusal: str | None = None,
    **rest: Any,
) -> Reply:
    """A chat completion; `usage=None` leaves the usage out."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    value: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "finish_reason": finish_reason, "logprobs": None, "message": message}],
    }
    if usage is not None:
        value["usage"] = dict(usage)
    rest.setdefault("headers", {"x-request-id": "req-1"})
    return as_json(value, **rest)


def error(
    status: int, message: str, *, code: str | None = None, param: str | None = None, **rest: Any
) -> Reply:
    """An error in the shape that OpenAI and its imitators use."""
    value = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    return as_json(value, status, **rest)


Script = Sequence[Reply] | Callable[[Request], Reply]


class Loopback:
    """The server; `requests` holds everything that arrived, `connections` how many were opened."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self._script, self._tls = script, tls
        self.requests: list[Request] = []
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loopback", daemon=True)

    @property
    def origin(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The base URL of an OpenAI-compatible endpoint."""
        return f"{self.origin}/v1"

    def reply_to(self, request: Request) -> Reply:
        self.requests.append(request)
        if callable(self._script):
            return self._script(request)
        return self._script[min(len(self.requests), len(self._script)) - 1]

    def __enter__(self) -> Loopback:
        self._thread.start()
        self._serving.wait()  # a loop that is stopped before it serves would end in a traceback
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), sock=self._listening, ssl=self._tls)
        )
        self._serving.set()
        self._loop.run_forever()
        server.close()
        self._loop.close()


class _Connection(asyncio.Protocol):
    """One keep-alive connection: HTTP/1.1 with Content-Length bodies, no pipelining."""

    def __init__(self, server: Loopback) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, rest = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._received = rest[length:]
        method, path, _ = first.split(" ", 2)
        reply = self._server.reply_to(Request(method, path, headers, rest[:length]))
        if reply.delay_s:
            self._loop.call_later(reply.delay_s, self._answer, reply)
        else:
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        if self._transport.is_closing() or reply.fault == "hang":
            return
        encoded = reply.encoded
        if reply.fault is None:
            self._transport.write(encoded)
        elif reply.fault == "reset":
            # Closing with linger 0 sends RST instead of FIN.
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self._transport.abort()
        elif reply.fault == "drip":
            start = len(encoded) - len(reply.body)
            self._transport.write(encoded[:start])
            self._drip(encoded, start)
        elif reply.fault == "cut":
            self._transport.write(encoded[: len(encoded) - (len(reply.body) + 1) // 2])
            self._transport.close()
        else:
            raise ValueError(f"fault {reply.fault!r}: hang, reset, drip or cut")

    def _drip(self, encoded: bytes, at: int) -> None:
        if at < len(encoded) and not self._transport.is_closing():
            self._transport.write(encoded[at : at + 1])
            self._loop.call_later(DRIP_S, self._drip, encoded, at + 1)


def main() -> None:
    """Answer every chat completion alike until standard input closes."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--latency-ms", type=float, default=50)
    options.add_argument("--content", default='{"signal": "risk_off", "value": 31.2, "rationale": "VIX"}')
    args = options.parse_args()
    reply = chat(args.content, delay_s=args.latency_ms / 1000)
    with Loopback(lambda _request: reply) as server:
        print(server.url, flush=True)
        try:
            input()
        except EOFError:
            return


if __name__ == "__main__":
    main()
