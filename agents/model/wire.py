"""The way to an endpoint: one pool of connections per event loop, answers as bytes.

An address may carry a login or a token (`https://user:token@host/v1?key=...`): they are sent, and never shown.

A chat completion is one POST. Sent over connections of our own it costs a tenth of the CPU that the openai SDK takes,
and the first one leaves half a second earlier; `tests/agents/test_wire.py` holds the request to what the SDK would
have sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.model.connection import Connection, Response, Unreachable
from agents.model.pace import Pace
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.text import remember

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 10.0  # a dead host is noticed early enough for another attempt
IDLE_S = 15.0  # whoever is silent for longer may be about to hang up
# Headers by which OpenAI tells who pays, and the variables in which its own SDK looks for them.
_PAYERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
_AS_IT_IS = "/%:=&~+!$,;'@()*"  # of a path: quoted already, or not in need of it


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

    def head(self, api_key: str) -> dict[str, str]:
        """The headers of every request."""
        payers = {header: os.environ.get(name, "").strip() for header, name in _PAYERS.items()}
        return {
            # Local servers ask for no key, some of them for a header.
            "Authorization": _basic(self.login) if self.login else f"Bearer {api_key or 'none'}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "ratchet",
            **{header: value for header, value in payers.items() if value},
        }


@frozen
class Host:
    """A server, and how it is spoken to."""

    name: str
    port: int
    tls: ssl.SSLContext | None
    login: str = ""  # of a proxy

    @classmethod
    def of(cls, url: str) -> Host:
        """The server of an address; ValueError if it names none."""
        from urllib.parse import unquote, urlsplit

        parts = urlsplit(url)
        secure = {"http": False, "https": True}.get(parts.scheme)
        if secure is None or not parts.hostname:
            raise ValueError(f"{parts.scheme}://{parts.hostname} is no address of a web server")
        name = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
        login = unquote(parts.netloc.rpartition("@")[0])
        return cls(name, parts.port or (443 if secure else 80), _trusted() if secure else None, login)

    @property
    def authority(self) -> str:
        """As a `Host` header names it."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == (443 if self.tls else 80) else f"{name}:{self.port}"

    @property
    def allowed(self) -> dict[str, str]:
        """What a proxy wants to be shown."""
        return {"Proxy-Authorization": _basic(self.login)} if self.login else {}

    async def connected(self, loop: asyncio.AbstractEventLoop) -> Connection:
        """A connection to it."""
        _, connection = await loop.create_connection(
            lambda: Connection(loop), self.name, self.port, ssl=self.tls, happy_eyeballs_delay=0.25
        )
        return connection


