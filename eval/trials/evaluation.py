"""Runs agents on their suites and keeps what came of it: results, deliberations, history."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import orjson

from agents.base import build_agent
from agents.domain import domain_of
from agents.llm_client import ModelOptions
from agents.manifest import AgentSpec
from agents.offline.model import UNKNOWN_TASK
from agents.prompted import unknown_offline
from agents.texts.prompt_set import PromptSet
from eval.grading.judge import Judge
from eval.grading.suite import Case, Suite
from eval.ledger.provenance import GitState, append_history, history, model_identity, replay_metadata, seen_in
from eval.ledger.results import ROWS, RowFile
from eval.trials.journal import Journal
from eval.trials.pool import Build, Job, run_all
from eval.trials.progress import Progress
from eval.trials.results import (
    STREAMED,
    Summary,
    Sums,
    all_known,
    deliberation_rows,
    result_row,
)
from eval.trials.shards import read_shards
from eval.trials.trial import Identity, Trial, from_row
from telemetry import logger
from telemetry.edge.files import Repo, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain
from telemetry.logger import SCORING_VERSION

ARM = "champion"  # what stands in the prompt files
SPLIT = 400  # trials from which on several processes are worth it: a fifth of a second of work
# What a line of history keeps of an agent's summary, and what of the metadata is one agent's own.
_FIGURES = ("planned", "counted", "passed", "success_rate", "mean_score", "errors", "not_run", "cost_usd")
_OWN = (
    *("agent", "module", "callable", "eval_adapter"),
    *("prompt_hash", "suite_pinned", "resumed", "run_type"),
)
_FORMAT = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


@frozen
class Options:
    """How to run; the defaults are those of the command line."""

    split: str = "all"
    trials: int = 1
    shard: tuple[int, int] = (1, 1)  # the I-th of N, from 1
    resume: bool = False
    judge_calls: int | None = None
    processes: int = 1  # at most, where no endpoint is waited for
    ask: ModelOptions = field(default_factory=ModelOptions)
    quiet: bool = False


@frozen
class Target:
    """One agent to be graded on one suite, and where the result goes."""

    spec: AgentSpec
    suite: Suite
    out_path: Path

    def cases(self, options: Options) -> Sequence[Case]:
        """This shard's cases of the chosen split."""
        part, of = options.shard
        return self.suite.part(options.split)[part - 1 :: of]


@frozen
class Evaluated:
    """What came of a target."""

    target: Target
    results: Sequence[Mapping[str, Any]]
    summary: Summary
    metadata: dict[str, Any]


@frozen
class Evaluation:
    """What came of a run; `stopped` says why it ended early, if it did, `skipped` why an agent could not be graded."""

    agents: tuple[Evaluated, ...]
    stopped: str
    skipped: Mapping[str, str] = field(default_factory=dict)
    reused: int = 0  # answers that came out of the cache

    @property
    def spent_usd(self) -> float | None:
        """Unknown as soon as one agent's is."""
        called = [each.summary for each in self.agents if each.summary.tokens_in is not None]
        known = all_known(summary.cost_usd for summary in called)
        return None if known is None else round(sum(known), 9)

    @property
    def inconclusive(self) -> bool:
        """Whether any agent lost too many cases to infrastructure to be judged."""
        return any(each.summary.inconclusive for each in self.agents)

    @property
    def lost(self) -> str:
        """How many trials infrastructure took, and what it said last."""
        trials = errors = 0
        last = ""
        for row in chain.from_iterable(each.results for each in self.agents):
            trials += 1
            if row["score"] is None:
                errors, last = errors + 1, f", last: {row['error']}"
        return f"{errors} of {trials} trials failed by infrastructure{last}"


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
    run, ask = _Run(repo, targets, options), options.ask
    analysts = domain_of(repo, [target.spec for target in targets]).analysts
    model = ask.model((target.spec.model for target in targets), analysts)
    about, processes = run.about(model_identity(model)), 1
    if about["provider"] == "offline":
        run.skip_unknown()
        if run.planned >= SPLIT and options.judge_calls is None:
            processes = options.processes
    with (
        tempfile.TemporaryDirectory(prefix="ratchet-eval-") as scratch,
        Journal(journal_path or Path(scratch, "trials.jsonl"), about, resume=options.resume) as journal,
    ):
        stopped = run_all(
            run.jobs(0, processes),
            model,
            run.see,
            Progress("eval", run.planned, quiet=options.quiet, max_usd=ask.max_usd),
            concurrency=ask.at_once,
            beside=[run.jobs(part, processes) for part in range(1, processes)],
            journal=journal,
            judge=Judge(model, max_calls=options.judge_calls, seed=ask.seed),
            build=build,
        )
        kept = journal if journal_path else None
        done = replace(
            run.written(journal_trials(journal), stopped, kept), reused=getattr(model, "reused", 0)
        )
        if run.whole and not stopped and run.all_counted:
            journal.remove()
        return done


