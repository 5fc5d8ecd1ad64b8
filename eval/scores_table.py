"""Can the suites tell a good prompt from a bad one? Champion beside naive and best known, by agent and split.

The naive and best known prompts are `eval/baselines/<agent>.{naive,best}.md`. Runs on the offline model and writes
nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.edge import cli
from telemetry.edge.repo import BASELINES, Repo, working_in

if TYPE_CHECKING:
    from eval.trials.pool import Job

ARMS = ("naive", "champion", "best")
SPLITS = ("tune", "holdout")

Scores = dict[str, dict[str, dict[str, float]]]  # agent -> arm -> split -> share of cases passed


def scores(repo: Repo) -> Scores:
    """Pass rates of every agent that has both baselines."""
    return pass_rates(list(_jobs(repo)))


def pass_rates(jobs: Sequence[Job]) -> Scores:
    """Share of cases passed by agent, arm and split, on the offline model; logged nowhere."""
    import asyncio
    import tempfile

    from agents.domain import load_domain
    from agents.offline.model import OfflineModel
    from eval.grading.suite import split
    from eval.trials.pool import collect

    with tempfile.TemporaryDirectory() as scratch, working_in(Path(scratch)):
        analysts = load_domain(jobs[0].spec.domain if jobs else None).analysts
        trials = asyncio.run(collect(jobs, OfflineModel(analysts=analysts)))
    passed: dict[tuple[str, str, str], list[bool]] = {}
    for trial in trials:
        passed.setdefault((trial.agent, trial.arm, split(trial.case_id)), []).append(bool(trial.ok))
    found: Scores = {job.spec.name: {} for job in jobs}
    for (agent, arm, half), right in sorted(passed.items()):
        found[agent].setdefault(arm, {})[half] = sum(right) / len(right)
    return found


def scores_table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The scores as a Markdown table, in percent of cases passed, tune / holdout."""
    lines = ["| agent | naive | champion | best known |", "|---|---|---|---|"]
    for agent, arms in found.items():
        cells = (" / ".join(f"{arms[arm][half]:.0%}" for half in SPLITS if half in arms[arm]) for arm in ARMS)
        lines.append(f"| {agent} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _jobs(repo: Repo) -> Iterator[Job]:
    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from eval.grading.suite import load_suite
    from eval.trials.pool import Job

    live = PromptSet(Repo(repo.root.resolve()))
    for spec in load_manifest(repo).agents:
        files = {arm: repo / BASELINES / f"{spec.name}.{arm}.md" for arm in ("naive", "best")}
        if not spec.prompt or not spec.eval_suite or not all(file.exists() for file in files.values()):
            continue
        arms = {
            arm: live.with_overrides({spec.prompt: file.read_text("utf-8")}) for arm, file in files.items()
        }
        arms["champion"] = live
        for case in load_suite(repo, spec.eval_suite).cases:
            for arm in ARMS:
                yield Job(arm, arms[arm], spec, case)


def parser() -> cli.Parser:
    return cli.Parser(__doc__, prog="python -m eval.scores_table")


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    found = scores(repo)
    if args.json:
        print(json.dumps(found))
    elif not args.quiet:
        print(scores_table(found))
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
