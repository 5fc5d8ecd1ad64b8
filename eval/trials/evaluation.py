"""Runs agents on their suites and keeps what came of it: results, deliberations, history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents.base import build_agent
from agents.domain import domain_of
from agents.llm_client import ModelOptions
from agents.manifest import AgentSpec
from agents.model.call import Model
from agents.texts.prompt_set import PromptSet
from eval.grading.judge import Judge
from eval.grading.suite import Case, Suite
from eval.ledger.history import append_history, really_called
from eval.ledger.provenance import GitState, model_identity, replay_metadata, seen_in
from eval.trials.journal import Journal
from eval.trials.pool import Breaker, Build, Job, Trial, run_trials
from eval.trials.progress import Progress
from eval.trials.results import deliberation_rows, result_row, summarise
from eval.trials.shards import read_shards
from telemetry import logger
from telemetry.edge.files import write_atomic
from telemetry.edge.repo import Repo
from telemetry.names import SCORING_VERSION

ARM = "champion"  # what stands in the prompt files


@dataclass(frozen=True, slots=True)
class Options:
    """How to run; the defaults are those of the command line."""

    split: str = "all"
    trials: int = 1
    shard: tuple[int, int] = (1, 1)  # the I-th of N, from 1
    resume: bool = False
    allow_unpinned: bool = False
    judge_calls: int | None = None
    ask: ModelOptions = field(default_factory=ModelOptions)
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """One agent to be graded on one suite, and where the result goes."""

    spec: AgentSpec
    suite: Suite
    out_path: Path

    def cases(self, options: Options) -> tuple[Case, ...]:
        """This shard's cases of the chosen split."""
        part, of = options.shard
        return self.suite.part(options.split)[part - 1 :: of]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of a target."""

    target: Target
    results: list[dict[str, Any]]
    summary: dict[str, Any]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of a run; `stopped` says why it ended early, if it did."""

    agents: tuple[Evaluated, ...]
    stopped: str
    spent_usd: float | None

    @property
    def inconclusive(self) -> bool:
        """Whether any agent lost too many cases to infrastructure to be judged."""
        return any(each.summary["inconclusive"] for each in self.agents)

    @property
    def lost(self) -> str:
        """How many trials infrastructure took, and what it said last."""
        rows = [row for each in self.agents for row in each.results]
        errors = [str(row["error"]) for row in rows if row["score"] is None]
        last = f", last: {errors[-1]}" if errors else ""
        return f"{len(errors)} of {len(rows)} trials failed by infrastructure{last}"


def evaluate(
    repo: Repo,
    targets: Sequence[Target],
    options: Options,
    *,
    journal_path: Path | None = None,
    build: Build = build_agent,
) -> Evaluation:
    """Run every target's cases with one shared model, write the files, and tell the history.

    A shard leaves its journal alone: files and history are those of the whole, which `merged` writes.
    """
    git = GitState(repo)
    started = time.monotonic()
    analysts = domain_of(repo, [target.spec for target in targets]).analysts
    model = options.ask.model((target.spec.model for target in targets), analysts)
    prompts = PromptSet(repo)
    breaker = Breaker(limit=max(8, 2 * options.ask.concurrency))
    if journal_path is None:
        trials = asyncio.run(_run(targets, options, prompts, model, breaker, None, build))
    else:
        about = _about(targets, options, prompts, model_identity(model))
        with Journal(journal_path, about, resume=options.resume) as journal:
            trials = asyncio.run(_run(targets, options, prompts, model, breaker, journal, build))
            done = _written(targets, options, prompts, trials, git, breaker.reason, started)
            whole = options.shard[1] == 1
            if whole and not breaker.reason and all(trial.counted for trial in trials):
                journal.remove()
            return done
    return _written(targets, options, prompts, trials, git, breaker.reason, started)


def merged(repo: Repo, targets: Sequence[Target], options: Options, folder: Path) -> Evaluation:
    """The run whose shards left their trials in `folder`, as if it had been run in one piece."""
    started, git, prompts, shards = (
        time.monotonic(),
        GitState(repo),
        PromptSet(repo),
        read_shards(repo, folder),
    )
    shards.check(_about(targets, options, prompts, shards.model))
    trials = [replace(trial, resumed=False) for trial in shards.trials]
    return _written(targets, options, prompts, trials, git, shards.stopped, started)


async def _run(
    targets: Sequence[Target],
    options: Options,
    prompts: PromptSet,
    model: Model,
    breaker: Breaker,
    journal: Journal | None,
    build: Build,
) -> list[Trial]:
    jobs = list(_jobs(targets, options, prompts))
    progress = Progress("eval", len(jobs), quiet=options.quiet, max_usd=options.ask.max_usd)
    trials: list[Trial] = []

    def feed() -> Iterator[Job]:
        for job in jobs:
            if breaker.reason:
                return
            yield job

    judge = Judge(model, max_calls=options.judge_calls, seed=options.ask.seed)
    try:
        stream = run_trials(
            feed(), model, concurrency=options.ask.concurrency, journal=journal, judge=judge, build=build
        )
        async with aclosing(stream):
            async for trial in stream:
                trials.append(trial)
                breaker.see(trial)
                progress.see(trial.ok, trial.cost_usd if trial.turns else 0.0, trial.resumed)
    finally:
        progress.finish()
        await model.aclose()
    return trials


