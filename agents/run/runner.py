"""Runs one agent: whatever it does, the result is one row and one `Result`.

An agent that hangs, crashes, exits or returns garbage becomes an error of a known kind; so does a source that failed.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from agents.base import BaseAgent, Item, build_agent, task_of
from agents.manifest import AgentSpec
from agents.manifest.code import code_hash
from agents.model.call import Model
from agents.offline.model import OfflineModel
from agents.prompted import unknown_offline
from agents.run.inputs import Inputs, Loaded
from agents.sources.source import SourceError
from agents.texts.prompt_set import PromptSet
from telemetry import logger
from telemetry.edge.files import read_again
from telemetry.edge.frozen import frozen
from telemetry.record.run import instrument_agent_call_async
from telemetry.texts import keep

_ROW: Final = (
    "ts", "source", "source_mode", "prompt_hash", "model", "provider", "latency_ms", "tokens_in", "tokens_out",
    "cost_usd", "cost_source", "signal_strength", "reward", "scoring_version", "error", "error_kind",
)  # fmt: skip

NOTHING: Final[Mapping[str, Any]] = {}
# Given an agent that has `models`, the id of its run and what is known of its task: the agent with one of them.
Pick = Callable[[AgentSpec, str, Mapping[str, Any]], AgentSpec]


@frozen
class Result:
    """One run: its output, or None with the error on its row."""

    agent: str
    run_id: str
    as_of: str | None
    input_hash: str | None
    output: list[Item] | None
    row: Mapping[str, Any]
    target: str | None = None  # whom a reviewer reviewed

    @property
    def name(self) -> str:
        """For people: `reviewer of macro_watcher`."""
        return f"{self.agent} of {self.target}" if self.target else self.agent

    @property
    def error_kind(self) -> str | None:
        return None if self.output is not None else str(self.row.get("error_kind") or "agent")

    @property
    def skipped(self) -> bool:
        """Whether the offline model has no answer for such an agent: that is no run, and no failure."""
        return self.error_kind == "unknown_task"

    def document(self) -> dict[str, Any]:
        """What stands in `agents/outputs/<agent>.json`."""
        about = {name: getattr(self, name) for name in ("agent", "run_id", "as_of", "input_hash")}
        return about | {name: self.row.get(name) for name in _ROW} | {"output": self.output}


@frozen
class Runner:
    """Runs agents of one manifest on one model; keeps the agents it has built, and tells of every result."""

    prompts: PromptSet
    model: Model
    inputs: Inputs
    timeout_s: float | None  # instead of each agent's own
    tell: Callable[[Result], None] | None
    pick: Pick | None = None  # which of its models an agent asks
    _agents: dict[tuple[str, str | None], BaseAgent] = field(default_factory=dict)
    _code: dict[str, str] = field(default_factory=dict)  # hashes by module: what was imported stays as it was

    async def watch(self, spec: AgentSpec, day: str | None) -> Result:
        """One run of an agent that reads the source, on what there is of that day."""
        day = day or self.inputs.latest(spec)
        return await self.run(spec, await self.inputs.get(spec, day), day)

    async def run(
        self,
        spec: AgentSpec,
        inputs: Loaded | SourceError,
        day: str | None = None,
        target: str | None = None,
        run_id: str | None = None,
        about: Mapping[str, Any] = NOTHING,
    ) -> Result:
        """One run, whatever happens in it: exactly one row in the log, never an exception.

        What the offline model has no answer for is not run, and leaves no row.
        `about` says on its rows what task it was.
        """
        given = inputs if isinstance(inputs, Loaded) else None
        as_of = day or (given.as_of if given else None) or None
        input_hash = given.hash if given else None
        run_id, output, unlogged = run_id or logger.new_run_id(), None, None
        fields: dict[str, Any] = {"run_id": run_id, "as_of": as_of, "input_hash": input_hash}
        fields["code_hash"] = self._code_hash(spec)
        fields["input_sha256"] = keep(given.body.decode()) if given else None
        fields |= {"source_mode": self.inputs.mode_of(spec)} | ({"target_agent": target} if target else {})
        if given and self.offline and (why := unknown_offline(spec, self.prompts, given.copy())):
            row = {"error": why, "error_kind": "unknown_task", "ts": logger.utc_now()}
            return self._told(Result(spec.name, run_id, as_of, input_hash, None, row, target))
        task = task_of(spec, given and given.tenant, f"{spec.inputs}:{given.hash}" if given else None)
        task |= {name: value for name, value in about.items() if value is not None}
        if self.pick and spec.models:
            spec = self.pick(spec, run_id, task)
        with logger.task(**task), logger.watch() as rows:
            try:
                agent = self._agent(spec, inputs)
                if isinstance(agent, BaseAgent) and given:
                    output = await agent.arun(given.copy(), timeout_s=self.timeout_s, **fields)
                else:
                    await instrument_agent_call_async(spec.name, lambda: _refused(agent), **fields)
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - logged on its row; the others go on
                unlogged = f"{type(problem).__name__}: {problem}"
        own = (row for row in reversed(rows) if row["run_id"] == run_id and row["kind"] == "run")
        logged = next(own, {"error": unlogged})
        return self._told(Result(spec.name, run_id, as_of, input_hash, output, logged, target))

    @property
    def offline(self) -> bool:
        """Whether nobody but the offline model is asked."""
        return isinstance(getattr(self.model, "inner", self.model), OfflineModel)

    def _told(self, result: Result) -> Result:
        if self.tell:
            self.tell(result)
        return result

    def terms(self, spec: AgentSpec) -> tuple[str | None, str]:
        """The hashes of prompt and code, as they stand on the agent's rows: under others a run is another run."""
        return (self.prompts.hash(spec) if spec.prompt else None), self._code_hash(spec)

    def _code_hash(self, spec: AgentSpec) -> str:
        if spec.command is None:
            named = (spec.module, *(tool.partition(":")[0] for tool in spec.tools))
            for module in named:
                if module not in self._code:
                    self._code[module] = code_hash(module)
            return "+".join(self._code[module] for module in dict.fromkeys(named))
        text = hashlib.sha256(spec.command.encode())
        for word in shlex.split(spec.command):
            if (file := self.prompts.repo / word).is_file():
                text.update(read_again(file))
        return text.hexdigest()[:12]

    def _agent(self, spec: AgentSpec, inputs: Loaded | SourceError) -> BaseAgent | Exception:
        """The agent; or why there is none, to be logged as its run."""
        if isinstance(inputs, SourceError):
            return inputs
        key = (spec.name, spec.model)
        if key not in self._agents:
            try:
                self._agents[key] = build_agent(spec, self.prompts, self.model)
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - importing an agent may do anything
                return RuntimeError(f"{spec.module}: {type(problem).__name__}: {problem}")
        return self._agents[key]


async def _refused(problem: object) -> None:
    assert isinstance(problem, Exception)
    raise problem
