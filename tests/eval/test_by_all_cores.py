"""A large suite that waits for no endpoint is graded by several processes: the result is that of one."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.llm_client import ModelOptions
from agents.manifest import load_manifest
from eval.grading.suite import Suites
from eval.trials import evaluation
from eval.trials.evaluation import Evaluation, Options, Target, evaluate
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import Repo
from tests.worlds import eval_checkout, world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are split off on Linux only")

AGENTS = ("alpha", "beta")
CASES = 60
RULES = "```rules\nanalyst: threshold\nlist: notes\nfield: value\nid_field: id\nabove: 30\n```"
TIMED = ("latency_ms", "run_id", "p50_latency_ms", "p95_latency_ms")


@pytest.fixture
def repo(root: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setattr(evaluation, "SPLIT", 10)
    eval_checkout.make(root, AGENTS, 1)
    for name in AGENTS:
        world.put(root, f"agents/prompts/{name}.md", f"# {name}\n\n{RULES}\n")
        world.suite(root, name, (case(name, number) for number in range(CASES)))
    return Repo(root)


def case(agent: str, number: int) -> dict[str, Any]:
    given = {"notes": [{"id": "h1", "value": number}]}
    expect = [{"grader": "exact", "path": "0.id", "value": "h1"}]
    return {"id": f"{agent}-{number:04}", "input": given, "expect": expect}


def graded(repo: Repo, processes: int, *, resume: bool = False, **ask: Any) -> Evaluation:
    suites = Suites(repo)
    targets = [
        Target(spec, suites.load(spec.eval_suite), Path(f"eval/results/{spec.name}.json"))
        for spec in load_manifest(repo).agents
    ]
    asked = ModelOptions(offline_noise=0.3, seed=5, **ask)
    options = Options(processes=processes, resume=resume, ask=asked, quiet=True)
    return evaluate(repo, targets, options, journal_path=repo.root / ".ratchet/eval-all.jsonl")


def outcome(done: Evaluation) -> Any:
    """All that is told of it, but for what a clock decides."""

    def untimed(told: Any) -> dict[str, Any]:
        return {name: value for name, value in told.items() if name not in TIMED}

    return [
        ([untimed(row) for row in each.results], untimed(vars_of(each.summary)), each.metadata["resumed"])
        for each in done.agents
    ]


def vars_of(summary: Any) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in summary.__slots__}


def events(repo: Repo) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (repo.root / "telemetry/events.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_find_what_one_finds_and_every_row_is_there_once(
    repo: Repo, processes: int
) -> None:
    alone = outcome(graded(repo, 1))
    assert 0 < sum(row["ok"] for row in alone[0][0]) < CASES
    written = events(repo)
    (repo.root / "telemetry/events.jsonl").unlink()
    assert outcome(graded(repo, processes)) == alone
    rows = events(repo)
    assert len({row["event_id"] for row in rows}) == len(rows) == len(written)
    assert {(row["kind"], row["agent"], row.get("case_id")) for row in rows} == {
        (row["kind"], row["agent"], row.get("case_id")) for row in written
    }
    assert not (repo.root / ".ratchet/eval-all.jsonl").exists(), "complete: nothing is left to resume"


def test_a_process_that_is_killed_ends_the_run_and_resumed_nothing_counts_twice(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = outcome(graded(repo, 1))
    (repo.root / "telemetry/events.jsonl").unlink()
    run_trial, here = evaluation.run_all.__globals__["run_trial"], os.getpid()

    async def deadly(job: Any, *args: Any, **options: Any) -> Any:
        if job.case.id == "beta-0050" and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return await run_trial(job, *args, **options)

    with monkeypatch.context() as patched:
        patched.setitem(evaluation.run_all.__globals__, "run_trial", deadly)
        with pytest.raises(Stopped, match="was ended"):
            graded(repo, 2)
    resumed = outcome(graded(repo, 2, resume=True))
    assert [row for row, *_ in resumed] == [row for row, *_ in whole]
    grades = [row["event_id"] for row in events(repo) if row["kind"] == "evaluation"]
    assert len(set(grades)) == len(grades) == len(AGENTS) * CASES


def test_what_was_done_before_is_not_done_again(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation._Run, "jobs", first_of(evaluation._Run.jobs, 50))
    with monkeypatch.context() as patched:
        patched.setattr("eval.trials.journal.Journal.remove", lambda _: None)
        graded(repo, 1)
    monkeypatch.undo()
    monkeypatch.setattr(evaluation, "SPLIT", 10)
    done = graded(repo, 2, resume=True)
    assert sum(each.metadata["resumed"] for each in done.agents) == 50
    assert sum(row["kind"] == "run" for row in events(repo)) == len(AGENTS) * CASES


def first_of(jobs: Any, many: int) -> Any:
    return lambda run, *share: (job for _, job in zip(range(many), jobs(run, *share), strict=False))


def test_bad_input_met_by_a_process_is_told_as_by_one(repo: Repo) -> None:
    (repo.root / "agents/schemas/item.json").write_text("{")
    told = []
    for processes in (1, 2):
        with pytest.raises(BadInput) as raised:
            graded(repo, processes)
        told.append(str(raised.value))
    assert told[0] == told[1]
    assert "agents/schemas/item.json" in told[0]


def test_a_limit_of_time_ends_all_of_them(repo: Repo) -> None:
    done = graded(repo, 2, max_seconds=0)
    assert "max_seconds" in done.stopped
