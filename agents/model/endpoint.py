"""A model behind an OpenAI-compatible endpoint: bounded, retried, budgeted, its answer checked, every call logged."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from agents.model import reply as replies
from agents.model.answer import contract
from agents.model.attempts import Call
from agents.model.budget import Budget
from agents.model.call import Completion, LLMError, Message, asking, log_call
from agents.model.request import Dialect, Question, dialect_of
from agents.model.settings import CONCURRENCY, MAX_TOKENS, TEMPERATURE, TIMEOUT_S, UNSAID, ModelSettings
from agents.model.wire import Address, Wire
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST
from telemetry.edge.text import remember
from telemetry.record import pricing

if TYPE_CHECKING:
    import asyncio

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-6-luna"  # small, cheap, and without a date on which it ends
RETRIES = 4  # further attempts after the first

N = TypeVar("N", int, float)


class Unpriced(BadInput):
    """A USD cap over a model whose calls nobody can price."""

    error_kind = "budget"


class OpenAIModel:
    """One object is one connection pool, one budget, and what was learnt of the endpoint; one pool per event loop."""

    def __init__(
        self,
        *,
        api_key: str = "",
        base_url: str = DEFAULT_BASE_URL,
        model: str = DEFAULT_MODEL,
        budget: Budget | None = None,
        given: ModelSettings = UNSAID,
        known: Mapping[str, ModelSettings] = MappingProxyType({}),
        retries: int = RETRIES,
        first_wait_s: float = replies.FIRST_WAIT_S,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._address, self._api_key = Address.of(base_url), api_key.strip()
        remember(self._api_key)  # endpoints quote the key they refuse, and models what they were shown
        self.model, self.base_url = model, self._address.url
        self.provider = provider_of(self.base_url)
        self.budget = budget or Budget()
        self.retries, self.first_wait_s, self.chance = retries, first_wait_s, chance
        self._given, self._known = given, known
        self._settings: dict[str, ModelSettings] = {}  # by model, made once
        self._dialects: dict[str, Dialect] = {}  # by model
        self._wires: dict[asyncio.AbstractEventLoop, Wire] = {}  # a pool lives and dies with its event loop
        self.require_price(model)

    def require_price(self, *models: str) -> None:
        """Refuse a USD cap that could not be held; call it before the first call to refuse early."""
        if self.budget.max_usd is None:
            return
        for model in models:
            if not pricing.is_priced(model, provider=self.provider, override=self.settings(model).prices):
                line = f"model: {{name: {model}, prices: {{prompt_per_mtok: 0, completion_per_mtok: 0}}}}"
                raise Unpriced(
                    f"no price is known for model {model!r}, so max_usd cannot be held; write it into {MANIFEST}:"
                    f" `{line}` (USD per million tokens, 0 if it is free), or give --prompt-price-per-mtok and"
                    " --completion-price-per-mtok"
                )

    def settings(self, model: str) -> ModelSettings:
        """How that model is asked: what was given over what the manifest says of it."""
        if model not in self._settings:
            self._settings[model] = self._given.over(self._known.get(model, UNSAID))
        return self._settings[model]

    def dialect(self, model: str) -> Dialect:
        """How that model wants to be asked, as far as it is known."""
        if model not in self._dialects:
            self._dialects[model] = dialect_of(model)
        return self._dialects[model]

    def learn(self, model: str, dialect: Dialect) -> None:
        """Ask it that way from now on."""
        self._dialects[model] = dialect

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
        timeout_s: float | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Completion:
        """Ask, and return the answer that fits `schema` (None: any JSON object or array)."""
        import asyncio

        name = model or self.model
        said = self.settings(name)
        self.require_price(name)
        question = Question(
            name,
            messages,
            contract(schema),
            _first(temperature, said.temperature, TEMPERATURE),
            _first(max_tokens, said.max_tokens, MAX_TOKENS),
            _first(self._given.timeout_s, timeout_s, said.timeout_s, TIMEOUT_S),
            tools,
        )
        wire = self._connected()
        pace = wire.pace(name, said.concurrency or CONCURRENCY)
        with asking():
            async with pace as flight:
                call = Call(self, wire, pace, flight, question, said.prices, said.context_tokens)
                try:
                    completion = await call.answer()
                except LLMError as problem:
                    if call.tally.attempts:  # a call that the budget refused was never made
                        log_call(call.tally.completion(None), problem)
                    raise
                except asyncio.CancelledError:
                    if call.tally.attempts:  # it may be billed all the same: the row says "unknown"
                        log_call(call.tally.completion(None), LLMError("given up by the caller", "timeout"))
                    raise
        log_call(completion)
        return completion

    async def aclose(self) -> None:
        """Close the connections of this event loop; the next call opens new ones."""
        import asyncio

        wire = self._wires.pop(asyncio.get_running_loop(), None)
        if wire is not None:
            await wire.close()

    def _connected(self) -> Wire:
        import asyncio

        loop = asyncio.get_running_loop()
        if loop not in self._wires:
            self._wires = {one: wire for one, wire in self._wires.items() if not one.is_closed()}
            self._wires[loop] = Wire.open(loop, self._api_key, self._address)
        return self._wires[loop]


def provider_of(base_url: str) -> str:
    """The name a provider goes by: `openai` for api.openai.com, `openrouter` for openrouter.ai, else the host."""
    host = urlsplit(base_url).hostname or base_url
    labels = host.split(".")
    return host if len(labels) < 2 or labels[-1].isdigit() or ":" in host else labels[-2]


def _first(*values: N | None) -> N:
    """The first that is said; the last always is."""
    return next(value for value in values if value is not None)
