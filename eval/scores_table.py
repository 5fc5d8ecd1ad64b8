"""Shows whether the suites tell a good prompt from a bad one: champion beside naive and best known.

What an empty answer passes stands beside them: it is what a pass rate is read against. The naive and best known prompts
are `eval/baselines/<agent>.{naive,best}.md`. Runs on the offline model and writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.edge import cli
from telemetry.edge.files import BASELINES, Repo, working_in
from telemetry.edge.text import table

if TYPE_CHECKING:
    from eval.trials.pool import Job

ARMS = ("naive", "champion", "best")
SHOWN = (*ARMS, "empty")
SPLITS = ("tune", "holdout")

Scores = dict[str, dict[str, dict[str, float]]]  # agent -> arm -> split -> share of cases passed


def scores(repo: Repo) -> Scores:
    """Pass rates of every agent that has both baselines, and of who answers nothing."""
    from eval.grading.trivial import NOTHING, trivial_baselines

    jobs = list(_jobs(repo))
    found = pass_rates(jobs)
    for agent in found:
        cases = {job.case.id: job.case for job in jobs if job.spec.name == agent}.values()
        silent = trivial_baselines(cases)[NOTHING]
        found[agent]["empty"] = {half: one.passed / one.total for half, one in silent.items() if one.total}
    return found


def pass_rates(jobs: Sequence[Job]) -> Scores:
    """Share of cases passed by agent, arm and split, on the offline model; logged nowhere."""
    import asyncio
    import tempfile

    from agents.domain import load_domain
    from agents.offline.model import OfflineModel
    from eval.trials.pool import collect

    with tempfile.TemporaryDirectory() as scratch, working_in(Path(scratch)):
        analysts = load_domain(jobs[0].spec.domain if jobs else None).analysts
        trials = asyncio.run(collect(jobs, OfflineModel(analysts=analysts)))
    halves = {(job.spec.name, job.case.id): job.case.split for job in jobs}
    passed: dict[tuple[str, str, str], list[bool]] = {}
    for trial in trials:
        key = trial.agent, trial.arm, halves[trial.agent, trial.case_id]
        passed.setdefault(key, []).append(bool(trial.ok))
    found: Scores = {job.spec.name: {} for job in jobs}
    for (agent, arm, half), right in sorted(passed.items()):
        found[agent].setdefault(arm, {})[half] = sum(right) / len(right)
    return found


def scores_table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The scores as a Markdown table, in percent of cases passed, tune / holdout."""
    rows = (
        [
            agent,
            *(" / ".join(f"{arms[arm][half]:.0%}" for half in SPLITS if half in arms[arm]) for arm in SHOWN),
        ]
        for agent, arms in found.items()
    )
    return table(["agent", "naive", "champion", "best known", "empty answer"], rows)


def _jobs(repo: Repo) -> Iterator[Job]:
    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from eval.grading.suite import Suites
    from eval.trials.pool import Job

    live, suites = PromptSet(Repo(repo.root.resolve())), Suites(repo)
    for spec in load_manifest(repo).agents:
        files = {arm: repo / BASELINES / f"{spec.name}.{arm}.md" for arm in ("naive", "best")}
        if not spec.prompt or not spec.eval_suite or not all(file.exists() for file in files.values()):
            continue
        texts = {arm: {spec.prompt: file.read_text("utf-8")} for arm, file in files.items()}
        arms = {arm: live.with_overrides(texts.get(arm, {})) for arm in ARMS}
        for case in suites.load(spec.eval_suite).part("all"):
            for arm, prompts in arms.items():
                yield Job(arm, prompts, spec, case)


def parser() -> cli.Parser:
    return cli.Parser(__doc__, prog="python -m eval.scores_table")


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    found = scores(repo)
    cli.tell(args, found, scores_table(found))
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
