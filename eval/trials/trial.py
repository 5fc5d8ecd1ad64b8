"""One trial and what came of it: one agent, with one arm's prompts, on one case, graded."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from agents.base import BaseAgent, in_thread, task_of
from agents.manifest import AgentSpec
from agents.manifest.code import load_code
from agents.model.call import CACHED, Completion, Message, Model, trial_label
from agents.texts.prompt_set import PromptSet
from eval.grading.graders import Grade, Part
from eval.grading.judge import Judge, grade_judged
from eval.grading.rubric import Rubric, gated, rubric, rubric_row
from eval.grading.suite import Case
from eval.trials.turns import Turn, turn_data
from telemetry import logger
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.text import MAX_ERROR, cut
from telemetry.logger import INFRASTRUCTURE
from telemetry.record.run import error_kind

Identity = tuple[str, str, str, int]

# Fields of an `llm_call` row that make up a turn of a trial.
_TURN = (
    *("model_asked", "model_answered", "provider", "latency_ms", "tokens_in", "tokens_out", "cost_usd"),
    *("temperature", "attempts", "request_id", "finish_reason", "error_kind"),
)
# What a trial takes from the `run` row of its agent.
_RUN = ("cost_usd", "tokens_in", "tokens_out", "tokens_thinking", "prompt_hash", "price_list_version")
# What an `evaluation` row takes from its trial.
_GRADED = (
    *("error", "error_kind", "arm", "case_id", "trial_no", "ok", "score", "prompt_hash", "model"),
    *("model_answered", "provider"),
)

_OURS = frozenset({"split", "case_hash", "rubric", "gates", "error_kind"})  # of that, no words of others

_asked: ContextVar[list[_Exchange] | None] = ContextVar("asked", default=None)


class Recorder(Model):
    """A model that notes, for the trial it is asked in, what it was asked (hashes of the messages) and answered."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.budget = getattr(model, "budget", None)

    async def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Pass the call on."""
        asked, done = _asked.get(), None
        try:
            done = await self.model.complete(messages, **options)
            return done
        finally:
            if asked is not None:
                hashes = [_short_hash(str(message.get("content"))) for message in messages]
                asked.append(_Exchange(hashes, None if done is None else done.data))


@frozen
class _Exchange:
    messages_sha256: list[str]
    answer: Any


@frozen
class Job:
    """One trial to run."""

    arm: str
    prompts: PromptSet
    spec: AgentSpec
    case: Case
    trial_no: int = 0

    @property
    def identity(self) -> Identity:
        """What makes this trial this trial, within one configuration."""
        return (self.arm, self.spec.name, self.case.id, self.trial_no)


@frozen
class Trial:
    """What came of a job."""

    arm: str
    agent: str
    case_id: str
    trial_no: int
    ok: bool | None
    score: float | None
    error: str | None
    error_kind: str | None
    latency_ms: float
    cost_usd: float | None
    cost_source: str
    tokens_in: int | None
    tokens_out: int | None
    tokens_thinking: int | None
    output: Any
    reasons: tuple[str, ...]  # what went wrong, by grader
    parts: tuple[Part, ...]
    rubric: Rubric | None
    run_id: str
    prompt_hash: str | None
    model: str | None  # as asked
    model_answered: str | None
    provider: str | None
    price_list_version: str | None
    turns: tuple[Mapping[str, Any], ...] = ()  # one per model call
    raw_output: str | None = None  # only if it did not parse
    resumed: bool = False  # taken from the journal, not run

    @property
    def counted(self) -> bool:
        """Whether it says something about the agent; an outage does not."""
        return self.score is not None

    @property
    def identity(self) -> Identity:
        """The identity of the job it came from."""
        return (self.arm, self.agent, self.case_id, self.trial_no)


Answered = Callable[[], Awaitable[None]]


async def run_trial(
    job: Job,
    agent: BaseAgent,
    judge: Judge,
    answered: Answered | None = None,
    row_id: str | None = None,
    *,
    on_record: bool = False,
) -> Trial:
    """Run and grade one trial; `answered` is awaited before grading an answer.

    Its `evaluation` row is logged, under that id if one is given, unless it is on record already.
    """
    with logger.task(**task_of(job.spec, job.case.input, f"{job.spec.name}/{job.case.id}")):
        trial, reused, turns = await _run_trial(job, agent, judge, answered)
        if not on_record:
            _log_evaluation(trial, job.case, row_id, reused, turns)
        return trial


Ran = tuple[Trial, bool | None, "tuple[Turn, ...] | None"]


async def _run_trial(job: Job, agent: BaseAgent, judge: Judge, answered: Answered | None) -> Ran:
    """The trial, whether all its answers came from the cache, and its turns as far as they are known."""
    run_id = logger.new_run_id()
    marked = trial_label.set("/".join(map(str, job.identity)))
    start = time.perf_counter()
    output: Any = None
    problem: Exception | None = None
    graded: Grade | None = None
    asked: list[_Exchange] = []
    noted = _asked.set(asked)
    with logger.watch() as rows:
        try:
            output = await call_agent(job, agent, run_id)
        except BadInput:
            raise
        except Exception as raised:  # noqa: BLE001 - whatever an agent raises is this trial's result
            problem = raised
    took_ms = round((time.perf_counter() - start) * 1000, 3)
    _asked.reset(noted)
    trial_label.reset(marked)
    if answered is not None and problem is None:
        await answered()
    case = job.case
    if problem is None:
        try:
            graded = await grade_judged(case.expect, output, case.input, judge, case.threshold)
        except Exception as raised:
            if error_kind(raised) not in INFRASTRUCTURE:  # a broken suite, or a bug: not the agent's loss
                raise
            problem = raised
    run = next((row for row in rows if row["kind"] == "run" and row["run_id"] == run_id), {})
    calls = [row for row in rows if row["kind"] == "llm_call"]
    kind = None if problem is None else error_kind(problem)
    outage = kind in INFRASTRUCTURE
    parts = graded.parts if graded else ()
    taken: dict[str, Any] = {name: run.get(name) for name in _RUN}
    trial = Trial(
        *job.identity,
        ok=None if outage else graded is not None and graded.ok,
        score=None if outage else graded.score if graded else 0.0,
        error=None if problem is None else cut(f"{type(problem).__name__}: {problem}", MAX_ERROR)[0],
        error_kind=kind,
        latency_ms=run.get("latency_ms", took_ms),
        cost_source=run.get("cost_source") or "unknown",
        **taken,
        output=output,
        reasons=graded.reasons if graded else (),
        parts=parts,
        rubric=None if outage else rubric(parts, case.expect, case.tags, output, taken["cost_usd"], kind),
        run_id=run_id,
        model=_last(calls, "model_asked"),
        model_answered=_last(calls, "model_answered"),
        provider=run.get("provider") or _last(calls, "provider"),
        turns=_turns(calls, asked),
        raw_output=_last(calls, "raw_output") if kind == "parse" else None,
    )
    from_cache = bool(calls) and all(row["cost_source"] == CACHED for row in calls)
    answers = [one.answer for one in asked]
    turns = turn_data(calls, answers, case, trial.score) if len(asked) == len(calls) else None
    return trial, True if from_cache else None, turns


async def call_agent(job: Job, agent: BaseAgent, run_id: str) -> Any:
    """The value to grade: the agent's output, or what the eval adapter makes of it.

    An adapter is `module:function`, called as `function(case, call)` with the case as a mapping. `call(inputs)` runs
    the agent; an async adapter awaits it, a plain one (in a thread) just calls it. It returns the value to grade.
    """

    async def call(inputs: Any) -> Any:
        return await agent.arun(inputs, run_id=run_id)

    if not job.spec.eval_adapter:
        return await call(job.case.input)
    adapter = load_code(job.spec.eval_adapter, "eval_adapter")
    case = {"id": job.case.id, "input": job.case.input, "tags": list(job.case.tags)}
    if inspect.iscoroutinefunction(adapter):
        return await adapter(case, call)
    loop = asyncio.get_running_loop()
    return await in_thread(
        lambda: adapter(case, lambda inputs: asyncio.run_coroutine_threadsafe(call(inputs), loop).result())
    )


def _turns(calls: list[dict[str, Any]], asked: list[_Exchange]) -> tuple[dict[str, Any], ...]:
    """One turn per logged call; a plain function that bypassed the recorder has turns without hashes."""
    rows = [{name: row[name] for name in _TURN if row.get(name) is not None} for row in calls]
    notes = [{"messages_sha256": one.messages_sha256} for one in asked]
    empty: dict[str, Any] = {}
    return tuple({**note, **row} for note, row in zip_longest(notes, rows, fillvalue=empty))


@functools.lru_cache(maxsize=64)
def _short_hash(text: str) -> str:
    """Cached: the system text is the same for every case of a suite."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _last(rows: list[dict[str, Any]], name: str) -> Any:
    """The last value that is known."""
    return next((row[name] for row in reversed(rows) if row.get(name) is not None), None)


