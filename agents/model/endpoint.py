"""A model behind an OpenAI-compatible endpoint: bounded, retried, budgeted, its answer checked, every call logged."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from agents.model import reply as replies
from agents.model.answer import Unusable, contract, parse
from agents.model.budget import Budget
from agents.model.call import Completion, LLMError, Message, log_call
from agents.model.reply import Failure, Reply, Tally
from agents.model.request import Dialect, Question, adapted, answer_limit, body, dialect_of
from agents.model.sdk import TooLarge, Wire, sdk
from agents.model.settings import CONCURRENCY, MAX_TOKENS, TEMPERATURE, TIMEOUT_S, UNSAID, ModelSettings
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST
from telemetry.edge.text import MARK, MAX_PARSE_ERROR, MAX_RAW_OUTPUT, cut
from telemetry.record import pricing

if TYPE_CHECKING:
    import asyncio

    import openai

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-6-luna"  # small, cheap, and without a date on which it ends
RETRIES = 4  # further attempts after the first
MIN_KEY_CHARS = 8  # a shorter "key" is a placeholder, and may be part of any word
CHARS_PER_TOKEN = 3  # to foresee the price of a prompt; English has about 4, so this errs to the dear side


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
        self.model, self.base_url, self.provider = model, base_url.rstrip("/"), provider_of(base_url)
        self.budget = budget or Budget()
        self._api_key, self._given, self._known = api_key, given, known
        self._retries, self._first_wait_s, self._chance = retries, first_wait_s, chance
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
        return self._given.over(self._known.get(model, UNSAID))

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
        timeout_s: float | None = None,
    ) -> Completion:
        """Ask, and return the answer that fits `schema` (None: any JSON object or array)."""
        import asyncio

        name = model or self.model
        said = self.settings(name)
        question = Question(
            name,
            messages,
            contract(schema),
            _first(temperature, said.temperature, TEMPERATURE),
            _first(max_tokens, said.max_tokens, MAX_TOKENS),
            _first(self._given.timeout_s, timeout_s, said.timeout_s, TIMEOUT_S),
        )
        self.require_price(question.model)
        wire = self._connected()
        async with wire.slots:
            tally = Tally(question.model, self.provider, said.prices)
            try:
                completion = await self._answer(wire, tally, question)
            except LLMError as problem:
                if tally.attempts:  # a call that the budget refused was never made
                    log_call(tally.completion(None), problem)
                raise
            except asyncio.CancelledError:
                if tally.attempts:  # it may be billed all the same: the row says that its cost is unknown
                    log_call(tally.completion(None), LLMError("given up by the caller", "timeout"))
                raise
        log_call(completion)
        return completion

    @property
    def at_once(self) -> int:
        """Calls in flight."""
        return self.settings(self.model).concurrency or CONCURRENCY

    async def aclose(self) -> None:
        """Close the connections of this event loop; the next call opens new ones."""
        import asyncio

        wire = self._wires.pop(asyncio.get_running_loop(), None)
        if wire is not None:
            await wire.client.close()

    def _connected(self) -> Wire:
        import asyncio

        loop = asyncio.get_running_loop()
        if loop not in self._wires:
            self._wires = {one: wire for one, wire in self._wires.items() if not one.is_closed()}
            self._wires[loop] = Wire.open(loop, self._api_key, self.base_url, self.at_once)
        return self._wires[loop]

    async def _answer(self, wire: Wire, tally: Tally, question: Question) -> Completion:
        """Ask once, and once more if the answer does not fit."""
        text = await self._ask(wire, tally, question)
        try:
            return tally.completion(parse(text, question.wanted))
        except Unusable as problem:
            demand = (
                f"That answer cannot be used: {problem}. Answer again with only the JSON that was asked for."
            )
        shown = cut(text, MAX_RAW_OUTPUT)[0]
        exchange = ({"role": "assistant", "content": shown}, {"role": "user", "content": demand})
        tally.repaired = True
        text = await self._ask(wire, tally, replace(question, messages=[*question.messages, *exchange]))
        try:
            return tally.completion(parse(text, question.wanted))
        except Unusable as problem:
            raise _unparsable(f"{problem} (also when asked again)", text) from problem

    async def _ask(self, wire: Wire, tally: Tally, question: Question) -> str:
        """The text of one answer, under the budget and the time limit."""
        import asyncio

        reserved = await self.budget.reserve(self._worst_usd(question))
        left = self.budget.seconds_left()
        limit = question.timeout_s
        seconds = limit if left is None else max(0.0, min(limit, left))
        cost: float | None = None  # whatever may have been billed counts with its worst case
        try:
            async with asyncio.timeout(seconds):
                reply = await self._attempts(wire, tally, question, wire.loop.time() + seconds)
            cost = tally.add(reply)
        except TimeoutError as problem:
            if seconds < limit:
                reason = f"max_seconds {self.budget.max_seconds:g} reached during a call"
                raise self.budget.stop(reason) from problem
            raise LLMError(
                f"no whole answer from {self.base_url} within {seconds:g} s", "timeout"
            ) from problem
        except LLMError as problem:
            if problem.error_kind in ("rate_limit", "provider", "agent"):  # refused before any work
                cost = 0.0
            raise
        finally:
            self.budget.settle(reserved, cost)
        return _usable(reply, answer_limit(self._dialect(question.model), question))

    async def _attempts(self, wire: Wire, tally: Tally, question: Question, ends: float) -> Reply:
        """Send until an answer comes, the failure is final, or the next attempt would be too late."""
        import asyncio

        openai, retries = sdk(), 0
        while True:
            request = body(self._dialect(question.model), question)
            tally.attempts += 1
            tally.temperature = request.get("temperature")
            try:
                response = await wire.post(request)
                outcome = replies.read(response, model=question.model, base_url=self.base_url)
                if isinstance(outcome, Reply):
                    return outcome
            except openai.APIStatusError as problem:
                tally.request_id = problem.request_id
                if self._learnt(question.model, request, problem):
                    continue
                outcome = self._failure(question.model, problem)
            except openai.APIConnectionError as problem:
                outcome = replies.unreachable(self.base_url, problem.__cause__)
            except TooLarge as problem:
                tally.text = problem.head
                raise _unparsable(str(problem), problem.head) from problem
            if not outcome.retry or retries >= self._retries:
                raise outcome.error(tally.attempts)
            wait = replies.wait_s(outcome, retries, self._first_wait_s, self._chance())
            if wire.loop.time() + wait >= ends:
                late = (
                    f"; the next attempt is due in {wait:.1f} s, past the limit of {question.timeout_s:g} s"
                )
                raise replace(outcome, message=outcome.message + late).error(tally.attempts)
            retries += 1
            await asyncio.sleep(wait)

    def _learnt(self, model: str, request: dict[str, Any], problem: openai.APIStatusError) -> bool:
        """Whether the refusal says how to ask better; remembered for every later call of this model."""
        words = replies.said(problem.body)
        better = adapted(self._dialect(model), request, problem.status_code, words, problem.param)
        if better is not None:
            self._dialects[model] = better
        return better is not None

    def _dialect(self, model: str) -> Dialect:
        return self._dialects.setdefault(model, dialect_of(model))

    def _failure(self, model: str, problem: openai.APIStatusError) -> Failure:
        status, headers = problem.status_code, problem.response.headers
        failure = replies.of_status(status, problem.body, headers, model=model, base_url=self.base_url)
        if len(self._api_key) >= MIN_KEY_CHARS:  # endpoints quote the key they refuse, whatever its shape
            return replace(failure, message=failure.message.replace(self._api_key, MARK))
        return failure

    def _worst_usd(self, question: Question) -> float:
        """The most that a call is foreseen to cost; nothing is foreseen when no USD cap is set."""
        if self.budget.max_usd is None:
            return 0.0
        chars = sum(len(str(message.get("content", ""))) for message in question.messages)
        prompt = (chars + len(question.wanted.text)) // CHARS_PER_TOKEN + 16 * len(question.messages)
        usage = pricing.Usage(prompt, answer_limit(self._dialect(question.model), question))
        price = self.settings(question.model).prices
        return pricing.cost(question.model, usage, provider=self.provider, override=price).usd or 0.0


def provider_of(base_url: str) -> str:
    """The name a provider goes by: `openai` for api.openai.com, `openrouter` for openrouter.ai, else the host."""
    host = urlsplit(base_url).hostname or base_url
    labels = host.split(".")
    return host if len(labels) < 2 or labels[-1].isdigit() or ":" in host else labels[-2]


def _first(*values: N | None) -> N:
    """The first that is said; the last always is."""
    return next(value for value in values if value is not None)


def _usable(reply: Reply, max_tokens: int) -> str:
    """The text of a reply that ended as it should."""
    if reply.refusal:
        raise LLMError(f"the model refused: {reply.refusal[:MAX_PARSE_ERROR]}", "parse", raw=reply.refusal)
    if reply.finish_reason == "length":
        thought = f", {reply.usage.thinking} of them spent on reasoning" if reply.usage.thinking else ""
        cut_off = (
            f"the answer was cut off at max_tokens {max_tokens}{thought}; raise max_tokens of its `model:`"
        )
        raise _unparsable(f"{cut_off} in {MANIFEST}", reply.text)
    if reply.finish_reason == "content_filter":
        raise _unparsable("the endpoint's content filter withheld the answer", reply.text)
    return reply.text


def _unparsable(problem: str, text: str) -> LLMError:
    return LLMError(f"{problem}; the answer begins: {text[:MAX_PARSE_ERROR]!r}", "parse", raw=text)