def _jobs(targets: Sequence[Target], options: Options, prompts: PromptSet) -> Iterable[Job]:
    for target in targets:
        for trial_no in range(options.trials):
            for case in target.cases(options):
                yield Job(ARM, prompts, target.spec, case, trial_no)


def _about(
    targets: Sequence[Target], options: Options, prompts: PromptSet, model: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything that a trial's outcome may depend on: if any of it changes, a journal starts afresh."""
    return {
        "agents": {
            target.spec.name: {
                "module": target.spec.module,
                "callable": target.spec.callable,
                "adapter": target.spec.eval_adapter,
                "model": target.spec.model,
                "prompt": prompts.hash(target.spec),
                "suite": target.suite.sha256,
            }
            for target in targets
        },
        **model,
        "seed": options.ask.seed,
        "offline_noise": options.ask.offline_noise,
        "trials": options.trials,
        "split": options.split,
        "scoring_version": SCORING_VERSION,
    }


def _written(
    targets: Sequence[Target],
    options: Options,
    prompts: PromptSet,
    trials: Sequence[Trial],
    git: GitState,
    stopped: str,
    started: float,
) -> Evaluation:
    """Results and deliberations per agent, one line of history, and the whole as a value."""
    agents = []
    whole = options.shard[1] == 1
    for target in targets:
        cases = {case.id: case for case in target.cases(options)}
        order = {case_id: place for place, case_id in enumerate(cases)}
        mine = sorted(
            (trial for trial in trials if trial.agent == target.spec.name),
            key=lambda trial: (order[trial.case_id], trial.trial_no),
        )
        evaluated = _one_target(target, options, prompts, mine, cases, git)
        if whole:
            _save(prompts.repo, evaluated, mine)
        agents.append(evaluated)
    costs = [each.summary["cost_usd"] for each in agents if each.summary["tokens_in"] is not None]
    spent = None if None in costs else round(sum(costs), 9)
    done = Evaluation(tuple(agents), stopped, spent)
    if whole and really_called(trials):
        summary = _history_summary(done, time.monotonic() - started)
        append_history(prompts.repo, "eval", summary, _history_metadata(agents))
    return done


def _one_target(
    target: Target,
    options: Options,
    prompts: PromptSet,
    trials: Sequence[Trial],
    cases: dict[str, Case],
    git: GitState,
) -> Evaluated:
    spec = target.spec
    metadata = replay_metadata(
        git,
        suites={str(target.suite.path): target.suite.sha256},
        prompts={path: prompts.sha256(path) for path in spec.prompt_paths},
        seen=seen_in(trials),
        seed=options.ask.seed,
        run_type="eval",
        agent=spec.name,
        module=spec.module,
        callable=spec.callable,
        eval_adapter=spec.eval_adapter,
        prompt_hash=prompts.hash(spec),
        suite_pinned=target.suite.pinned,
        split=options.split,
        trials=options.trials,
        offline_noise=options.ask.offline_noise,
        resumed=sum(trial.resumed for trial in trials),
    )
    rows = [result_row(trial, cases[trial.case_id]) for trial in trials]
    summary = summarise(trials, len(cases) * options.trials, cases)
    return Evaluated(target, rows, summary, metadata)


def _save(repo: Repo, evaluated: Evaluated, trials: Sequence[Trial]) -> None:
    import orjson

    out = repo / evaluated.target.out_path
    value = {"results": evaluated.results, "summary": evaluated.summary, "metadata": evaluated.metadata}
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    write_atomic(out, orjson.dumps(value, default=str, option=options))
    lines = b"".join(logger.encode(row) for trial in trials for row in deliberation_rows(trial))
    write_atomic(out.with_name(f"{out.stem}_deliberations.jsonl"), lines)


def _history_summary(done: Evaluation, seconds: float) -> dict[str, Any]:
    names = ("planned", "counted", "passed", "success_rate", "mean_score", "errors", "not_run", "cost_usd")
    return {
        "agents": {
            each.target.spec.name: {name: each.summary[name] for name in names} for each in done.agents
        },
        "inconclusive": done.inconclusive,
        "stopped": done.stopped or None,
        "cost_usd": done.spent_usd,
        "seconds": round(seconds, 3),
    }


def _history_metadata(agents: Sequence[Evaluated]) -> dict[str, Any]:
    """The metadata of the run: what all agents share, with the suites and prompts of each."""
    first = agents[0].metadata
    own = (
        "agent",
        "module",
        "callable",
        "eval_adapter",
        "prompt_hash",
        "suite_pinned",
        "resumed",
        "run_type",
    )
    shared = {name: value for name, value in first.items() if name not in own}
    for name in ("suites", "prompts"):
        shared[name] = {path: sha for each in agents for path, sha in each.metadata[name].items()}
    return shared
