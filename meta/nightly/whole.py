"""One night from its plan to what is told of it: to the person who started it, to the history, to the job summary."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict

from agents.llm_client import model_options
from agents.manifest import Manifest, load_manifest
from eval.field.session import anything_due as harvest_due
from eval.hindsight.session import anything_due as backtest_due
from eval.ledger.provenance import GitState
from eval.trials.progress import heard_by
from meta.nightly import standing
from meta.nightly.branches import record_refused
from meta.nightly.budget import shared_budget
from meta.nightly.diary import Diary, Display, Newcomers, about, line_of, markdown, runs_since, spent_since
from meta.nightly.stage import InPlace, Stage
from meta.nightly.steps import FAILED, STOPPED, Result, Step, call, run_night, steps
from telemetry.edge import cli
from telemetry.edge.files import SITE, Repo
from telemetry.edge.lock import only_one


def whole_night(given: Repo, args: argparse.Namespace, options: Sequence[str]) -> int:
    """Run every step that is not done yet; the exit code says how it ended."""
    repo = Repo(given.root.resolve())
    manifest = load_manifest(repo)  # a broken one stops us here, in one line
    git_state = GitState(repo)
    diary = _diary(repo, args, options)
    changed = [] if args.apply else standing.uncommitted(repo.root, manifest)
    note = standing.left_out(changed) if changed else ""
    record_refused(repo)
    stage = InPlace(repo.root) if args.apply else Stage(repo.root, manifest.data_files())
    with only_one(repo, "night", "night"), stage:
        new = Newcomers.of(repo, manifest)
        night = _planned(repo, manifest, options, new.names)
        todo = [step.name for step in night if step.name not in diary.done]
        started = diary.begin(time.time(), bool(todo))
        shown = Display(args.quiet or args.json, len(night))

        def on_end(result: Result) -> None:
            diary.add(result)
            new.ended(result)
            shown.end(result)

        def tonight() -> str:
            return runs_since(repo, manifest, started)

        ask = model_options(args).within(manifest)
        budget = shared_budget(repo, manifest, ask, todo, replay=new.names, on_settled=shown.answered)
        with heard_by(shown.hear), budget as foreseen:
            shown.say(foreseen)
            shown.say(note)
            results = run_night(night, stage, diary.results, shown.start, on_end, tonight)
    spent, news = spent_since(repo, started), not all(result.again for result in results)
    told = news or diary.killed
    diary.tell(line_of(repo, manifest, results, spent, git_state, args.seed) if told else "")
    if news or not (repo / SITE).exists():
        call("meta.dashboard", ["--root", str(repo.root)])  # it shows this night too, so it is no step of it
    if args.json:
        steps_told = [asdict(result) for result in results]
        print(json.dumps({"steps": steps_told, "spent": spent, "not_part": changed}))
    shown.finish(results, spent, applied=args.apply, note=note)
    cli.job_summary(markdown(results, spent))
    endings = {result.status for result in results}
    return cli.FOUND if FAILED in endings else cli.STOPPED if STOPPED in endings else cli.OK


def _diary(repo: Repo, args: argparse.Namespace, options: Sequence[str]) -> Diary:
    """What is done already of a night like this one."""
    # A night on a worktree stands on its commit alone; in place it stands on the files as they are.
    on = standing.digest if args.apply else lambda _: ""
    diary = Diary(repo.root, about(repo.root, [*options, *(["--apply"] if args.apply else [])]), on)
    if args.again:
        diary.results.clear()
    return diary


def _planned(
    repo: Repo, manifest: Manifest, options: Sequence[str], replay: Sequence[str]
) -> tuple[Step, ...]:
    """The steps that there is something to do for tonight."""
    return steps(
        options,
        replay=replay,
        shadow=len(manifest.enabled()) < len(manifest.agents),
        backtest=backtest_due(repo, manifest),
        models=bool(manifest.challenger_models),
        harvest=harvest_due(repo, manifest),
    )
