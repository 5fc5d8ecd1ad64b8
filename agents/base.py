"""What every agent shares: one instrumented run, a time limit, a checked answer, a checked output.

A subclass writes `analyze(inputs) -> list[dict]`, plain or async, and calls `ask` for judgement:

    class Mine(BaseAgent):
        async def analyze(self, inputs):
            answer = await self.ask({"numbers": [1, 2]}, ANSWER_SCHEMA)
            return answer["items"]

The model's text is untrusted: an answer that breaks its schema is a `parse` error, an output that breaks the
agent's schema is an `agent` error, and neither reaches anyone as a result.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agents.domain import Signals, signals_of
from agents.iterate import feedback, until_good
from agents.manifest import AgentSpec
from agents.manifest.code import load_code
from agents.model import schema as schema_check
from agents.model.call import AnswerError as AnswerError  # what agents raise
from agents.model.call import Model, ask, own_work, using_model
from agents.model.threads import in_thread as in_thread
from agents.model.tools import Tool, described, offering
from agents.texts.prompt_set import PromptSet
from telemetry.edge.errors import BadInput
from telemetry.edge.files import read_again
from telemetry.edge.records import load_json
from telemetry.record.run import current_run, instrument_agent_call_async
from telemetry.texts import keep

T = TypeVar("T")
TENANT = "RATCHET_TENANT"  # for whom the agents of this machine work, where inputs do not say it
Item = dict[str, Any]
Inputs = Mapping[str, Any]
# `json.dumps` with options makes an encoder each time.
_as_text = json.JSONEncoder(ensure_ascii=False).encode
_as_strict_text = json.JSONEncoder(allow_nan=False).encode


class AgentError(Exception):
    """The agent did something it may not do."""

    error_kind = "agent"


class InputError(AgentError):
    """The inputs cannot be read: the source's fault, not the agent's."""

    error_kind = "source"


def task_of(spec: AgentSpec, inputs: Any, task_id: str | None) -> dict[str, str | None]:
    """What rows say of the task that an agent is given: its kind and complexity as the manifest has them.

    Whose it is say the inputs themselves (`tenant_id`), else `RATCHET_TENANT`.
    """
    told = inputs.get("tenant_id") if isinstance(inputs, Mapping) else None
    named = type(told) in (str, int)
    tenant = str(told) if named else os.environ.get(TENANT)
    kind = spec.task_type or next(iter(spec.capabilities), spec.name)
    about = {"task_type": kind, "complexity": spec.complexity}
    return {"task_id": task_id, **about, "tenant_id": tenant or None}


class BaseAgent:
    """An agent of the manifest with its prompts and its model."""

    all_calls_counted = True  # every model call it makes reports itself: a run without any cost nothing

    def __init__(self, spec: AgentSpec, prompts: PromptSet, model: Model) -> None:
        self.spec = spec
        self.prompts = prompts
        self.model = model
        self._output_schema: dict[str, Any] | None = None

    def analyze(self, inputs: Inputs) -> Any:
        """What the agent finds: a list of items, or an awaitable of one."""
        raise NotImplementedError(f"{type(self).__name__} has no analyze(inputs)")

    async def ask(self, payload: Mapping[str, Any], schema: Mapping[str, Any]) -> Item:
        """The model's judgement on `payload`, checked against `schema`."""
        question = {"task": self.spec.name, **payload}
        if said := feedback.get():
            question["feedback"] = list(said)
        system = self.prompts.system(self.spec)
        answer: Item = (await ask(self.model, system, question, schema, **self._asking)).data
        return answer

    # What is the same in all its runs.
    @functools.cached_property
    def _asking(self) -> dict[str, Any]:
        return self.spec.asking

    @functools.cached_property
    def _signals(self) -> Signals:
        return signals_of(self.spec)

    @functools.cached_property
    def _items_schema(self) -> dict[str, Any]:
        return schema_check.array(self.output_schema())

    @functools.cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.analyze)

    @functools.cached_property
    def _budgeted(self) -> bool:
        """Whether there is a limit that a run has to keep."""
        budget = getattr(self.model, "budget", None)
        limits = ("max_usd", "max_calls", "max_seconds")
        return any(getattr(budget, limit, None) is not None for limit in limits)

    @functools.cached_property
    def tools(self) -> tuple[Tool, ...]:
        """What it may use while it works."""
        where = f"agents.{self.spec.name}.tools"
        return tuple(described(load_code(name, where)) for name in self.spec.tools)

    def run(self, inputs: Inputs, **fields: Any) -> list[Item]:
        """`arun` for callers without an event loop."""
        return asyncio.run(self.arun(inputs, **fields))

    async def arun(self, inputs: Inputs, *, timeout_s: float | None = None, **fields: Any) -> list[Item]:
        """One run: analyze within the time limit, check the output, log one row. `fields` go on the row."""
        limit = self.spec.timeout_s if timeout_s is None else timeout_s
        if self.spec.prompt:
            fields.setdefault("prompt_hash", self.prompts.hash(self.spec))

        async def attempt() -> list[Item]:
            return self.checked(await self._analyzed(inputs))

        async def once() -> list[Item]:
            try:
                async with own_work(limit):
                    with using_model(self.model), offering(self.tools):
                        plan = self.spec.iterate
                        output = await (until_good(attempt, plan, inputs) if plan else attempt())
                self.note(output_sha256=keep(_as_text(output)))
                return output
            except TimeoutError as late:
                raise TimeoutError(str(late) or f"no result after {limit:g} s") from late

        return await instrument_agent_call_async(
            self.spec.name,
            once,
            weights=self.spec.reward,
            read=self._signals,
            all_calls_counted=self.all_calls_counted,
            budgeted=self._budgeted,
            **fields,
        )

    def checked(self, output: object) -> list[Item]:
        """`output` if it is a list of JSON items that match the agent's output schema."""
        if not isinstance(output, list):
            raise AgentError(f"the output must be a list of items, not {type(output).__name__}")
        try:
            _as_strict_text(output)
        except (TypeError, ValueError, RecursionError) as error:
            raise AgentError(f"the output cannot be written as JSON: {error}") from error
        if wrong := schema_check.problems(self._items_schema, output):
            where = self.spec.output_schema or "an item"
            raise AgentError(f"the output does not match {where}: {'; '.join(wrong)}")
        return output

    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of one item; any mapping for an agent that declares none."""
        path = self.spec.output_schema
        if self._output_schema is None and path is not None:
            try:
                self._output_schema = load_json(read_again(self.prompts.repo / path))
            except (OSError, ValueError) as error:
                raise BadInput(f"{path}: cannot be read: {error}") from error
        return {"type": "object"} if self._output_schema is None else self._output_schema

    def note(self, **fields: Any) -> None:
        """Put something on the row of the run in progress, e.g. a suspected injection."""
        run = current_run()
        if run is not None:
            run.fields.update(fields)

    async def _analyzed(self, inputs: Inputs) -> Any:
        if self._is_async:
            return await self.analyze(inputs)
        found = await in_thread(lambda: self.analyze(inputs))
        return await found if inspect.isawaitable(found) else found


class CallableAgent(BaseAgent):
    """A plain function, or a method of a class that is not a `BaseAgent`, as an agent.

    One that takes a `prompt` is given its system text, a challenger's in a trial: `def triage(inputs, prompt): ...`.
    """

    def __init__(self, spec: AgentSpec, prompts: PromptSet, model: Model, fn: Callable[..., Any]) -> None:
        super().__init__(spec, prompts, model)
        if "prompt" in inspect.signature(fn).parameters:
            fn = functools.partial(fn, prompt=prompts.system(spec))
        self.analyze = fn  # type: ignore[method-assign]


def build_agent(spec: AgentSpec, prompts: PromptSet, model: Model) -> BaseAgent:
    """The agent that a manifest entry describes, ready to run."""
    owner, _, method = spec.callable.partition(".")
    try:
        found = getattr(importlib.import_module(spec.module), owner)
    except (ImportError, AttributeError) as error:
        named = f"agents.{spec.name}: {spec.module}.{spec.callable}"
        raise AgentError(f"{named} cannot be loaded: {error}") from error
    if isinstance(found, type) and issubclass(found, BaseAgent):
        return found(spec, prompts, model)
    return CallableAgent(spec, prompts, model, getattr(found(), method) if method else found)


def items_of(inputs: Inputs, field: str, where: str) -> list[Any]:
    """A list that inputs must have; `where` names them in the complaint."""
    given = inputs.get(field)
    if not isinstance(given, list):
        raise InputError(f"{where}: {field} must be a list")
    return given


def joined(answer: Item, key: str, given: Mapping[str, T]) -> list[tuple[Item, T]]:
    """Each item of an answer with what was given under its `key`, once; one about anything else spoils the answer."""
    found: dict[str, tuple[Item, T]] = {}
    for item in answer["items"]:
        name = item[key]
        if name not in given:
            what = key.removesuffix("_id")
            raise AnswerError(f"the answer names a {what} that was not given: {name[:40]!r}")
        found.setdefault(name, (item, given[name]))
    return list(found.values())
