"""The way to an endpoint: one aiohttp session per event loop, answers as bytes, none larger than it should be.

An address may carry a login or a token (`https://user:token@host/v1?key=...`): they are sent, and never shown.

A chat completion is one POST. Sent without the openai SDK it costs a fifth of the CPU, and the first one leaves half
a second earlier; `tests/agents/test_wire.py` holds the request to what the SDK would have sent.
"""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.model.pace import Pace
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.text import remember

if TYPE_CHECKING:
    import asyncio
    import ssl

    import aiohttp

MAX_RESPONSE_BYTES = 2_000_000  # 128k tokens are about 0.5 MB; more is a server gone wrong
CONNECT_TIMEOUT_S = 10.0  # a dead host is noticed early enough for another attempt
HEAD_BYTES = 4096  # of an oversized response, kept to show
PART_BYTES = 65_536  # read, and unpacked, at a time
# Headers by which OpenAI tells who pays, and the variables in which its own SDK looks for them.
_PAYERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


@frozen
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


@frozen
class Response:
    """What an endpoint said; names of headers in any case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class TooLarge(Exception):
    """A response over the limit; `head` is how it begins."""

    def __init__(self, head: str) -> None:
        super().__init__(f"the response is larger than {MAX_RESPONSE_BYTES} bytes")
        self.head = head


class Unreachable(Exception):
    """No connection, or one that broke before a whole answer came; `sent` says whether a request may have left."""

    def __init__(self, reason: Exception, sent: bool) -> None:
        super().__init__(" ".join(str(reason).split()) or type(reason).__name__)
        self.sent = sent


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Wire:
    """A session and its calls in flight, bound to the event loop that opened them."""

    loop: asyncio.AbstractEventLoop
    at: Address
    session: aiohttp.ClientSession
    _paces: dict[str, Pace] = field(default_factory=dict)  # by model

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop, api_key: str, at: Address) -> Wire:
        import aiohttp

        connector = aiohttp.TCPConnector(limit=0, ssl=_trusted(at))  # `Pace` bounds the connections
        session = aiohttp.ClientSession(
            connector=connector,
            headers=_headers(api_key, at),
            # The rest is the caller's.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            auto_decompress=False,  # the limit counts what will be held
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=_proxy(at),
        )
        wire = cls(loop, at, session)
        weakref.finalize(wire, _abandon, connector)
        return wire

    def pace(self, model: str, most: int) -> Pace:
        """The calls of that model in flight here."""
        if model not in self._paces:
            self._paces[model] = Pace(self.loop, most)
        return self._paces[model]

    async def post(self, request: dict[str, Any]) -> Response:
        """Send one chat completion request; raises Unreachable and TooLarge."""
        return await self.asked("POST", "/chat/completions", _encoded(request))

    async def asked(self, method: str, path: str, data: bytes | None = None) -> Response:
        """Whatever the endpoint says to a request, redirections too: the key goes nowhere but where it was sent."""
        import zlib

        import aiohttp

        try:
            async with self.session.request(
                method, self.at.url + path, params=self.at.query or None, data=data, allow_redirects=False
            ) as response:
                return Response(response.status, response.headers, await _body(response))
        except (aiohttp.ClientError, OSError, zlib.error) as problem:
            connected = not isinstance(
                problem,
                aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.ClientHttpProxyError,
            )
            raise Unreachable(problem, sent=connected) from problem

    async def close(self) -> None:
        """Let go of the connections."""
        await self.session.close()


def _abandon(connector: aiohttp.BaseConnector) -> None:
    """Close what nobody closed: a loop that ended before its wire is no reason for a word on stderr."""
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(StopIteration):
        closing: Any = connector.close()
        closing.send(None)  # its first step closes; the others would wait, on a loop that may be gone
        closing.close()


def _headers(api_key: str, at: Address) -> dict[str, str]:
    import base64

    login = base64.b64encode(at.login.encode()).decode()
    payers = {header: os.environ.get(name, "").strip() for header, name in _PAYERS.items()}
    return {
        # Local servers ask for no key, some of them for a header.
        "Authorization": f"Basic {login}" if login else f"Bearer {api_key or 'none'}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "ratchet",
        **{header: value for header, value in payers.items() if value},
    }


def _trusted(at: Address) -> bool | ssl.SSLContext:
    """The certificates of the system; where it has none, those that Mozilla trusts."""
    import ssl

    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath or not at.url.startswith("https:"):
        return True
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _proxy(at: Address) -> str | None:
    """The proxy that the environment names for this address (`HTTPS_PROXY`, `NO_PROXY`), found once."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts, known = urlsplit(at.url), getproxies()
    named = known.get(parts.scheme) or known.get("all")
    if not named or proxy_bypass(parts.hostname or ""):
        return None
    if "://" not in named:
        named = f"http://{named}"
    if not named.startswith(("http://", "https://")):
        raise BadInput(f"{parts.scheme.upper()}_PROXY: must be an http:// proxy")
    remember(urlsplit(named).password or "")
    return named


def _encoded(request: dict[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(request)
    except TypeError:  # half a character, from a feed that cut a text in two; a number beyond 64 bits
        import json

        return json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The body, of errors too, unpacked and bounded."""
    unpacked = _unpacker(response.headers.get("Content-Encoding", "identity").lower())
    announced, size, parts = response.content_length or 0, 0, list[bytes]()
    async for chunk in response.content.iter_chunked(PART_BYTES):
        for part in unpacked(chunk):
            size += len(part)
            parts.append(part)
            if max(size, announced) > MAX_RESPONSE_BYTES:
                raise TooLarge(b"".join(parts)[:HEAD_BYTES].decode("utf-8", "replace"))
    return b"".join(parts)


def _unpacker(packed: str) -> Callable[[bytes], Iterator[bytes]]:
    """Unpacks in small parts, whatever was asked for: a megabyte of gzip may hold a gigabyte."""
    if packed not in ("gzip", "x-gzip", "deflate"):
        # Plain, or packed in a way that was not asked for: no JSON either way.
        return lambda chunk: iter([chunk])
    import zlib

    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, as its head says

    def parts(chunk: bytes) -> Iterator[bytes]:
        while chunk:
            yield stream.decompress(chunk, PART_BYTES)
            chunk = stream.unconsumed_tail

    return parts