@dataclass(frozen=True, slots=True)
class Wire:
    """Connections and the calls in flight on them, bound to the event loop that opened them."""

    loop: asyncio.AbstractEventLoop
    at: Address
    _host: Host
    _proxy: Host | None
    _base: bytes  # where paths begin; for a proxy that passes requests on, the host is part of it
    _query: bytes
    _head: bytes  # of every request, but for its first line and the last
    _idle: list[Connection] = field(default_factory=list)
    _paces: dict[str, Pace] = field(default_factory=dict)  # by model

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop, api_key: str, at: Address) -> Wire:
        """Ready to connect; raises BadInput."""
        from urllib.parse import quote, urlencode, urlsplit

        try:
            host = Host.of(at.url)
        except ValueError as problem:
            raise BadInput(f"OPENAI_BASE_URL: {problem}") from problem
        proxy = _proxy_to(at)
        passed_on = proxy is not None and host.tls is None
        base = (f"http://{host.authority}" if passed_on else "") + quote(
            urlsplit(at.url).path, safe=_AS_IT_IS
        )
        query = f"?{urlencode(at.query)}" if at.query else ""
        head = at.head(api_key) | ({} if proxy is None or host.tls else proxy.allowed)
        return cls(
            loop, at, host, proxy, base.encode(), query.encode(), _lines({"Host": host.authority, **head})
        )

    def pace(self, model: str, most: int) -> Pace:
        """The calls of that model in flight here."""
        if model not in self._paces:
            self._paces[model] = Pace(self.loop, most)
        return self._paces[model]

    async def post(self, request: dict[str, Any]) -> Response:
        """Send one chat completion request; raises Unreachable and TooLarge."""
        return await self.asked("POST", "/chat/completions", _encoded(request))

    async def asked(self, method: str, path: str, data: bytes = b"") -> Response:
        """Whatever the endpoint says to a request, redirections too: the key goes nowhere but where it was sent."""
        connection = self._waiting() or await self._connected()
        # `Pace` bounds the connections; how long an answer may take is the caller's.
        response = await connection.ask(
            b"%s %s%s%s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s"
            % (method.encode(), self._base, path.encode(), self._query, self._head, len(data), data)
        )
        if connection.reusable:
            self._idle.append(connection)
        return response

    async def close(self) -> None:
        """Let go of the connections."""
        for connection in self._idle:
            connection.transport.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # in which they are closed

    def _waiting(self) -> Connection | None:
        """A connection that is open and at leisure."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and self.loop.time() - connection.idle_since < IDLE_S:
                return connection
            connection.transport.abort()
        return None

    async def _connected(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if self._proxy is None:
                    return await self._host.connected(self.loop)
                connection = await self._proxy.connected(self.loop)
                return await self._tunnelled(connection) if self._host.tls else connection
        except TimeoutError as problem:
            said = f"no connection within {CONNECT_TIMEOUT_S:g} s"
            raise Unreachable(str(problem) or said, sent=False) from problem
        except (OSError, UnicodeError) as problem:  # a name that is none is a UnicodeError
            raise Unreachable(problem, sent=False) from problem

    async def _tunnelled(self, connection: Connection) -> Connection:
        """A connection to the host itself, through one to the proxy."""
        assert self._proxy is not None and self._host.tls is not None
        to = self._host.authority
        to = to if to.endswith(f":{self._host.port}") else f"{to}:{self._host.port}"
        head = _lines({"Host": to, **self._proxy.allowed})
        try:
            answer = await connection.ask(b"CONNECT %s HTTP/1.1\r\n%s\r\n" % (to.encode(), head), tunnel=True)
            if not 200 <= answer.status < 300:
                raise Unreachable(f"the proxy says HTTP {answer.status}", sent=False)
            inner = Connection(self.loop)
            secured = await self.loop.start_tls(
                connection.transport, inner, self._host.tls, server_hostname=self._host.name
            )
            assert secured is not None
            inner.connection_made(secured)
            return inner
        except BaseException:
            connection.transport.abort()
            raise


def _lines(head: Mapping[str, str]) -> bytes:
    """Headers as they are sent; raises BadInput for one that would be more than that."""
    if odd := [name for name, value in head.items() if not value.isprintable()]:
        raise BadInput(
            f"the header {odd[0]} would hold a line break or the like: look at OPENAI_API_KEY and its kin"
        )
    return "".join(f"{name}: {value}\r\n" for name, value in head.items()).encode()


def _basic(login: str) -> str:
    import base64

    return f"Basic {base64.b64encode(login.encode()).decode()}"


def _trusted() -> ssl.SSLContext:
    """By the certificates of the system; where it has none, by those that Mozilla trusts."""
    import ssl

    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _proxy_to(at: Address) -> Host | None:
    """The proxy that the environment names for this address (`HTTPS_PROXY`, `NO_PROXY`), found once."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    parts, known = urlsplit(at.url), getproxies()
    named = known.get(parts.scheme) or known.get("all")
    if not named or proxy_bypass(parts.hostname or ""):
        return None
    if "://" not in named:
        named = f"http://{named}"
    try:
        proxy = Host.of(named)
    except ValueError as problem:
        raise BadInput(f"{parts.scheme.upper()}_PROXY: must be an http:// proxy") from problem
    remember(urlsplit(named).password or "")
    return proxy


def _encoded(request: dict[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(request)
    except TypeError:  # half a character, from a feed that cut a text in two; a number beyond 64 bits
        import json

        return json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")
