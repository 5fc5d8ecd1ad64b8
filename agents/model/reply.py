"""Reads what a chat completion says (text, usage, cost) without trusting any of it, and adds up the call."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.model import retry as failures
from agents.model.call import Completion
from agents.model.retry import Failure
from telemetry.record import pricing

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class Reply:
    """One chat completion, as far as it can be used."""

    text: str
    refusal: str | None
    finish_reason: str | None
    model: str | None
    request_id: str | None
    usage: pricing.Usage
    reported_usd: float | None  # some providers (OpenRouter) say what a call cost


def read(response: httpx2.Response, *, model: str, base_url: str) -> Reply | Failure:
    """The reply in a response of status 200, or why there is none."""
    import orjson

    try:
        envelope = orjson.loads(response.content)
    except ValueError:
        said = "answered with something other than JSON; set OPENAI_BASE_URL"
        return Failure(f"{base_url} {said}", "provider", retry=True)
    if not isinstance(envelope, Mapping):
        return Failure(f"{base_url} answered with JSON that is no chat completion", "provider", True)
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
    )


def _refused(envelope: Mapping[str, Any], headers: Mapping[str, str], model: str, base_url: str) -> Failure:
    """Status 200 without a choice: some gateways report an upstream error that way."""
    inner = envelope.get("error")
    if isinstance(inner, Mapping):
        code = inner.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        return failures.of_status(status, envelope, headers, model=model, base_url=base_url)
    return Failure(f"{base_url}: the answer of {model} holds no choice", "provider", retry=True)


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
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _amount(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < math.inf else None


@dataclass(slots=True)
class Tally:
    """What one call has used so far, over all its attempts and its repair."""

    asked: str
    provider: str
    started: float = field(default_factory=time.perf_counter)
    attempts: int = 0
    repaired: bool = False
    text: str = ""
    request_id: str | None = None
    replies: list[Reply] = field(default_factory=list)
    costs: list[pricing.Cost] = field(default_factory=list)

    def add(self, reply: Reply, price: pricing.Override | None) -> float | None:
        """Count a reply; returns its cost."""
        self.replies.append(reply)
        self.text, self.request_id = reply.text or reply.refusal or "", reply.request_id
        model = self.asked  # a router ("auto") has no price of its own; the model it chose may
        if reply.model and not pricing.is_priced(model, provider=self.provider, override=price):
            model = reply.model
        about: Any = {"provider": self.provider, "override": price, "reported_usd": reply.reported_usd}
        self.costs.append(pricing.cost(model, reply.usage, **about))
        return self.costs[-1].usd

    def completion(self, data: Any) -> Completion:
        """The call as it stands; without a reply, or with one of unknown usage, the sums are unknown."""
        last = self.replies[-1] if self.replies else None
        complete = (
            len(self.replies) == 1 + self.repaired
        )  # else a request was sent and nobody knows what it used
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
            latency_ms=round((time.perf_counter() - self.started) * 1000, 3),
            attempts=self.attempts,
            request_id=self.request_id,
            finish_reason=last.finish_reason if last else None,
            price_list_version=self.costs[-1].price_list_version if cost is not None else None,
            repaired=self.repaired,
        )


def _sum(values: list[Any]) -> Any:
    return None if None in values or not values else sum(values)
