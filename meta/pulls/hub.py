"""Asks GitHub's API: standard library only, bounded in time and size, redirects refused, one line when it says no."""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.records import load_json
from telemetry.edge.text import redact, remember

SECONDS: Final = 30  # of one call
MAX_BYTES: Final = 8 << 20  # of one answer
PAGE: Final = 100
TRIES: Final = 3  # of a question; what changes something is asked once
WORKFLOW: Final = "github-actions[bot]"  # whom GitHub names for what GITHUB_TOKEN did
PASSING: Final = frozenset({429, 500, 502, 503, 504})

Row = dict[str, Any]


class HubRefused(Stopped):
    """GitHub said no, or nothing; `status` is 0 when there was no answer."""

    def __init__(self, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Hub:
    """One repository at GitHub, through one token."""

    def __init__(self, api: str, name: str, token: str) -> None:
        if not api.startswith(("https://", "http://127.0.0.1:")):
            raise BadInput(f"GITHUB_API_URL {api[:80]!r}: must begin with https://")
        self.api, self.name = api.rstrip("/"), name
        self.owner = name.partition("/")[0]
        remember(token)
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect)

    def get(self, path: str, **query: object) -> Any:
        """The answer to a question about the repository."""
        asked = f"?{urlencode(query)}" if query else ""
        where = f"/repos/{self.name}/{path}".rstrip("/")
        return self._call("GET", f"{where}{asked}")

    def every(self, path: str, most: int = 300, **query: object) -> Iterator[Row]:
        """The rows of a list, page by page."""
        for page in range(1, most // PAGE + 2):
            rows = self.get(path, **query, per_page=PAGE, page=page)
            yield from rows
            if len(rows) < PAGE:
                return

    def find(self, path: str, **query: object) -> Any:
        """The same of something that may not be there; None then."""
        try:
            return self.get(path, **query)
        except HubRefused as problem:
            if problem.status == 404:
                return None
            raise

    def file(self, path: str, ref: str) -> bytes | None:
        """A file as it stands at a commit; None if there is none."""
        found = self.find(f"contents/{quote(path)}", ref=ref)
        return base64.b64decode(found["content"]) if isinstance(found, dict) else None

    def send(self, method: str, path: str, value: Mapping[str, Any] | None = None) -> Any:
        return self._call(method, f"/repos/{self.name}/{path}", value)

    def graphql(self, query: str, **variables: str) -> None:
        """What REST cannot do."""
        url = os.environ.get("GITHUB_GRAPHQL_URL") or f"{self.api}/graphql"
        told = self._call("POST", "", {"query": query, "variables": variables}, url=url)
        if told.get("errors"):
            raise HubRefused(f"GitHub: {str(told['errors'][0].get('message'))[:200]}")

    def comment(self, number: int, body: str) -> None:
        self.send("POST", f"issues/{number}/comments", {"body": body})

    def say(self, number: int, marker: str, body: str) -> None:
        """The same as the one comment that begins with this hidden marker: made once, then edited in place."""
        mine = [row for row in self.every(f"issues/{number}/comments") if row["body"].startswith(marker)]
        if not mine:
            self.comment(number, f"{marker}\n{body}")
        elif mine[-1]["body"] != f"{marker}\n{body}":
            self.send("PATCH", f"issues/comments/{mine[-1]['id']}", {"body": f"{marker}\n{body}"})

    def _call(self, method: str, path: str, value: Mapping[str, Any] | None = None, url: str = "") -> Any:
        heads = {"Authorization": f"Bearer {self._token}", "Accept": "application/vnd.github+json"}
        heads |= {"X-GitHub-Api-Version": "2022-11-28", "Content-Type": "application/json"}
        data = None if value is None else json.dumps(value).encode()
        asked = urllib.request.Request(url or f"{self.api}{path}", data, heads, method=method)
        for attempt in range(1, TRIES + 1):
            again = method == "GET" and attempt < TRIES
            try:
                with self._opener.open(asked, timeout=SECONDS) as answer:
                    raw = answer.read(MAX_BYTES + 1)
                if len(raw) > MAX_BYTES:
                    raise HubRefused(f"GitHub: {method} {path}: more than {MAX_BYTES:,} bytes")
                return load_json(raw) if raw.strip() else None
            except urllib.error.HTTPError as problem:
                said = f"{problem.code} {redact(problem.read(500).decode(errors='replace'))[:200]}"
                if problem.code not in PASSING or not again:
                    raise HubRefused(f"GitHub: {method} {path}: {said}", problem.code) from None
            except (OSError, ValueError) as problem:  # no network, a time-out, an answer that is no JSON
                if not again:
                    raise HubRefused(f"GitHub: {method} {path}: {redact(str(problem))[:200]}") from None
            time.sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable")


def from_environment() -> Hub:
    """The repository that a workflow runs in, through `HUB_TOKEN`."""
    facts = {name: os.environ.get(name, "") for name in ("GITHUB_REPOSITORY", "HUB_TOKEN")}
    if missing := [name for name, value in facts.items() if not value]:
        raise BadInput(f"{', '.join(missing)}: not set; this runs in a workflow (on a laptop: meta.night)")
    api = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    return Hub(api, facts["GITHUB_REPOSITORY"], facts["HUB_TOKEN"])
