"""A model call, whoever answers it: how it is asked, its result, its failure, and the one place where it is logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import asdict, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from telemetry.edge.frozen import frozen
from telemetry.edge.text import MAX_PARSE_ERROR, MAX_RAW_OUTPUT, cut, redact
from telemetry.logger import log_event, log_row, new_run_id, within
from telemetry.record.run import current_run, record_model_call
from telemetry.texts import keep

if TYPE_CHECKING:
    import asyncio

Message = Mapping[str, Any]
MOST_ROUNDS = 8  # in which a model may ask for tools before it has to answer
CACHED = "cache"  # the source of the cost of an answer that was not asked for again
# `json.dumps` would make one for each question.
_as_text = json.JSONEncoder(ensure_ascii=False, default=str).encode
NO_AGENT = "llm_client"  # who is named on the row of a call made outside any agent's run

# Sets one otherwise identical call apart from another, for a model that errs at random: the offline model draws its
# noise from (seed, label, messages), so two trials of a case err independently, and a rerun of either errs alike.
# Real models never see it.
trial_label: ContextVar[str] = ContextVar("trial_label", default="")


@frozen
class Sent:
    """A request that is about to leave, and the most that it may use: whoever dies before its answer left this."""

    model: str
    provider: str
    tokens_in: int
    tokens_out: int
    prices: tuple[float, float] | None  # USD per million tokens in and out, where they were given


# Who keeps a record of requests before they leave, for the trial that is running.
sending: ContextVar[Callable[[Sent], None] | None] = ContextVar("sending", default=None)


@frozen
class Completion:
    """One answered call. `cached` tokens are part of `tokens_in`, `thinking` part of `tokens_out`; None is unknown."""

    data: Any  # the parsed JSON answer
    raw: str  # the text it was parsed from
    model_asked: str
    model_answered: str | None
    provider: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    tokens_thinking: int | None = None
    cost_usd: float | None = None
    cost_source: str = "unknown"
    temperature: float | None = None  # None where the model takes none
    latency_ms: float = 0.0  # from the moment the call had its slot, waits between attempts included
    attempts: int = 1  # requests sent, the repair included
    request_id: str | None = None
    finish_reason: str | None = None
    price_list_version: str | None = None
    booked_usd: float | None = None  # what it took of a USD cap: unknown cost counts with its worst case
    repaired: bool = False  # the first answer was invalid; tokens and cost are those of both
    tool_calls: Sequence[Mapping[str, str]] = ()  # `id`, `name`, `arguments`: what it wants before it answers
    tools: Sequence[Mapping[str, Any]] = ()  # that it was offered
    messages: Sequence[Message] = ()  # as they were sent, those of the repair included
    first_raw: str | None = None  # the whole answer that had to be repaired


class LLMError(Exception):
    """A call that gave no usable answer: `error_kind` says whose fault, `raw` holds the start of what came."""

    def __init__(self, message: str, error_kind: str, *, raw: str | None = None) -> None:
        super().__init__(redact(message))
        self.error_kind = error_kind
        self.raw = None if raw is None else cut(redact(raw), MAX_PARSE_ERROR)[0]


class AnswerError(LLMError):
    """The model's answer does not have the shape, or the sense, that was asked for."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "parse")


class Model(Protocol):
    """Anything that answers messages with JSON; `async with aclosing(model)` lets go of its connections.

    An option of None is as the manifest's `model:` has it.
    """

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
    ) -> Completion: ...

    async def aclose(self) -> None:
        """Let go of what is held open; most models hold nothing."""
        return


async def ask(
    model: Model, system: str, payload: Mapping[str, Any], schema: Mapping[str, Any], /, **options: Any
) -> Completion:
    """The model's judgement on `payload` under a system text, its data checked against `schema`."""
    from agents.model.schema import problems

    user = _as_text(payload)
    messages: list[Message] = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    completion = await _completed(model, messages, schema, options)
    if wrong := problems(schema, completion.data):
        raise AnswerError(f"the answer does not match its schema: {'; '.join(wrong)}")
    return completion


async def _completed(
    model: Model, messages: list[Message], schema: Mapping[str, Any], options: Mapping[str, Any]
) -> Completion:
    """The answer, after the tools that the model asked for on the way; in the end it has to do without."""
    from agents.model.tools import answer_call, offered

    tools = [tool.definition for tool in offered()]
    for _ in range(MOST_ROUNDS if tools else 0):
        completion = await model.complete(messages, schema=schema, tools=tools, **options)
        if not completion.tool_calls:
            return completion
        messages += [
            {"role": "assistant", "content": None, "tool_calls": list(map(_asked, completion.tool_calls))}
        ]
        for call in completion.tool_calls:
            read = await answer_call(call["name"], call["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": read})
    return await model.complete(messages, schema=schema, **options)


def _asked(call: Mapping[str, str]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["id"], "type": "function", "function": function}


# Of the agent that is running, if any.
running_model: ContextVar[Model | None] = ContextVar("model", default=None)


def using_model(model: Model) -> AbstractContextManager[Model]:
    """`call_llm` inside the block asks this model: a plain function is under its run's budget like everyone."""
    return within(running_model, model)


