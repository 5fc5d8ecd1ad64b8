"""An endpoint that does everything wrong: an A/B test on it is inconclusive, and the key it echoes stands nowhere.

Every fault is met by a whole A/B night of its own, through the real SDK. Whatever the endpoint says holds the key,
plain and encoded; afterwards every file of the checkout and all that was said is searched for it.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agents.model import endpoint
from tests.torture import Clock, Figure, lived
from tests.worlds import ab_world, children
from tests.worlds.loopback import Loopback, Reply, Request, as_json, chat, error

KEY = "sk-torture/9f86d081+884c7d65=9a2feaa0?x"
ENCODED = base64.b64encode(KEY.encode()).decode()
SPELT = f"{KEY} {quote(KEY, safe='')} {ENCODED} {base64.b64encode(f'Bearer {KEY}'.encode()).decode()}"
# What must be found nowhere: pieces long enough to be the key, in the spellings above.
TELLING = [
    KEY[:24],
    quote(KEY, safe="")[:24],
    ENCODED[:24],
    base64.b64encode(f"Bearer {KEY}".encode()).decode()[12:36],
]
CASES = 70  # about half of them decide
GOOD = '{"items": [{"answer": "right"}]}'


def _said(value: Any, status: int = 200) -> Reply:
    return as_json(value, status)


def _choice(**message: Any) -> Reply:
    whole = json.loads(chat(GOOD).body)
    whole["choices"][0]["message"] |= message
    return _said(whole)


def _dying(after: int) -> Callable[[Request], Reply]:
    """Good answers, then none."""
    seen: list[int] = []

    def reply(_request: Request) -> Reply:
        seen.append(1)
        return chat(GOOD) if len(seen) <= after else error(503, f"overloaded {SPELT}")

    return reply


STATUSES = (400, 401, 402, 403, 404, 405, 408, 409, 413, 422, 429, 451, 500, 501, 502, 503, 504, 507)
FAULTS: dict[str, Reply | Callable[[Request], Reply]] = {
    **{f"status {status}": error(status, f"not now {SPELT}") for status in STATUSES},
    "no quota": error(429, f"You exceeded your quota {SPELT}", code="insufficient_quota"),
    "come again tomorrow": error(429, f"slow down {SPELT}", headers={"Retry-After": "86400"}),
    "an error with status 200": _said({"error": {"message": f"overloaded {SPELT}", "code": 503}}),
    "a page of HTML": Reply(200, f"<html>502 Bad Gateway {SPELT}</html>".encode(), {"Content-Type": "text/html"}),
    "nothing at all": Reply(200, b""),
    "null": Reply(200, b"null"),
    "a list": Reply(200, b"[]"),
    "half a document": Reply(200, chat(GOOD).body[:60]),
    "no UTF-8": Reply(200, b'\xff\xfe{"a": 1}'),
    "900 levels": Reply(200, b"[" * 900 + b"]" * 900),
    "no choice": _said({"choices": [], "model": SPELT}),
    "choices that are none": _said({"choices": None, "usage": SPELT}),
    "a choice without a message": _said({"choices": [{"index": 0, "message": None}]}),
    "an answer without content": _choice(content=None),
    "content that is a list": _choice(content=[{"type": "text", "text": SPELT}]),
    "an answer 800 levels deep": chat(
        json.dumps({"items": [{"answer": SPELT}]})[:-3] + ', "more": ' + "[" * 800 + "]" * 800 + "}]}"
    ),
    "prose": chat(f"I would rather not. {SPELT}"),
    "another schema": chat(json.dumps({"items": [{"reply": SPELT}]})),
    "a refusal": chat(None, refusal=f"I cannot help with that. {SPELT}"),
    "an answer cut off": chat('{"items": [{"ans', finish_reason="length"),
    "a filtered answer": chat("", finish_reason="content_filter"),
    "5 MB": chat("x" * 5_000_000),
    "a bomb": Reply(200, gzip.compress(b"0" * 20_000_000), {"Content-Encoding": "gzip"}),
    "a redirection to itself": Reply(307, b"", {"Location": "/v1/chat/completions"}),
    "a broken connection": chat(GOOD, fault="reset"),
    "half an answer": chat(GOOD, fault="cut"),
    "an answer that never comes": Reply(fault="hang"),
    "an answer that drips": chat(GOOD, fault="drip"),
    "dead after ten calls": _dying(10),
    "a usage of nonsense": error(500, SPELT, headers={"x-request-id": KEY.replace("\n", "")}),
}  # fmt: skip


def _night(root: Path, fault: Reply | Callable[[Request], Reply]) -> int:
    """An A/B test in this checkout on an endpoint with that fault, as a workflow runs it."""
    endpoint.OpenAIModel.__init__ = functools.partialmethod(endpoint.OpenAIModel.__init__, first_wait_s=0.001)  # type: ignore[assignment]
    with Loopback(fault if callable(fault) else [fault]) as server:
        about = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url, "OPENAI_MODEL": "gpt-4.1-mini"}
        words = ("--timeout-s", "0.3", "--concurrency", "8")
        main = lived.script("eval.ab_testing")
        os.environ.update(
            about, GITHUB_STEP_SUMMARY=str(root / "summary.md"), GITHUB_OUTPUT=str(root / "output")
        )
        return main(["--root", str(root), *words])


def _wrong(root: Path, ended: children.Ended) -> Iterator[str]:
    if ended.traceback:
        yield ended.traceback
    if ended.code not in (0, 2, 3):
        yield f"exit {ended.code}"
    report = root / "meta/reports/ab_test_report.json"
    if report.exists():
        tests = json.loads(report.read_bytes())["tests"]
        if found := {arm["verdict"] for test in tests for arm in test["arms"]} - {"inconclusive"}:
            yield f"verdicts {sorted(found)}"
    held = [
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.is_file() and _tells(file.read_bytes())
    ]
    held += ["what it said"] if _tells(ended.said.encode()) else []
    if held:
        yield f"the key stands in {', '.join(held)}"


def _tells(data: bytes) -> bool:
    return any(piece.encode() in data for piece in TELLING)


def run(clock: Clock, some: Collection[str] = FAULTS) -> list[Figure]:
    """These faults, each in a checkout of its own."""
    lived.loaded()
    faults, tried = list[str](), 0
    for name in some:
        fault = FAULTS[name]
        if clock.over:
            break
        tried += 1
        with tempfile.TemporaryDirectory(prefix="ratchet-endpoint-") as folder:
            root = Path(folder)
            ab_world.make(root, cases=CASES)
            ab_world.challenger(root, "B", "skill: 1.0\n")
            ended = children.run(lambda root=root, fault=fault: _night(root, fault))  # type: ignore[misc]
            faults += [f"{name}: {'; '.join(wrong)}"] if (wrong := list(_wrong(root, ended))) else []
    return [
        Figure("endpoint faults: inconclusive, no key", tried - len(faults), tried, len(some), tuple(faults))
    ]
