"""How does a document come from the web? With a time limit, a size limit, a short memory, and no surprises.

Only a body that its parser accepts is remembered (`.ratchet/cache`), so an error page never lives on in the cache.
Whatever goes wrong is one `SourceError` that names the host.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from agents.domain import SourceError
from telemetry.edge.files import write_atomic

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

USER_AGENT: Final = "ratchet/0.1 (scheduled market agents; one request per source and run)"
TRY_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
LONGEST_PAUSE_S: Final = (
    6.0  # GDELT asks for five seconds between requests; who wants more gets no second try
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Web:
    """The limits of one run."""

    cache: Path
    timeout_s: float = 15.0  # for the whole answer, not only for the first byte
    max_bytes: int = 4_000_000
    pause_s: float = 1.0  # before the second and last try, unless the server names another

    def get(self, url: str, parse: Callable[[bytes], T], keep_s: float = 0.0) -> T:
        """The parsed document, from the cache if it is younger than `keep_s`."""
        remembered = self.cache / hashlib.sha256(url.encode()).hexdigest()[:32]
        try:
            if time.time() - remembered.stat().st_mtime < keep_s:
                return parse(remembered.read_bytes())
        except (OSError, SourceError):
            remembered.unlink(missing_ok=True)  # not there, unreadable, or from an older parser: ask again
        body = self._download(url)
        try:
            document = parse(body)
        except SourceError as problem:
            raise SourceError(f"{_named(url)}: {problem}") from problem
        if keep_s > 0:
            write_atomic(remembered, body)
        return document

    def _download(self, url: str) -> bytes:
        import http.client
        import urllib.error

        for last_try in (False, True):
            try:
                return self._once(url)
            except urllib.error.HTTPError as problem:
                pause = _retry_after(problem.headers.get("Retry-After"), self.pause_s)
                if last_try or problem.code not in TRY_AGAIN or pause > LONGEST_PAUSE_S:
                    raise SourceError(f"{_named(url)}: HTTP {problem.code} {problem.reason}") from None
            except TimeoutError:
                raise SourceError(f"{_named(url)}: no whole answer within {self.timeout_s:g} s") from None
            except (OSError, http.client.HTTPException) as problem:  # URLError is an OSError
                reason = getattr(problem, "reason", None) or problem
                if isinstance(reason, TimeoutError):
                    raise SourceError(f"{_named(url)}: no whole answer within {self.timeout_s:g} s") from None
                if last_try:
                    raise SourceError(f"{_named(url)}: {type(reason).__name__}: {reason}") from None
                pause = self.pause_s
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _once(self, url: str) -> bytes:
        import urllib.request

        if not url.startswith(("http://", "https://")):
            raise SourceError(f"{url[:80]}: not an http(s) address")
        deadline = time.monotonic() + self.timeout_s
        request = urllib.request.Request(
            url, headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
        )
        chunks: list[bytes] = []
        size = 0
        with _opener().open(request, timeout=self.timeout_s) as answer:
            coding = answer.headers.get("Content-Encoding", "identity")
            if coding != "identity":
                raise SourceError(f"{_named(url)}: answered in {coding!r}, which was not asked for")
            while chunk := answer.read1(65_536):
                chunks.append(chunk)
                size += len(chunk)
                if size > self.max_bytes:
                    raise SourceError(f"{_named(url)}: more than {self.max_bytes:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError
            announced = answer.headers.get("Content-Length")
        if announced is not None and announced.isdigit() and int(announced) != size:
            raise SourceError(f"{_named(url)}: cut off after {size:,} of {int(announced):,} bytes")
        if size == 0:
            raise SourceError(f"{_named(url)}: empty answer")
        return b"".join(chunks)


def decoded(body: bytes, wanted: str) -> str:
    """The body as text; an HTML page where data was due is an error page, whatever its status said."""
    text = body.decode("utf-8-sig", "replace")
    start = text.lstrip()[:200].lower()
    if start.startswith(("<!doctype html", "<html")):
        raise SourceError(f"an HTML page instead of {wanted}")
    return text


def _opener() -> OpenerDirector:
    """HTTP and HTTPS only: a redirect to `file:` or `ftp:` has no handler."""
    import urllib.request as web

    opener = web.OpenerDirector()
    for handler in (
        web.ProxyHandler(),
        web.HTTPHandler(),
        web.HTTPSHandler(),
        web.HTTPRedirectHandler(),
        web.HTTPDefaultErrorHandler(),
        web.HTTPErrorProcessor(),
        web.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _retry_after(header: str | None, otherwise: float) -> float:
    return float(header) if header is not None and header.isdigit() else otherwise


def _named(url: str) -> str:
    """The address without its query, which may be long or hold a key."""
    return os.fspath(url).split("?", 1)[0]