def _log_evaluation(
    trial: Trial, case: Case, row_id: str | None, reused: bool | None, turns: tuple[Turn, ...] | None
) -> None:
    """The grade as a row; what the run cost stands on its `run` row alone, so that sums stay true."""
    marks = trial.rubric
    row = {
        "kind": "evaluation",
        "split": case.split,
        "case_hash": case.hash or None,
        "reused": reused,
        "rubric": None if marks is None else marks.scores,
        "gates": None if marks is None else rubric_row(marks)["gates"],
        "overall_score": None if marks is None else marks.overall_score,
        "passed_all_mandatory": None if marks is None else marks.passed_all_mandatory,
        "turn_data": turns,
        "minimal_diff_metrics": None,
        **dict(zip(_GRADED, _graded(trial), strict=True)),
    }
    if row_id is not None:
        row["event_id"] = row_id
    logger.log_row(trial.agent, trial.run_id, trial.latency_ms, row, _OURS)


_NAMES = tuple(field.name for field in fields(Trial) if field.name != "resumed")
_named, _graded = attrgetter(*_NAMES), attrgetter(*_GRADED)


def to_row(trial: Trial) -> dict[str, Any]:
    """A trial as it stands in a journal; of the rubric its scores, the rest follows from them."""
    row = dict(zip(_NAMES, _named(trial), strict=True))
    row["rubric"] = None if trial.rubric is None else trial.rubric.scores
    return row


def from_row(row: Mapping[str, Any], *, resumed: bool = True) -> Trial:
    """The trial of a journal's row; put together by hand, for a large suite is read back whole."""
    told = {name: row[name] for name in _NAMES if name in row}
    told["reasons"], told["turns"] = tuple(row["reasons"]), tuple(row["turns"])
    told["parts"] = tuple(Part(**one) for one in row["parts"])
    told["rubric"] = None if row["rubric"] is None else gated(row["rubric"])
    return Trial(**told, resumed=resumed)
