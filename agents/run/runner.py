"""Runs one agent, today or over past days: whatever it does, the result is one row and one `Result`.

An agent that hangs, crashes, exits or returns garbage becomes an error of a known kind; so does a source that failed.
Inputs are loaded once per kind and day, frozen, named by a hash.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agents.base import BaseAgent, Item, build_agent, in_thread
from agents.domain import Source, SourceError
from agents.manifest import AgentSpec
from agents.model.call import Model
from agents.texts.prompt_set import PromptSet
from telemetry import logger
from telemetry.edge.files import Repo
from telemetry.logger import INFRASTRUCTURE
from telemetry.record.run import instrument_agent_call_async

OUTAGE: Final = 12  # runs in a row that failed for no fault of the agents: the endpoint is down
SOURCE_TIMEOUT_S: Final = 60.0  # the last net; a live loader has shorter limits of its own
_ROW: Final = (
    "ts", "source", "source_mode", "prompt_hash", "model", "provider", "latency_ms", "tokens_in", "tokens_out",
    "cost_usd", "cost_source", "signal_strength", "reward", "scoring_version", "error", "error_kind",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loaded:
    """One input as bytes, so that every agent gets a copy of its own, and its hash."""

    body: bytes
    hash: str
    as_of: str

    def copy(self) -> dict[str, Any]:
        import orjson

        payload: dict[str, Any] = orjson.loads(self.body)
        return payload


def packed(payload: Mapping[str, Any]) -> Loaded:
    """The payload frozen as bytes; equal content has an equal hash, whatever the order of keys."""
    import orjson

    digest = hashlib.sha256(orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Loaded(orjson.dumps(payload), digest[:12], str(payload.get("as_of") or "")[:10])


class Inputs:
    """Loads each kind of input once per day, whoever asks for it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._tasks: dict[tuple[str, str | None], asyncio.Task[Loaded | SourceError]] = {}

    async def get(self, kind: str, day: str | None) -> Loaded | SourceError:
        """The input, or why there is none: that becomes the row of everyone who asked."""
        key = (kind, day)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._load(kind, day))
        return await asyncio.shield(self._tasks[key])

    async def _load(self, kind: str, day: str | None) -> Loaded | SourceError:
        try:
            if self.source.mode == "snapshot":  # in memory after the first day: no thread needed
                return packed(self.source.load(kind, day))
            async with asyncio.timeout(SOURCE_TIMEOUT_S):
                return packed(await in_thread(lambda: self.source.load(kind, day)))
        except SourceError as problem:
            return problem
        except TimeoutError:
            return SourceError(f"{kind}: nothing from the source within {SOURCE_TIMEOUT_S:g} s")
        except Exception as problem:  # noqa: BLE001 - told on the rows of those who asked; the others go on
            return SourceError(f"{kind}: {type(problem).__name__}: {problem}")


@dataclass(frozen=True, slots=True)
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

    def document(self) -> dict[str, Any]:
        """What stands in `agents/outputs/<agent>.json`."""
        about = {name: getattr(self, name) for name in ("agent", "run_id", "as_of", "input_hash")}
        return about | {name: self.row.get(name) for name in _ROW} | {"output": self.output}


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs agents of one manifest on one model; keeps the agents it has built, and tells of every result."""

    prompts: PromptSet
    model: Model
    inputs: Inputs
    timeout_s: float | None  # instead of each agent's own
    tell: Callable[[Result], None] | None
    _agents: dict[str, BaseAgent] = field(default_factory=dict)

    async def watch(self, spec: AgentSpec, day: str | None) -> Result:
        """One run of an agent that reads the source, on what there is of that day."""
        return await self.run(spec, await self.inputs.get(spec.inputs, day), day)

    async def run(
        self, spec: AgentSpec, inputs: Loaded | SourceError, day: str | None = None, target: str | None = None
    ) -> Result:
        """One run, whatever happens in it: exactly one row in the log, never an exception."""
        given = inputs if isinstance(inputs, Loaded) else None
        as_of = day or (given.as_of if given else None) or None
        input_hash = given.hash if given else None
        run_id, output, unlogged = logger.new_run_id(), None, None
        fields: dict[str, Any] = {"run_id": run_id, "as_of": as_of, "input_hash": input_hash}
        fields |= {"source_mode": self.inputs.source.mode} | ({"target_agent": target} if target else {})
        with logger.watch() as rows:
            try:
                agent = self._agent(spec, inputs)
                if isinstance(agent, BaseAgent) and given:
                    output = await agent.arun(given.copy(), timeout_s=self.timeout_s, **fields)
                else:
                    await instrument_agent_call_async(spec.name, lambda: _refused(agent), **fields)
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - logged on its row; the others go on
                unlogged = f"{type(problem).__name__}: {problem}"
        row = next((row for row in reversed(rows) if row["run_id"] == run_id and row["kind"] == "run"), None)
        result = Result(spec.name, run_id, as_of, input_hash, output, row or {"error": unlogged}, target)
        if self.tell:
            self.tell(result)
        return result

    def _agent(self, spec: AgentSpec, inputs: Loaded | SourceError) -> BaseAgent | Exception:
        """The agent; or why there is none, to be logged as its run."""
        if isinstance(inputs, SourceError):
            return inputs
        if spec.name not in self._agents:
            try:
                self._agents[spec.name] = build_agent(spec, self.prompts, self.model)
            except (Exception, SystemExit) as problem:  # noqa: BLE001 - importing an agent may do anything
                return RuntimeError(f"{spec.module}: {type(problem).__name__}: {problem}")
        return self._agents[spec.name]


async def _refused(problem: object) -> None:
    assert isinstance(problem, Exception)
    raise problem


@dataclass(slots=True)
class Replay:
    """What a replay did."""

    days: Sequence[str]
    results: list[Result] = field(default_factory=list)
    skipped: int = 0
    stopped: str | None = None  # why it ended early


async def replay(specs: Sequence[AgentSpec], days: Sequence[str], runner: Runner, concurrency: int) -> Replay:
    """Run every agent on every day, oldest first, `concurrency` at a time."""
    known = already_replayed(runner.prompts.repo)
    # As its hash stands on the rows of the agent's runs.
    prompt = {spec.name: runner.prompts.hash(spec) if spec.prompt else None for spec in specs}
    todo = [(day, spec) for day in days for spec in specs if (spec.name, day, prompt[spec.name]) not in known]
    outcome = Replay(days, skipped=len(days) * len(specs) - len(todo))
    work, failing = iter(todo), 0

    async def worker() -> None:
        nonlocal failing
        for day, spec in work:
            if outcome.stopped:
                return
            result = await runner.watch(spec, day)
            outcome.results.append(result)
            failing = failing + 1 if result.error_kind in INFRASTRUCTURE else 0
            if result.error_kind == "budget":
                outcome.stopped = str(result.row.get("error"))
            elif failing >= OUTAGE:
                outcome.stopped = f"{failing} runs in a row failed, the last one: {result.row.get('error')}"

    with logger.source("replay"):
        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return outcome


def already_replayed(repo: Repo) -> set[tuple[str, str, str | None]]:
    """(agent, day, prompt hash) of earlier replays in live log and sealed data, failures of others left out."""
    from telemetry.read import store
    from telemetry.read.rows import Window

    rows = store.connect(repo, Window(source="replay", kind="run")).execute(
        "select agent, as_of, prompt_hash, error_kind from events where as_of is not null"
    )
    return {
        (agent, day, prompt) for agent, day, prompt, kind in rows.fetchall() if kind not in INFRASTRUCTURE
    }
