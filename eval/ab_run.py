"""Runs the trials of an A/B night, all arms at once and journalled, until every comparison is decided."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.ab_compare import Board
from eval.ab_plan import Plan, Unit
from eval.journal import Journal, key_of
from eval.judge import Judge, Model
from eval.progress import Progress
from eval.trial import Job, Trial, from_row
from eval.trials import Breaker, run_trials
from telemetry import script

SHARDS = Path(
    "eval/results/ab_shards"
)  # data, not part of the tree; no hidden folder: artifacts leave those out
_SHARD = re.compile(r"shard-(\d+)-of-(\d+)\.jsonl")
_MODEL = ("provider", "model", "base_url")  # the part of a configuration that only the endpoint's side knows


@dataclass(frozen=True, slots=True)
class Limits:
    """How to run; nothing here changes what is measured."""

    concurrency: int = 16
    max_usd: float | None = None
    shard: tuple[int, int] = (1, 1)  # the I-th of N, from 1
    quiet: bool = False


def run(plan: Plan, model: Model, journal: Journal, limits: Limits) -> tuple[Board, str]:
    """Run what is not in the journal yet; returns what was found, and why it stopped early, if it did."""
    board = Board(plan)
    breaker = Breaker(limit=max(8, 2 * limits.concurrency))
    part, of = limits.shard
    units: Sequence[Unit] = plan.order[part - 1 :: of]

    def feed() -> Iterator[Job]:
        # A shard sees only its own cases, so it cannot know when a comparison is decided.
        for job in board.feed(units, until_decided=of == 1):
            if breaker.reason:
                return
            yield job

    async def work() -> None:
        progress = Progress("A/B", plan.max_calls // of, quiet=limits.quiet, max_usd=limits.max_usd)
        judge = Judge(model, seed=plan.settings.seed)
        stream = run_trials(
            feed(), model, concurrency=limits.concurrency, journal=journal, source="ab_test", judge=judge
        )
        try:
            async with aclosing(stream):
                async for trial in stream:
                    board.see(trial)
                    breaker.see(trial)
                    progress.see(trial.ok, trial.cost_usd, trial.resumed)
            if not breaker.reason:
                progress.total = progress.done  # decided before all cases were used
        finally:
            progress.finish()
            close = getattr(model, "aclose", None)
            if close is not None:
                await close()

    asyncio.run(work())
    return board, breaker.reason


def shard_file(shard: tuple[int, int]) -> Path:
    """Where a shard leaves its trials, relative to the root."""
    part, of = shard
    return SHARDS / f"shard-{part}-of-{of}.jsonl"


@dataclass(frozen=True, slots=True)
class Shards:
    """What the shards of a night left behind."""

    about: Mapping[str, Any]
    trials: tuple[Trial, ...]
    missing: tuple[str, ...]

    @property
    def model(self) -> dict[str, Any]:
        """Who answered: known to the shards, which had the key."""
        return {name: self.about.get(name) for name in _MODEL}


def read_shards(folder: Path) -> Shards:
    """Read every shard below a folder; they have to be of one configuration."""
    found: dict[tuple[int, int], tuple[dict[str, Any], list[Trial]]] = {}
    for file in sorted(folder.rglob("shard-*-of-*.jsonl")):
        if match := _SHARD.fullmatch(file.name):
            place = (int(match[1]), int(match[2]))
            found[place] = _read_shard(file)
    if not found:
        raise script.BadInput(f"--merge {folder}: no shard-I-of-N.jsonl below it")
    if len({of for _, of in found}) > 1:
        raise script.BadInput(f"--merge {folder}: shards of different N: {sorted(of for _, of in found)}")
    abouts = {key_of(about): about for about, _ in found.values()}
    if len(abouts) > 1:
        raise script.BadInput(
            f"--merge {folder}: the shards were run with different prompts, suites, model or seed"
        )
    of = next(of for _, of in found)
    missing = tuple(f"{part}/{of}" for part in range(1, of + 1) if (part, of) not in found)
    trials = [trial for _, (_, rows) in sorted(found.items()) for trial in rows]
    return Shards(next(iter(abouts.values())), tuple(trials), missing)


def _read_shard(file: Path) -> tuple[dict[str, Any], list[Trial]]:
    """The configuration and the trials of a journal; a trial that was run again counts once, as it was last."""
    try:
        lines = file.read_bytes().splitlines()
        about = json.loads(lines[0])["about"]
        rows: dict[tuple[Any, ...], Any] = {}
        for line in lines[1:]:
            try:
                entry = json.loads(line)
            except ValueError:  # torn by a kill: that trial was not finished
                continue
            rows[tuple(entry["identity"])] = entry["row"]
        return about, [from_row(row) for row in rows.values()]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as problem:
        raise script.BadInput(f"{file}: not a shard ({problem})") from None


def merge(plan: Plan, shards: Shards) -> tuple[Board, str]:
    """The night as if it had been run in one piece; refuses shards of another configuration."""
    if key_of(shards.about) != key_of(plan.about):
        changed = _changed(plan.about, shards.about)
        raise script.BadInput(
            f"--merge: the shards belong to another run ({', '.join(changed)} changed since)"
        )
    board = Board(plan)
    for trial in _planned(plan, shards.trials):
        board.see(trial)
    return board, f"shards missing: {', '.join(shards.missing)}" if shards.missing else ""


def _planned(plan: Plan, trials: Iterable[Trial]) -> list[Trial]:
    """In the order of the plan, though no result depends on it."""
    place = {unit.key: at for at, unit in enumerate(plan.order)}
    known = [trial for trial in trials if (trial.agent, trial.case_id) in place]
    return sorted(known, key=lambda t: (place[t.agent, t.case_id], t.trial_no, t.arm))


def _changed(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
