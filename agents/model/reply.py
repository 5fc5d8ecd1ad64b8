"""What comes of a request: a reply, read without trusting any of it, or a failure, with its remedy; and their sum."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.model.call import Completion, LLMError, Message
from telemetry.edge.files import MANIFEST
from telemetry.edge.frozen import frozen
from telemetry.edge.text import hidden
from telemetry.record import pricing

if TYPE_CHECKING:
    from agents.model.connection import Response, Unreachable

FIRST_WAIT_S = 0.5  # before the first retry; doubled for each further one
MAX_WAIT_S = 8.0  # of our own accord; Retry-After may ask for more
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
SAID_CHARS = 300  # of the endpoint's own words in an error

# How endpoints say that a prompt is too long: OpenAI and vLLM (context length), llama.cpp (context size), Ollama,
# llama-cpp-python (context window), vLLM (maximum model length), Anthropic (prompt is too long), Gemini.
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|size|window|overflow)|maximum model length|(?:prompt|input) (?:is )?too long"
    r"|input token count .*exceeds",
    re.IGNORECASE,
)


@frozen
class Reply:
    """One chat completion, as far as it can be used."""

    text: str
    refusal: str | None
    finish_reason: str | None
    model: str | None
    request_id: str | None
    usage: pricing.Usage
    reported_usd: float | None  # some providers (OpenRouter) say what a call cost
    tool_calls: tuple[Mapping[str, str], ...] = ()  # `id`, `name`, `arguments`


def read(response: Response, *, model: str, base_url: str) -> Reply | Failure:
    """The reply in a response of status 200, or why there is none."""
    import orjson

    try:
        envelope = orjson.loads(response.content)
    except ValueError:
        said = f"{base_url} answered with something other than JSON; set OPENAI_BASE_URL"
        return Failure(f"{model}: {said}", "provider", retry=True, billed=True)
    if not isinstance(envelope, Mapping):
        said = "answered with JSON that is no chat completion; set OPENAI_BASE_URL"
        return Failure(f"{model}: {base_url} {said}", "provider", retry=True, billed=True)
    choices = envelope.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping) or not isinstance(choice.get("message"), Mapping):
        return _refused(envelope, response.headers, model, base_url)
    message = choice["message"]
    usage = envelope.get("usage")
    return Reply(
        text=_text(message.get("content")),
        refusal=_string(message.get("refusal")),
        finish_reason=_string(choice.get("finish_reason")),
        model=_string(envelope.get("model")),
        request_id=response.headers.get("x-request-id") or _string(envelope.get("id")),
        usage=_usage(usage),
        reported_usd=_amount(usage.get("cost")) if isinstance(usage, Mapping) else None,
        tool_calls=tuple(_tool_calls(message.get("tool_calls"))),
    )


def _tool_calls(given: Any) -> Iterator[dict[str, str]]:
    """The calls that the model asks for; what is none is left out."""
    for one in given if isinstance(given, list) else ():
        function = one.get("function") if isinstance(one, Mapping) else None
        if isinstance(function, Mapping) and (name := _string(function.get("name"))):
            said = _string(function.get("arguments")) or ""
            yield {"id": _string(one.get("id")) or name, "name": name, "arguments": said}


def _refused(envelope: Mapping[str, Any], headers: Mapping[str, str], model: str, base_url: str) -> Failure:
    """Status 200 without a choice: some gateways report an upstream error that way."""
    inner = envelope.get("error")
    if isinstance(inner, Mapping):
        code = inner.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        return of_status(status, envelope, headers, model=model, base_url=base_url)
    return Failure(f"{model}: the answer holds no choice", "provider", retry=True, billed=True)


def _text(content: Any) -> str:
    """Message content: a string, or a list of parts."""
    if isinstance(content, list):
        return "".join(_string(part.get("text")) or "" for part in content if isinstance(part, Mapping))
    return _string(content) or ""


def _usage(usage: Any) -> pricing.Usage:
    """Token counts in the shapes that endpoints use; whatever is missing stays unknown."""
    if not isinstance(usage, Mapping):
        return pricing.Usage()
    details_in, details_out = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = details_in.get("cached_tokens") if isinstance(details_in, Mapping) else None
    thinking = details_out.get("reasoning_tokens") if isinstance(details_out, Mapping) else None
    return pricing.Usage(
        tokens_in=_count(usage.get("prompt_tokens")),
        tokens_out=_count(usage.get("completion_tokens")),
        cached=_count(usage.get("prompt_cache_hit_tokens") if cached is None else cached),  # DeepSeek's name
        thinking=_count(thinking),
    )


def _string(value: Any) -> str | None:
    """A text of the endpoint's, without what it may have echoed of our secrets."""
    return hidden(value) if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _amount(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < math.inf else None


@frozen
class Failure:
    """One attempt that failed."""

    message: str
    kind: str
    retry: bool = False
    wait_s: float | None = None  # what the endpoint asks for
    billed: bool = False  # nobody knows whether it was: the endpoint may have done the work
    overload: bool = False  # the endpoint has too much to do
    learnt: bool = False  # how to ask better: it is asked again at once

    def error(self, attempts: int) -> LLMError:
        tried = f" (after {attempts} attempts)" if attempts > 1 else ""
        return LLMError(self.message + tried, self.kind)


def of_status(
    status: int, answer: object, headers: Mapping[str, str], *, model: str, base_url: str
) -> Failure:
    """The failure that an HTTP status and its body tell of; `answer` is the body, or its `error` part."""
    words, code = said(answer), part(answer, "code")
    quote = f": {words}" if words else ""
    if status in (401, 403):
        said_so = f"{base_url} refuses the key (HTTP {status}); set OPENAI_API_KEY"
        return Failure(f"{model}: {said_so}{quote}", "provider")
    if status == 429 and code == "insufficient_quota":
        said_so = f"the account behind OPENAI_API_KEY has no quota left{quote}"
        return Failure(f"{model}: {said_so}", "rate_limit")
    if _OVERFLOW.search(f"{code} {part(answer, 'type')} {words}"):
        then = f"; write context_tokens of its `model:` into {MANIFEST}, and it is foreseen"
        return Failure(f"the prompt is longer than {model} can read{quote}{then}", "agent")
    if code == "model_not_found" or (status in (400, 404) and "model" in words.lower() and model in words):
        return Failure(f"{base_url} has no model {model!r}; set OPENAI_MODEL{quote}", "provider")
    if status in (404, 405) or 300 <= status < 400:
        where = f" (it points to {hidden(headers['location'])})" if "location" in headers else ""
        found = f"{model}: no chat completions at {base_url} (HTTP {status}){where}"
        return Failure(f"{found}; set OPENAI_BASE_URL{quote}", "provider")
    retry = status in RETRIED and headers.get("x-should-retry") != "false"
    kind = "rate_limit" if status == 429 else "timeout" if status in (408, 504, 524) else "provider"
    overload = status in (429, 503, 529)  # refused before any work
    wait = retry_after(headers, time.time())
    billed = status >= 500 and not overload
    return Failure(f"{model}: HTTP {status}{quote}", kind, retry, wait, billed, overload)


def unreachable(model: str, base_url: str, reason: Unreachable) -> Failure:
    """No connection, or one that broke before a whole answer came."""
    import ssl

    if isinstance(reason.__cause__, ssl.SSLCertVerificationError):  # the next attempt would be shown the same
        mend = "the file of an authority of your own goes into SSL_CERT_FILE"
        return Failure(f"{model}: {base_url} is not vouched for ({reason}); {mend}", "provider")
    said_so = f"{model}: no answer from {base_url} ({reason}); set OPENAI_BASE_URL if it is wrong"
    return Failure(said_so, "provider", retry=True, billed=reason.sent)


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


def told(content: bytes) -> object:
    """The body of a refusal: JSON, or whatever else came."""
    import orjson

    try:
        return orjson.loads(content)
    except ValueError:
        return content.decode("utf-8", "replace")


def said(answer: object) -> str:
    """The endpoint's own words, from the shapes that endpoints use."""
    if isinstance(answer, Mapping):
        inner: Any = answer.get("error", answer)
        if isinstance(inner, Mapping):
            inner = inner.get("message") or inner.get("detail") or ""
        answer = inner
    return hidden(" ".join(str(answer or "").split()))[:SAID_CHARS]


def part(answer: object, name: str) -> str | None:
    """A named part of a refusal, such as its code."""
    inner = answer.get("error", answer) if isinstance(answer, Mapping) else None
    found = inner.get(name) if isinstance(inner, Mapping) else None
    return None if found is None else str(found)


@dataclass(slots=True)
class Tally:
    """What one call has used so far, over all its attempts and its repair."""

    asked: str
    provider: str
    price: pricing.Override | None = None
    temperature: float | None = None
    messages: Sequence[Message] = ()  # as they were sent last
    tools: Sequence[Mapping[str, Any]] = ()  # that were offered
    started: float = field(default_factory=time.perf_counter)
    attempts: int = 0
    repaired: bool = False
    text: str = ""
    request_id: str | None = None
    booked: float = 0.0  # USD that a cap counted
    replies: list[Reply] = field(default_factory=list)
    costs: list[pricing.Cost] = field(default_factory=list)

    def add(self, reply: Reply) -> float | None:
        """Count a reply; returns its cost."""
        self.replies.append(reply)
        wanted = json.dumps({"tool_calls": reply.tool_calls}) if reply.tool_calls else ""
        self.text, self.request_id = wanted or reply.text or reply.refusal or "", reply.request_id
        model = self.asked  # a router ("auto") has no price of its own; the model it chose may
        if reply.model and not pricing.is_priced(model, provider=self.provider, override=self.price):
            model = reply.model
        about: Any = {"provider": self.provider, "override": self.price, "reported_usd": reply.reported_usd}
        self.costs.append(pricing.cost(model, reply.usage, **about))
        return self.costs[-1].usd

    def completion(self, data: Any) -> Completion:
        """The call as it stands; without a reply, or with one of unknown usage, the sums are unknown."""
        last = self.replies[-1] if self.replies else None
        # Else a request was sent and nobody knows what it used.
        complete = len(self.replies) == 1 + self.repaired
        cost = _sum([one.usd for one in self.costs]) if complete else None

        def used(part: str) -> int | None:
            return _sum([getattr(reply.usage, part) for reply in self.replies]) if complete else None

        return Completion(
            data=data,
            raw=self.text,
            model_asked=self.asked,
            model_answered=last.model if last else None,
            provider=self.provider,
            tokens_in=used("tokens_in"),
            tokens_out=used("tokens_out"),
            tokens_cached=used("cached"),
            tokens_thinking=used("thinking"),
            cost_usd=cost,
            cost_source=self.costs[-1].source if cost is not None else "unknown",
            temperature=self.temperature,
            latency_ms=round((time.perf_counter() - self.started) * 1000, 3),
            attempts=self.attempts,
            request_id=self.request_id,
            finish_reason=last.finish_reason if last else None,
            booked_usd=self.booked or None,
            price_list_version=self.costs[-1].price_list_version if cost is not None else None,
            repaired=self.repaired,
            tool_calls=last.tool_calls if last and self.tools else (),
            tools=self.tools,
            messages=self.messages,
            first_raw=self.replies[0].text if self.repaired else None,
        )


def _sum(values: list[Any]) -> Any:
    return None if None in values or not values else sum(values)
