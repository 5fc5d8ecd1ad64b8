"""One night: measure, test, critique, propose and flag, in order, and leave every change as a branch to review.

What would be a pull request on GitHub becomes a local branch of the same name with one commit; the checked-out tree
is left as it was (`--apply` works in place instead). A finished step is not repeated the same day, a failing one is
reported while the independent ones go on. `--nights N` simulates N nights on a scratch copy, merging each night's
changes, for several seeds, and draws how the champions' score develops.
Exit codes: 0 done, 1 a step failed, 2 bad input, 3 a step stopped early (budget, outage).
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from agents.llm_client import add_model_flags, model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.cli import job_summary
from telemetry.edge.files import SITE, Repo

if TYPE_CHECKING:
    from meta.nightly.steps import Result


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    add = parse.add_argument
    add("--apply", action="store_true", help="work in place, leave the changes in the tree")
    add("--nights", type=cli.whole(1), default=0, metavar="N", help="simulate N nights on a scratch copy")
    add(
        "--seeds", type=cli.whole(1), default=5, metavar="N", help="of --nights: so often, from --seed on (5)"
    )
    add("--again", action="store_true", help="repeat the steps that are done already")
    add_model_flags(parse, seed="of the A/B order and the offline noise")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Run the night, or simulate many."""
    options = model_flags(args)
    if args.nights:
        from meta.nightly.simulate import simulate

        return simulate(repo, args, options)
    from agents.manifest import load_manifest
    from eval.ab.carry_out import only_one
    from eval.field.session import anything_due as harvest_due
    from eval.hindsight.session import anything_due
    from eval.ledger.provenance import GitState
    from eval.trials.progress import heard_by
    from meta.nightly import standing
    from meta.nightly.branches import record_refused
    from meta.nightly.budget import shared_budget
    from meta.nightly.diary import (
        Diary,
        Display,
        FirstNight,
        about,
        line_of,
        markdown,
        runs_since,
        spent_since,
    )
    from meta.nightly.stage import InPlace, Stage
    from meta.nightly.steps import FAILED, STOPPED, call, run_night, steps

    repo = Repo(repo.root.resolve())
    root = repo.root
    manifest = load_manifest(repo)  # a broken one stops us here, in one line
    git_state = GitState(repo)
    # A night on a worktree stands on its commit alone; in place it stands on the files as they are.
    on = standing.digest if args.apply else lambda _: ""
    diary = Diary(root, about(root, [*options, *(["--apply"] if args.apply else [])]), on)
    changed = [] if args.apply else standing.uncommitted(root, manifest)
    note = standing.left_out(changed) if changed else ""
    if args.again:
        diary.results.clear()
    record_refused(repo)
    stage = InPlace(root) if args.apply else Stage(root, manifest.data_files())
    with only_one(repo, "night", "night"), stage:
        started = diary.begin(time.time())
        shadow = len(manifest.enabled()) < len(manifest.agents)
        due, others = anything_due(repo, manifest), bool(manifest.challenger_models)
        first = FirstNight.of(repo)
        night = steps(options, first.due, shadow, due, others, harvest_due(repo, manifest))
        shown = Display(args.quiet or args.json, len(night))

        def on_end(result: Result) -> None:
            diary.add(result)
            first.ended(result)
            shown.end(result)

        def tonight() -> str:
            return runs_since(repo, manifest, started)

        ask = model_options(args).within(manifest)
        open_steps = [step.name for step in night if step.name not in diary.results]
        budget = shared_budget(repo, manifest, ask, open_steps, replay=first.due, on_settled=shown.answered)
        with heard_by(shown.hear), budget as foreseen:
            shown.say(foreseen)
            shown.say(note)
            results = run_night(night, stage, diary.results, shown.start, on_end, tonight)
    spent = spent_since(repo, started)
    diary.tell(line_of(repo, manifest, results, spent, git_state, args.seed) if spent["calls"] else "")
    if not all(result.again for result in results) or not (repo / SITE).exists():
        call("meta.dashboard", ["--root", str(root)])  # it shows this night too, so it is no step of it
    if args.json:
        told = {"steps": [asdict(result) for result in results], "spent": spent, "not_part": changed}
        print(json.dumps(told))
    shown.finish(results, spent, applied=args.apply, note=note)
    job_summary(markdown(results, spent))
    if any(result.status == FAILED for result in results):
        return cli.FOUND
    return cli.STOPPED if any(result.status == STOPPED for result in results) else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
