"""What is a model call, whoever answers it: its result, its failure, and the one place where it is logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from telemetry.edge.text import MAX_PARSE_ERROR, MAX_RAW_OUTPUT, cut, redact
from telemetry.logger import log_event, new_run_id
from telemetry.record.run import ModelCall, current_run, record_model_call

Message = Mapping[str, Any]
NO_AGENT = "llm_client"  # who is named on the row of a call made outside any agent's run


@dataclass(frozen=True, slots=True)
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
    latency_ms: float = 0.0  # from the moment the call had its slot, waits between attempts included
    attempts: int = 1  # requests sent, the repair included
    request_id: str | None = None
    finish_reason: str | None = None
    price_list_version: str | None = None
    repaired: bool = False  # the first answer was invalid; tokens and cost are those of both


class LLMError(Exception):
    """A call that gave no usable answer: `error_kind` says whose fault, `raw` holds the start of what came."""

    def __init__(self, message: str, error_kind: str, *, raw: str | None = None) -> None:
        super().__init__(redact(message))
        self.error_kind = error_kind
        self.raw = None if raw is None else cut(redact(raw), MAX_PARSE_ERROR)[0]


class Model(Protocol):
    """Anything that answers messages with JSON."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        temperature: float = 0.2,
        max_tokens: int = 1800,
        model: str | None = None,
    ) -> Completion: ...


_model: ContextVar[Model | None] = ContextVar("model", default=None)


@contextmanager
def using_model(model: Model) -> Iterator[None]:
    """`call_llm` inside the block asks this model: a plain function is under its run's budget like everyone."""
    token = _model.set(model)
    try:
        yield
    finally:
        _model.reset(token)


def current_model() -> Model | None:
    """The model of the agent that is running, if any."""
    return _model.get()


def log_call(call: Completion, problem: LLMError | None = None) -> None:
    """Log one `llm_call` row and count the call towards the run around it.

    A failed call is given as far as it got: no data, and the text that came, if any.
    """
    run = current_run()
    raw, truncated = cut(call.raw, MAX_RAW_OUTPUT)
    failure: dict[str, Any] = {}
    if problem is not None:
        failure = {"error": str(problem), "error_kind": problem.error_kind}
    log_event(
        run.agent if run else NO_AGENT,
        run.run_id if run else new_run_id(),
        call.latency_ms,
        call.cost_usd,
        call.tokens_in,
        call.tokens_out,
        kind="llm_call",
        model=call.model_answered or call.model_asked,
        model_asked=call.model_asked,
        model_answered=call.model_answered,
        provider=call.provider,
        tokens_cached=call.tokens_cached,
        tokens_thinking=call.tokens_thinking,
        cost_source=call.cost_source,
        price_list_version=call.price_list_version,
        attempts=call.attempts,
        request_id=call.request_id,
        finish_reason=call.finish_reason,
        repaired=call.repaired,
        raw_output=raw,
        raw_output_truncated=truncated,
        **failure,
    )
    record_model_call(
        ModelCall(
            tokens_in=call.tokens_in,
            tokens_out=call.tokens_out,
            cost_usd=call.cost_usd,
            cost_source=call.cost_source,
            tokens_thinking=call.tokens_thinking,
            price_list_version=call.price_list_version,
            model=call.model_answered or call.model_asked,
            provider=call.provider,
        )
    )
