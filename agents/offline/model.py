"""The model that needs no key: applies the prompt's rules to the question, for real, and nothing else.

It takes the fenced `rules` of the system text and answers the JSON question of the last user message by an analyst:
one of the engine's (analysts.py) or one it was given, each with naive defaults for a prompt without rules. So a better
rule really scores better. Where none fits it says so, and gives no answer at all. The answer is fitted to the schema
that was asked for, so a text inside the question can never change its shape.

Deterministic. With `noise` P, a call errs with probability P (noise.py); what is drawn depends on the seed, the
messages and the nonce alone: trials of one case, told apart by their nonce, err independently, and a rerun errs alike.
Rows and reports say `provider: "offline"`; it costs 0.0 USD, a token is taken as 4 characters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agents.model.call import Completion, LLMError, Message, Model, log_call, trial_label
from agents.offline import rules
from agents.offline.rules import Analyst, chosen
from telemetry.edge.records import is_number

NAME = "offline-rules-1"
CHARS_PER_TOKEN = 4
_as_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_TEACH = "set a model, or give the prompt a rules block of kind classify"
UNKNOWN_TASK = f"the offline model does not know this task; {_TEACH}"


class UnknownTask(LLMError):
    """No analyst fits the question: that says nothing about the agent, which is skipped rather than scored."""

    def __init__(self) -> None:
        super().__init__(UNKNOWN_TASK, "unknown_task")


class OfflineModel(Model):
    """Answers by the rules of the prompt; `noise` is the share of calls that err."""

    provider, model = "offline", NAME

    def __init__(
        self, noise: float = 0.0, seed: int = 0, analysts: Mapping[str, Analyst] | None = None
    ) -> None:
        from agents.offline.analysts import GENERIC  # its tables are for those who ask no endpoint

        if not 0.0 <= noise <= 1.0:
            raise ValueError(f"noise must be between 0 and 1, not {noise}")
        self.noise, self.seed = noise, seed
        self.analysts = {**GENERIC, **(analysts or {})}

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
        """One answer, logged like any model's. Sampling options and limits mean nothing here.

        An analyst that wants a tool calls it itself, by `call_tool`.
        """
        start = time.perf_counter()
        system, user = _texts(messages)
        problem: UnknownTask | None = None
        try:
            data = self.answer(system, user, schema)
        except UnknownTask as unknown:
            data, problem = None, unknown
        raw = "" if problem else _as_text(data)
        call = Completion(
            data=data,
            raw=raw,
            model_asked=model or NAME,
            model_answered=NAME,
            provider=self.provider,
            tokens_in=_tokens(system) + _tokens(user),
            tokens_out=_tokens(raw),
            tokens_cached=0,
            tokens_thinking=0,
            cost_usd=0.0,
            cost_source="provider",
            latency_ms=round((time.perf_counter() - start) * 1000, 3),
            finish_reason="no_analyst" if problem else "stop",
            messages=messages,
            tools=tools,
        )
        log_call(call, problem)
        if problem:
            raise problem
        return call

    def answer(self, system: str, user: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a question under a system text: pure, but for the label of the trial."""
        payload = _payload(user)
        told = rules.read(system)
        analyst = chosen(self.analysts, told, payload)
        if analyst is None:
            raise UnknownTask
        answer = analyst.answer(told, payload)
        if self.noise:
            from agents.offline import noise

            draw = noise.generator(str(self.seed), trial_label.get(), system, user)
            subjects = [one.subject for one in self.analysts.values() if one.subject]
            answer = noise.perturbed(answer, payload, schema, self.noise, draw, subjects)
        return answer if schema is None else fitted(answer, schema)


def fitted(value: Any, schema: Mapping[str, Any]) -> Any:
    """`value` with what the schema requires and nothing it does not know; a missing part gets a neutral value."""
    if "enum" in schema:
        return value if value in schema["enum"] else schema["enum"][0]
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "object" in kinds and "properties" in schema:
        given = value if isinstance(value, Mapping) else {}
        parts: Mapping[str, Any] = schema["properties"]
        wanted = {name for name in parts if name in given} | set(schema.get("required", ()))
        known = {name: fitted(given.get(name), parts.get(name, {})) for name in parts if name in wanted}
        closed = schema.get("additionalProperties") is False
        return known if closed else {**given, **known}
    if "array" in kinds:
        entries = value if isinstance(value, list) else []
        return [fitted(entry, schema.get("items") or {}) for entry in entries]
    return _fitted_scalar(value, kinds, schema)


def _fitted_scalar(value: Any, kinds: Sequence[Any], schema: Mapping[str, Any]) -> Any:
    if value is None and "null" in kinds:
        return None
    if "string" in kinds:
        text = "" if value is None else str(value)
        text = text or "n/a" if schema.get("minLength") else text
        return text[: schema.get("maxLength")]
    if "number" in kinds or "integer" in kinds:
        number = _as_number(value)
        number = min(schema.get("maximum", number), max(schema.get("minimum", number), number))
        return int(number) if "number" not in kinds else number
    if "boolean" in kinds:
        return value if isinstance(value, bool) else False
    return value


def _as_number(value: Any) -> float:
    """A number, also one that was read in a text; 0 for anything else."""
    if isinstance(value, str):
        try:
            value = float(value.replace(",", ""))
        except ValueError:
            return 0
    return value if is_number(value) else 0


def _texts(messages: Sequence[Message]) -> tuple[str, str]:
    """All system text, and the last user message."""
    system = "\n\n".join(str(message["content"]) for message in messages if message.get("role") == "system")
    users = [str(message["content"]) for message in messages if message.get("role") == "user"]
    return system, users[-1] if users else "{}"


def _payload(user: str) -> dict[str, Any]:
    try:
        payload = json.loads(user)
    except ValueError:
        return {"text": user}
    return payload if isinstance(payload, dict) else {"value": payload}


def _tokens(text: str) -> int:
    return -(-len(text) // CHARS_PER_TOKEN)