class own_work:
    """At most so many seconds, not counting those in which an endpoint is asked: answers have a limit of their own.

    The timer is set once, and looks when it is due whether the time really is over: most runs end long before.
    """

    __slots__ = ("_asking", "_ends", "_since", "_timeout", "_timer", "_token", "loop", "over")

    def __init__(self, limit_s: float) -> None:
        import asyncio

        self.loop, self._timeout = asyncio.get_running_loop(), asyncio.timeout(None)
        self._asking, self._since, self._ends, self.over = 0, 0.0, self.loop.time() + limit_s, False

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._timer = self.loop.call_at(self._ends, self._look)
        self._token = _clock.set(self)

    async def __aexit__(self, *raised: Any) -> None:
        self.over = True
        _clock.reset(self._token)
        self._timer.cancel()
        await self._timeout.__aexit__(*raised)

    def stop(self) -> None:
        if not self._asking:
            self._since = self.loop.time()
        self._asking += 1

    def go(self) -> None:
        self._asking -= 1
        if not self._asking:
            due, self._ends = self._ends, self._ends + self.loop.time() - self._since
            if due <= self.loop.time():  # the timer may have looked meanwhile, when nobody was working
                self._timer.cancel()
                self._timer = self.loop.call_at(self._ends, self._look)

    def _look(self) -> None:
        if self._asking or self.over or self._timeout.expired():
            return
        if self._ends > self.loop.time():
            self._timer = self.loop.call_at(self._ends, self._look)
        else:
            self._timeout.reschedule(self.loop.time())


_clock: ContextVar[own_work | None] = ContextVar("clock", default=None)


class asking:
    """The clock of whoever asks stands still inside the block, in whichever thread that is."""

    __slots__ = ("_clock",)

    def __enter__(self) -> None:
        self._clock = _clock.get()
        if self._clock is not None:
            self._tell(self._clock.loop, self._clock.stop)

    def __exit__(self, *_: object) -> None:
        if self._clock is not None:
            self._tell(self._clock.loop, self._clock.go)

    def _tell(self, loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
        import asyncio

        what() if asyncio.get_running_loop() is loop else loop.call_soon_threadsafe(what)


_APART = ("data", "raw", "latency_ms", "messages", "first_raw", "tools", "tool_calls")
_LOGGED = tuple(field.name for field in fields(Completion) if field.name not in _APART)
_logged = attrgetter(*_LOGGED)
# Fields without words of others: names of the protocol, of functions, and hashes.
_HASHED = frozenset({"messages", "tools", "output_sha256", "first_output_sha256", "cost_source"})


def log_call(call: Completion, problem: LLMError | None = None) -> None:
    """Log one `llm_call` row and count the call towards the run around it.

    A failed call is given as far as it got: no data, and the text that came, if any.
    """
    run = current_run()
    row = dict(zip(_LOGGED, _logged(call), strict=True))
    row["model"] = call.model_answered or call.model_asked
    record_model_call(row, call.latency_ms)
    row["raw_output"], row["raw_output_truncated"] = cut(call.raw, MAX_RAW_OUTPUT)
    row["messages"] = [
        {"role": str(message.get("role")), "sha256": keep(_content(message))} for message in call.messages
    ]
    row["output_sha256"] = keep(call.raw) if call.raw else None
    row["tools"] = [
        {"name": tool["function"]["name"], "sha256": keep(json.dumps(tool, sort_keys=True))}
        for tool in call.tools
    ] or None
    if run is not None and len(run.tools) > run.tools_told:
        row["tool_calls"] = [asdict(one) for one in run.tools[run.tools_told :]]
        run.tools_told = len(run.tools)
    if call.first_raw is not None:
        row["first_output_sha256"] = keep(call.first_raw)
    if problem is not None:
        row |= {"error": str(problem), "error_kind": problem.error_kind}
    agent, run_id = (run.agent, run.run_id) if run else (NO_AGENT, new_run_id())
    row["kind"] = "llm_call"
    log_row(agent, run_id, call.latency_ms, row, _HASHED)


def _content(message: Message) -> str:
    """The words of a message; parts other than text as the JSON that was sent."""
    content = message.get("tool_calls") or message.get("content")
    return content if isinstance(content, str) else _as_text(content)


def log_lost(agent: str, calls: Sequence[Sent]) -> float | None:
    """Log the requests of one call whose answer nobody was there to hear; gives their price at worst, if known."""
    from telemetry.record import pricing

    last, worst = calls[-1], list[float | None]()
    for call in calls:
        used = pricing.Usage(call.tokens_in, call.tokens_out)
        override = None if call.prices is None else pricing.Override(*call.prices)
        worst.append(pricing.cost(call.model, used, provider=call.provider, override=override).usd)
    booked = None if None in worst else sum(filter(None, worst))
    row: dict[str, Any] = {name: None for name in _LOGGED if name not in ("repaired", "cost_usd")}
    row |= {"model": last.model, "model_asked": last.model, "provider": last.provider, "booked_usd": booked}
    row |= {"attempts": len(calls), "cost_source": "unknown", "error_kind": "lost"}
    error = "the process that asked died before the answer came; it may have been billed"
    log_event(agent, new_run_id(), None, kind="llm_call", error=error, **row)
    return booked
