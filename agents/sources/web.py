"""Fetches documents from the web: with a time limit, a size limit, a short memory, and no surprises.

Only a body that its parser accepts is remembered (`.ratchet/cache`), so an error page never lives on in the cache.
Whatever goes wrong is one `SourceError` that names the host.
"""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from agents.sources.source import SourceError
from telemetry.edge.files import write_atomic
from telemetry.edge.frozen import frozen

USER_AGENT: Final = "ratchet/0.1 (scheduled agents; one request per source and run)"
TRY_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
# GDELT asks for five seconds between requests; who wants more gets no second try.
LONGEST_PAUSE_S: Final = 6.0

T = TypeVar("T")


@frozen
class Web:
    """The limits of one run."""

    cache: Path
    timeout_s: float = 15.0  # for the whole answer, not only for the first byte
    max_bytes: int = 4_000_000
    pause_s: float = 1.0  # before the second and last try, unless the server names another
    # Whether to follow a redirect only to the host that was asked, never back to plain http.
    same_host: bool = False

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
        for last_try in (False, True):
            pause = self.pause_s
            try:
                return self._once(url)
            except urllib.error.HTTPError as problem:
                asked = problem.headers.get("Retry-After") or ""
                pause = float(asked) if asked.isdigit() else pause
                if last_try or problem.code not in TRY_AGAIN or pause > LONGEST_PAUSE_S:
                    raise SourceError(f"{_named(url)}: HTTP {problem.code} {problem.reason}") from None
            except (OSError, http.client.HTTPException) as problem:  # URLError and TimeoutError are OSErrors
                reason = getattr(problem, "reason", None) or problem
                if isinstance(reason, TimeoutError):
                    raise SourceError(f"{_named(url)}: no whole answer within {self.timeout_s:g} s") from None
                if last_try:
                    raise SourceError(f"{_named(url)}: {type(reason).__name__}: {reason}") from None
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _once(self, url: str) -> bytes:
        if not url.startswith(("http://", "https://")):
            raise SourceError(f"{url[:80]}: not an http(s) address")
        deadline = time.monotonic() + self.timeout_s
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
        request, body = urllib.request.Request(url, headers=headers), bytearray()
        with _opener(self.same_host).open(request, timeout=self.timeout_s) as answer:
            coding = answer.headers.get("Content-Encoding", "identity")
            if coding != "identity":
                raise SourceError(f"{_named(url)}: answered in {coding!r}, which was not asked for")
            while chunk := answer.read1(65_536):
                body += chunk
                if len(body) > self.max_bytes:
                    raise SourceError(f"{_named(url)}: more than {self.max_bytes:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError
            announced = answer.headers.get("Content-Length")
        if announced is not None and announced.isdigit() and int(announced) != len(body):
            raise SourceError(f"{_named(url)}: cut off after {len(body):,} of {int(announced):,} bytes")
        if not body:
            raise SourceError(f"{_named(url)}: empty answer")
        return bytes(body)


def decoded(body: bytes, wanted: str) -> str:
    """The body as text; an HTML page where data was due is an error page, whatever its status said."""
    text = body.decode("utf-8-sig", "replace")
    if text.lstrip()[:200].lower().startswith(("<!doctype html", "<html")):
        raise SourceError(f"an HTML page instead of {wanted}")
    return text


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only where the answer still comes from whom the manifest names."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        asked, sent = urlsplit(req.full_url), urlsplit(newurl)
        if sent.netloc != asked.netloc or (asked.scheme, sent.scheme) == ("https", "http"):
            to = f"{sent.scheme}://{sent.netloc}"
            raise SourceError(f"{_named(req.full_url)}: redirects to another host ({to}); name that one")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(same_host: bool) -> urllib.request.OpenerDirector:
    """HTTP and HTTPS only: a redirect to `file:` or `ftp:` has no handler."""
    opener = urllib.request.OpenerDirector()
    kinds = "Proxy", "HTTP", "HTTPS", "HTTPDefaultError", "Unknown"
    for handler in (*(f"{kind}Handler" for kind in kinds), "HTTPErrorProcessor"):
        opener.add_handler(getattr(urllib.request, handler)())
    opener.add_handler(_SameHost() if same_host else urllib.request.HTTPRedirectHandler())
    return opener


def _named(url: str) -> str:
    """The address without its query, which may be long or hold a key."""
    return url.split("?", 1)[0]
