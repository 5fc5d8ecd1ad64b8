"""The offline model in a domain of somebody else's: it learns the labels of a suite, or says that it does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents import orchestrator
from agents.manifest import load_manifest
from agents.offline.model import UNKNOWN_TASK
from agents.texts.variants import Variants
from eval import ab_testing, harness
from meta import propose
from telemetry.edge import cli
from telemetry.edge.files import here
from tests.worlds import tickets, world


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_proposals_learn_which_words_speak_for_which_label(root: Path) -> None:
    tickets.make(root)
    assert harness.main(["--quiet"]) == cli.OK
    report = propose.propose()
    [row] = report["proposals"]
    [challenger] = Variants(here(), tickets.PROMPT).challengers()[0]
    assert "refund: billing" in challenger.text and "password: account" in challenger.text
    assert row["tune"]["after"]["passed"] == row["tune"]["cases"] > row["tune"]["before"]["passed"]
    # What was learnt on one half holds on the other.
    assert ab_testing.main(["--quiet"]) == cli.OK
    assert "refund: billing" in (root / tickets.PROMPT).read_text()


def test_what_the_offline_model_does_not_know_is_skipped_and_never_scored(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tickets.make(root, tickets.SPEECHLESS)
    world.challenger(root, tickets.PROMPT, tickets.SPEECHLESS + "\nBe quick.\n")

    assert harness.main(["--json", "--quiet"]) == cli.OK
    assert told(capsys)["skipped"] == {"tickets": UNKNOWN_TASK}
    assert not (root / "eval/results/tickets.json").exists()

    assert ab_testing.main(["--json", "--quiet"]) == cli.OK
    [test] = told(capsys)["tests"]
    assert test["arms"] == []
    assert [skip["reason"] for skip in test["skipped"]] == [UNKNOWN_TASK]

    [left_out] = propose.propose()["skipped"]
    assert left_out["reason"] == UNKNOWN_TASK
    assert world.rows(root) == []  # nothing ran, so nothing is on record, least of all a failure


def test_an_agent_with_code_is_skipped_once_it_has_asked_what_nobody_knows(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tickets.make(root, tickets.SPEECHLESS)
    world.change(root, "tickets", module="tests.worlds.tickets", callable="Coded.run")
    assert harness.main(["--json", "--quiet"]) == cli.OK
    assert told(capsys)["skipped"] == {"tickets": UNKNOWN_TASK}
    assert not (root / "eval/results/tickets.json").exists()


def test_an_agent_that_is_skipped_is_no_failed_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tickets.make(root, tickets.SPEECHLESS)
    world.put(root, "agents/inputs/records.json", {"text": "my password is refused"})
    world.change(root, "tickets", inputs="records")
    assert load_manifest(here()).agent("tickets")
    assert orchestrator.main(["--json", "--quiet"]) == cli.OK
    assert told(capsys) == {"results": [], "failed": 0, "skipped": {"tickets": UNKNOWN_TASK}}
    assert world.rows(root) == [] and not (root / "agents/outputs/tickets.json").exists()