def merged(repo: Repo, targets: Sequence[Target], options: Options, folder: Path) -> Evaluation:
    """The run whose shards left their trials in `folder`, as if it had been run in one piece."""
    run, shards = _Run(repo, targets, options), read_shards(repo, folder)
    shards.check(run.about(shards.model))
    if shards.model["provider"] == "offline":
        run.skip_unknown()
    stopped = shards.stopped or (shards.cut_short if len(shards.trials) < run.planned else "")
    for trial in shards.trials:
        run.see(replace(trial, resumed=False))
    return run.written({trial.identity: trial for trial in shards.trials}.get, stopped)


Find = Callable[[Identity], Trial | None]


def journal_trials(journal: Journal) -> Find:
    """Finds the trials of a journal, one at a time."""
    return lambda identity: from_row(journal.rows[identity]) if identity in journal.rows else None


class _Run:
    """One run over some targets, from its jobs to its files."""

    def __init__(self, repo: Repo, targets: Sequence[Target], options: Options) -> None:
        self.targets, self.options, self.whole = targets, options, options.shard[1] == 1
        self.prompts, self.git, self.started = PromptSet(repo), GitState(repo), time.monotonic()
        noise = options.ask.offline_noise
        self.skipped: dict[str, str] = {}
        self.named = {target.spec.name for target in targets if target.spec.eval_suite}
        self.kinds: dict[str, set[str | None]] = {}  # of errors, by agent
        self.resumed: Counter[str] = Counter()
        self.all_counted, self.measured, self.anything_new = True, False, False
        self.asked = {"split": options.split, "trials": options.trials, "offline_noise": noise}

    def skip_unknown(self) -> None:
        """Leave out whom the offline model has no answer for: 0 % would say nothing about them."""
        for target in self.targets:
            cases = target.cases(self.options)
            if cases and (why := unknown_offline(target.spec, self.prompts, cases[0].input)):
                self.skipped[target.spec.name] = why

    @property
    def planned(self) -> int:
        """Trials to be run."""
        graded = [target for target in self.targets if target.spec.name not in self.skipped]
        return self.options.trials * sum(len(target.cases(self.options)) for target in graded)

    def jobs(self, part: int = 0, of: int = 1) -> Iterator[Job]:
        """All that is to be run, or one of several equal shares of it."""
        return (
            Job(ARM, self.prompts, target.spec, case, trial_no)
            for target in self.targets
            if target.spec.name not in self.skipped
            for trial_no in range(self.options.trials)
            for case in target.cases(self.options)[part::of]
        )

    def see(self, trial: Trial) -> None:
        """Take note of a finished trial; the rest of it stands in the journal."""
        self.kinds.setdefault(trial.agent, set()).add(trial.error_kind)
        self.resumed[trial.agent] += trial.resumed
        self.all_counted &= trial.counted
        # A callable that no manifest names is told of only where it cost the call of a model.
        if trial.counted and (trial.turns or trial.agent in self.named):
            self.measured, self.anything_new = True, self.anything_new or not trial.resumed

    def about(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """Everything that a trial's outcome may depend on: if any of it changes, a journal starts afresh."""
        return {
            "agents": {
                target.spec.name: {
                    "module": target.spec.module,
                    "callable": target.spec.callable,
                    "adapter": target.spec.eval_adapter,
                    "model": target.spec.model,
                    "prompt": self.prompts.hash(target.spec),
                    "suite": target.suite.sha256,
                }
                for target in self.targets
            },
            **model,
            "seed": self.options.ask.seed,
            **self.asked,
            "scoring_version": SCORING_VERSION,
        }

    def written(self, find: Find, stopped: str, journal: Journal | None = None) -> Evaluation:
        """Results and deliberations per agent, one line of history, and the whole as a value."""
        unknown = {"unknown_task"}
        self.skipped |= {agent: UNKNOWN_TASK for agent, own in self.kinds.items() if own == unknown}
        graded = [target for target in self.targets if target.spec.name not in self.skipped]
        done = Evaluation(
            tuple(self._evaluated(target, find) for target in graded), stopped, dict(self.skipped)
        )
        if self.whole and self.measured and (self.anything_new or not self._told(journal)):
            self._remember(done, journal)
        return done

    def _told(self, journal: Journal | None) -> bool:
        """Whether the history has a line of this very run: one that was killed may not have come to it."""
        lines = history(self.prompts.repo, "eval")
        return journal is None or any(line.metadata.get("journal") == journal.name for line in lines)

    def _evaluated(self, target: Target, find: Find) -> Evaluated:
        """One agent's files and figures, trial by trial in the order of the suite: a large one is never held whole."""
        spec, options = target.spec, self.options
        cases = target.cases(options)
        out = self.prompts.repo / target.out_path
        sums, alike = Sums(), dict[tuple[Any, ...], Trial]()

        def lines() -> Iterator[tuple[dict[str, Any], Trial]]:
            for case in cases:
                found = (find((ARM, spec.name, case.id, trial_no)) for trial_no in range(options.trials))
                trials = [trial for trial in found if trial is not None]
                sums.add(case, trials)
                for trial in trials:
                    alike.setdefault(_seen_with(trial), trial)
                    yield result_row(trial, case), trial

        large = self.whole and len(cases) * options.trials > STREAMED
        results: Sequence[Mapping[str, Any]] = RowFile(out.with_name(f"{out.stem}{ROWS}"))
        with _spooled() as told:  # what was deliberated, while the rows are written

            def row_of(row: dict[str, Any], trial: Trial) -> dict[str, Any]:
                if self.whole:
                    # The journal that a trial was read from holds no secret.
                    told.writelines(logger.encode(line, foreign=None) for line in deliberation_rows(trial))
                return row

            if large:
                write_atomic(out.with_name(f"{out.stem}{ROWS}"), (_line(row_of(*one)) for one in lines()))
            else:
                results = [row_of(*one) for one in lines()]
            if self.whole:
                told.seek(0)
                write_atomic(out.with_name(f"{out.stem}_deliberations.jsonl"), told)
        metadata = replay_metadata(
            self.git,
            suites={str(target.suite.path): target.suite.sha256},
            holdout_cases={str(target.suite.path): len(target.suite.part("holdout"))},
            prompts={path: self.prompts.sha256(path) for path in spec.prompt_paths},
            seen=seen_in(list(alike.values())),
            seed=options.ask.seed,
            run_type="eval",
            agent=spec.name,
            **{name: getattr(spec, name) for name in ("module", "callable", "eval_adapter")},
            prompt_hash=self.prompts.hash(spec),
            suite_pinned=target.suite.pinned,
            **self.asked,
            resumed=self.resumed[spec.name],
        )
        summary = sums.summary(len(cases) * options.trials)
        if self.whole:
            named = f"{out.stem}{ROWS}" if large else results
            value = {"results": named, "summary": plain(summary), "metadata": metadata}
            write_atomic(out, orjson.dumps(value, default=str, option=_FORMAT))
            if not large:
                out.with_name(f"{out.stem}{ROWS}").unlink(missing_ok=True)  # of a run before
        return Evaluated(target, results, summary, metadata)

    def _remember(self, done: Evaluation, journal: Journal | None) -> None:
        figures = {
            each.target.spec.name: {name: getattr(each.summary, name) for name in _FIGURES}
            for each in done.agents
        }
        summary = {
            "agents": figures,
            "inconclusive": done.inconclusive,
            "stopped": done.stopped or None,
            "cost_usd": done.spent_usd,
            "seconds": round(time.monotonic() - self.started, 3),
        }
        # What all agents share, with what is by file from each.
        about = {name: value for name, value in done.agents[0].metadata.items() if name not in _OWN}
        for name in ("suites", "holdout_cases", "prompts"):
            about[name] = {path: found for each in done.agents for path, found in each.metadata[name].items()}
        if journal is not None:
            about["journal"] = journal.name
        append_history(self.prompts.repo, "eval", summary, about)


def _spooled() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(max_size=1 << 20)


def _line(row: Mapping[str, Any]) -> bytes:
    return orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE)


def _seen_with(trial: Trial) -> tuple[Any, ...]:
    """What the metadata tells of a trial."""
    warmth = tuple(turn.get("temperature") for turn in trial.turns)
    return (trial.model, trial.model_answered, trial.provider, trial.price_list_version, warmth)
