"""Which model answers here? Any OpenAI-compatible endpoint that the environment names, else the offline model.

`OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL` choose the endpoint. One `complete()` is one call: JSON
that fits its schema (at most one repair), one `llm_call` row, or an `LLMError` whose `error_kind` says whose
fault it was. The parts: `openai_model` (the endpoint), `budget`, `answers` (JSON and schemas), `dialect` (what
a model supports), `failures` (what is retried, what to set), `calls` (the vocabulary, and the row).
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from agents.model.budget import Budget
from agents.model.call import Completion, LLMError, Message, Model, current_model, log_call
from agents.model.endpoint import CONCURRENCY, DEFAULT_BASE_URL, DEFAULT_MODEL, TIMEOUT_S, OpenAIModel
from telemetry.edge.errors import BadInput
from telemetry.record import pricing

if TYPE_CHECKING:
    import asyncio

    from agents.offline.vocabulary import Analyst

__all__ = [
    "Budget",
    "Completion",
    "LLMError",
    "Model",
    "OpenAIModel",
    "call_llm",
    "log_call",
    "model_from_env",
]

ENVIRONMENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")

T = TypeVar("T")


def model_from_env(
    *,
    budget: Budget | None = None,
    concurrency: int = CONCURRENCY,
    timeout_s: float = TIMEOUT_S,
    price: pricing.Override | None = None,
    offline_noise: float = 0.0,
    seed: int = 0,
    models: Iterable[str | None] = (),
    analysts: Mapping[str, Analyst] | None = None,
) -> Model:
    """The model that the environment names; the offline model when it names no endpoint.

    `models` are those that will be asked beside the default one: a USD cap that cannot be held over them is
    refused here rather than in the middle of a run. `analysts` are what the offline model knows beside its own.
    """
    # An unset secret arrives from GitHub as an empty string, a pasted one with a newline.
    key, base_url, model = (os.environ.get(name, "").strip() for name in ENVIRONMENT)
    if not key and not base_url:
        from agents.offline.model import OfflineModel

        offline: Model = OfflineModel(offline_noise, seed, analysts)
        return offline if budget is None else Capped(offline, budget)
    if not (key.isascii() and key.isprintable()):
        raise BadInput("OPENAI_API_KEY: holds characters that no key has; copy it again")
    base_url = base_url or DEFAULT_BASE_URL
    if not _is_http(base_url):
        raise BadInput(f"OPENAI_BASE_URL: {base_url!r} must look like https://host/v1")
    chosen = OpenAIModel(
        api_key=key,
        base_url=base_url,
        model=model or DEFAULT_MODEL,
        budget=budget,
        concurrency=concurrency,
        timeout_s=timeout_s,
        price=price,
    )
    chosen.require_price(*filter(None, models))
    return chosen


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port or an address that is none
        return False


class Capped:
    """A model that costs nothing, under the call and time limits of a budget."""

    def __init__(self, model: Model, budget: Budget) -> None:
        self.inner, self.budget = model, budget

    async def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        reserved = await self.budget.reserve()
        try:
            return await self.inner.complete(messages, **options)
        finally:
            self.budget.settle(reserved, 0.0)


def call_llm(messages: Sequence[Message], temperature: float = 0.2, max_tokens: int = 1800) -> Any:
    """Ask the model of the running agent, else that of the environment, and return its JSON.

    It blocks its thread until the answer is there; it may be called from any thread, also beside a running loop.
    """
    model = current_model() or _shared_model(*(os.environ.get(name, "") for name in ENVIRONMENT))
    return _wait_for(model.complete(messages, temperature=temperature, max_tokens=max_tokens)).data


@functools.lru_cache(maxsize=4)
def _shared_model(*_environment: str) -> Model:
    return model_from_env()


@functools.cache
def _background_loop() -> asyncio.AbstractEventLoop:
    """One loop in one thread, so that synchronous calls share one connection pool."""
    import asyncio

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="call_llm", daemon=True).start()
    return loop


def _wait_for(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    # The coroutine runs in a copy of the caller's context: it finds the run that it is made in.
    return asyncio.run_coroutine_threadsafe(work, _background_loop()).result()
