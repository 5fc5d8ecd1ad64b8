"""Deliberations: what a run was asked, said and why can be read again, however often others ran since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents import orchestrator
from agents.base import BaseAgent
from agents.manifest import AgentSpec, Iterate
from agents.model.schema import listed
from agents.texts.prompt_set import PromptSet
from eval import harness
from telemetry import deliberations as script
from telemetry import logger, sync
from telemetry.deliberations import deliberations
from telemetry.edge import cli
from telemetry.edge.files import Repo, here, working_in
from telemetry.read.rows import Window
from tests.worlds.data_branch import clone, remote
from tests.worlds.models import Says

ITEM = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer"}, "why": {"type": "string"}},
}


class Asking(BaseAgent):
    async def analyze(self, inputs: object) -> list[dict[str, object]]:
        return list((await self.ask({"q": inputs}, listed(ITEM)))["items"])


def better(items: list[dict[str, int]], inputs: object) -> float:
    return items[0]["n"] / 10


def run(*answers: object, **fields: object) -> None:
    spec = AgentSpec("thinker", __name__, "Asking.run", "macro", **fields)  # type: ignore[arg-type]
    Asking(spec, PromptSet(here()), Says(*answers)).run({"level": 7})


def test_runs_in_the_field_and_repeated_evals_all_stay(toy: Path) -> None:
    assert orchestrator.main(["--quiet"]) == cli.OK
    for _ in range(2):
        harness.main(["--quiet", "--agent", "meta_agent", "--max-calls", "4"])
    found = deliberations(Repo(toy), Window())
    field = [one for one in found if one.source == "runtime"]
    graded = [one for one in found if one.source == "eval"]
    asked = [one for one in field if one.turns]
    assert asked and all(one.given and one.output and one.turns[0].answer for one in asked)
    assert {one.agent for one in graded} == {"meta_agent"}
    assert len({one.run_id for one in graded}) == len(graded)
    cases = [one.graded["case_id"] for one in graded if one.graded]
    assert len(cases) > len(set(cases)), "a second run replaces nothing"
    assert all(message["text"] for one in graded for turn in one.turns for message in turn.messages)


def test_a_night_of_a_test_says_why_too(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logger.source("ab_test"):
        run({"items": [{"n": 1, "why": "the river rises"}]})
    assert script.main(["--source", "ab_test", "--agent", "thinker"]) == cli.OK
    shown = capsys.readouterr().out
    assert "ab_test" in shown and "the river rises" in shown
    assert script.main(["--json", "--agent", "nobody"]) == cli.OK
    assert json.loads(capsys.readouterr().out) == []


def test_the_output_that_counts_is_the_one_that_is_kept(root: Path) -> None:
    run({"items": [{"n": 5}]}, {"items": [{"n": 4}]}, iterate=Iterate(0.9, 2, f"{__name__}:better"))
    (one,) = deliberations(Repo(root), Window())
    assert json.loads(one.output or "") == [{"n": 5}]
    assert [attempt["quality_score"] for attempt in one.iterations] == [0.5, 0.4]
    assert len(one.turns) == 2


def test_another_machine_can_read_them(tmp_path: Path) -> None:
    remote(tmp_path)
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    with working_in(one):
        run({"items": [{"n": 1, "why": "it is far away"}]})
    sync.push(Repo(one))
    sync.pull(Repo(two))
    (read,) = deliberations(Repo(two), Window())
    assert (read.rationale, read.turns[0].messages[1]["text"]) == (
        "it is far away",
        '{"task": "thinker", "q": {"level": 7}}',
    )
