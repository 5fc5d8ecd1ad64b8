"""Judges what went wrong at the endpoint: whether it is worth another attempt, and what a person should set."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.model.call import LLMError

FIRST_WAIT_S = 0.5  # before the first retry; doubled for each further one
MAX_WAIT_S = 8.0  # of our own accord; Retry-After may ask for more
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
SAID_CHARS = 300  # of the endpoint's own words in an error


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed."""

    message: str
    kind: str
    retry: bool = False
    wait_s: float | None = None  # what the endpoint asks for

    def error(self, attempts: int) -> LLMError:
        tried = f" (after {attempts} attempts)" if attempts > 1 else ""
        return LLMError(self.message + tried, self.kind)


def of_status(
    status: int, answer: object, headers: Mapping[str, str], *, model: str, base_url: str
) -> Failure:
    """The failure that an HTTP status and its body tell of; `answer` is the body, or its `error` part."""
    words, code = said(answer), _code(answer)
    quote = f": {words}" if words else ""
    if status in (401, 403):
        return Failure(f"{base_url} refuses the key (HTTP {status}); set OPENAI_API_KEY{quote}", "provider")
    if status == 429 and code == "insufficient_quota":
        said_so = f"the account behind OPENAI_API_KEY has no quota left{quote}"
        return Failure(f"{base_url}: {said_so}", "rate_limit")
    if code == "context_length_exceeded":
        return Failure(f"the prompt is longer than {model} can read{quote}", "agent")
    if code == "model_not_found" or (status in (400, 404) and "model" in words.lower() and model in words):
        return Failure(f"{base_url} has no model {model!r}; set OPENAI_MODEL{quote}", "provider")
    if status in (404, 405) or 300 <= status < 400:
        where = f" (it points to {headers['location']})" if "location" in headers else ""
        found = f"no chat completions at {base_url} (HTTP {status}){where}"
        return Failure(f"{found}; set OPENAI_BASE_URL{quote}", "provider")
    retry = status in RETRIED and headers.get("x-should-retry") != "false"
    kind = "rate_limit" if status == 429 else "timeout" if status in (408, 504, 524) else "provider"
    return Failure(f"{base_url}: HTTP {status}{quote}", kind, retry, retry_after(headers, time.time()))


def unreachable(base_url: str, reason: BaseException | None) -> Failure:
    """No connection, or one that broke before a whole answer came."""
    why = " ".join(str(reason or "").split()) or type(reason).__name__
    said_so = f"no answer from {base_url} ({why}); set OPENAI_BASE_URL if it is wrong"
    return Failure(said_so, "provider", retry=True)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the endpoint asks us to wait: `retry-after-ms`, or Retry-After as seconds or as a date."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - now
            except (ValueError, OverflowError):  # neither number nor date: as if it were not there
                continue
        return seconds if 0 <= seconds < float("inf") else 0.0 if seconds < 0 else None
    return None


def wait_s(failure: Failure, retries_done: int, first_wait_s: float, chance: float) -> float:
    """How long to wait: what is asked for, else doubling; jittered by `chance` in 0..1 so that calls spread out."""
    if failure.wait_s is not None:
        return failure.wait_s + chance * first_wait_s
    return min(MAX_WAIT_S, first_wait_s * 2.0**retries_done) * (0.5 + 0.5 * chance)


def said(answer: object) -> str:
    """The endpoint's own words, from the shapes that endpoints use."""
    if isinstance(answer, Mapping):
        inner: Any = answer.get("error", answer)
        if isinstance(inner, Mapping):
            inner = inner.get("message") or inner.get("detail") or ""
        answer = inner
    return " ".join(str(answer or "").split())[:SAID_CHARS]


def _code(answer: object) -> str | None:
    inner = answer.get("error", answer) if isinstance(answer, Mapping) else None
    return str(inner.get("code")) if isinstance(inner, Mapping) else None
