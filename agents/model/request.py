"""Puts a question in the dialect of its model: what an endpoint supports is learnt from its refusals, once per model.

Structured output goes down a ladder, one rung per refusal (HTTP 400 or 422 that names the response format):
`strict` (json_schema, enforced while decoding) -> `schema` (json_schema, best effort) -> `object` (json_object,
the schema in the prompt) -> `plain` (the schema in the prompt only). Whatever the rung, the answer is checked
here against the schema. Models that refuse `temperature`, or want `max_completion_tokens` for `max_tokens`, are
asked without the one and with the other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.model.answer import Contract
from agents.model.call import Message
from telemetry.edge.frozen import frozen

RUNGS = ("strict", "schema", "object", "plain")
REFUSALS = (400, 404, 415, 422, 501)  # statuses by which endpoints refuse a parameter

_FORMAT = re.compile(
    r"response[_ ]?format|json[_ ]?schema|json[_ ]?object|json mode|structured output", re.IGNORECASE
)
_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_RULES = re.compile(r"^```rules[ \t]*\n.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
# Which analyst applies a block, and where it finds its records: the offline model's affair.
_PLUMBING = re.compile(r"^(?:analyst|list|id_field):.*\n", re.MULTILINE)


# Models of OpenAI's that reason by default, also behind a router (`openai/gpt-6-luna`). They refuse `temperature`.
_REASONS = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d))(?![a-z0-9])(?!.*-chat)")
REASONING_TOKENS = 8192  # that such a model may think, beyond its answer


@frozen
class Dialect:
    """What is known of one model so far."""

    rung: str = "strict"
    temperature: bool = True
    limit_key: str = "max_tokens"
    reasons: bool = False


def dialect_of(model: str) -> Dialect:
    """What its name says of a model; the rest is learnt."""
    if _REASONS.match(model):
        return Dialect(temperature=False, limit_key="max_completion_tokens", reasons=True)
    return Dialect()


@frozen
class Question:
    """What is asked, before it is put in any dialect."""

    model: str
    messages: Sequence[Message]
    wanted: Contract
    temperature: float
    max_tokens: int
    timeout_s: float
    tools: Sequence[Mapping[str, Any]] = ()  # definitions


def _rung(dialect: Dialect, question: Question) -> str:
    """The highest rung that both the model and the contract allow."""
    rung, wanted, messages = dialect.rung, question.wanted, question.messages
    if wanted.schema is None:
        # OpenAI accepts json_object only if some message speaks of JSON.
        speaks = any("json" in str(message.get("content", "")).lower() for message in messages)
        return "object" if rung != "plain" and speaks else "plain"
    if not wanted.is_object:
        return "plain"
    return "schema" if rung == "strict" and not wanted.strict else rung


def answer_limit(dialect: Dialect, question: Question) -> int:
    """The tokens that an answer may have, reasoning included."""
    return question.max_tokens + (REASONING_TOKENS if dialect.reasons else 0)


def body(dialect: Dialect, question: Question) -> dict[str, Any]:
    """The request in the model's dialect."""
    rung, wanted = _rung(dialect, question), question.wanted
    request: dict[str, Any] = {
        "model": question.model,
        "messages": [_readable(message) for message in question.messages],
        dialect.limit_key: answer_limit(dialect, question),
    }
    if dialect.temperature:
        request["temperature"] = question.temperature
    if question.tools:
        request["tools"] = list(question.tools)
    if rung in ("strict", "schema"):
        assert wanted.schema is not None
        name = _NAME.sub("_", str(wanted.schema.get("title", "")))[:64] or "answer"
        shape = wanted.strict if rung == "strict" else wanted.schema
        described = {"name": name, "schema": shape, "strict": rung == "strict"}
        request["response_format"] = {"type": "json_schema", "json_schema": described}
        return request
    if rung == "object":
        request["response_format"] = {"type": "json_object"}
    if wanted.schema is not None:
        request["messages"] = _told(request["messages"], wanted.text)
    return request


def _readable(message: Message) -> Message:
    """A system message without the lines that only the offline model needs."""
    text = message.get("content")
    if message.get("role") != "system" or not isinstance(text, str) or "```rules" not in text:
        return message
    return {**message, "content": without_plumbing(text)}


@functools.lru_cache(maxsize=64)
def without_plumbing(text: str) -> str:
    """A prompt whose `rules` blocks say no more than what they mean to a reader; a block of nothing else is gone."""
    return _RULES.sub(lambda block: _PLUMBING.sub("", block[0]), text).replace("```rules\n```", "").rstrip()


def _told(messages: Sequence[Message], schema: str) -> list[Message]:
    """The messages with the schema spelt out at the end of the system message."""
    demand = (
        "Answer with one JSON value and nothing else: no prose, no code fence. It must conform to this"
        f" JSON Schema:\n{schema}"
    )
    if messages and messages[0].get("role") == "system":
        first = {**messages[0], "content": f"{messages[0].get('content', '')}\n\n{demand}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": demand}, *messages]


def adapted(
    dialect: Dialect, sent: dict[str, Any], status: int, said: str, param: str | None
) -> Dialect | None:
    """The dialect after a refusal of what was `sent`, or None if the refusal is about something else."""
    if status not in REFUSALS:
        return None
    named = f"{param or ''} {said}"
    if "max_tokens" in sent and "max_completion_tokens" in named:
        return replace(dialect, limit_key="max_completion_tokens")
    if "max_completion_tokens" in sent and "max_completion_tokens" in named:
        return replace(dialect, limit_key="max_tokens")
    if "temperature" in sent and "temperature" in named.lower():
        return replace(dialect, temperature=False)
    if "response_format" in sent and _FORMAT.search(named):
        described = sent["response_format"].get("json_schema")
        below = "plain" if described is None else "schema" if described["strict"] else "object"
        # Calls in flight may have come further down already.
        return replace(dialect, rung=max(below, dialect.rung, key=RUNGS.index))
    return None
