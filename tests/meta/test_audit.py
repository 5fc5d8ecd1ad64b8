"""The audit: real git history, decisions that hold, decisions that were tampered with, and hand edits."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from agents.manifest import MANIFEST
from eval.ledger.decisions import Decision, write_decision
from meta import audit, prompt_variant_manager, retirement
from meta import prompt_variant_manager as manager
from telemetry.edge.files import write_atomic
from telemetry.edge.repo import Repo, here
from telemetry.logger import log_event
from tests.conftest import REPOSITORY

PROMPT = "agents/prompts/geopolitical_risk.md"
REPORT = "meta/reports/ab_test_report.json"


def git(root: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True)


def switch_off(agent: str) -> None:
    """What a person does in an editor."""
    write_atomic(here() / MANIFEST, retirement.switch(here(), [agent], enabled=False))


@pytest.fixture
def checkout(root: Path) -> Path:
    for folder in ("agents", "eval/suites"):
        shutil.copytree(
            REPOSITORY / folder,
            root / folder,
            ignore=shutil.ignore_patterns("__pycache__", "outputs", "variants"),
        )
    (root / ".gitignore").write_text("telemetry/events.jsonl\n")
    for prompt in sorted((root / "agents/prompts").glob("*.md")):
        manager.ensure_variants(f"agents/prompts/{prompt.name}")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return root


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def promote(root: Path, text: str, verdict: str = "promote") -> Path:
    """What an A/B run leaves behind when it promotes."""
    before = sha256(root / PROMPT)
    manager.save_champion(PROMPT, text)
    (root / REPORT).parent.mkdir(parents=True, exist_ok=True)
    (root / REPORT).write_text(json.dumps({"made_up_for": text}))
    return root / write_decision(
        here(),
        Decision(
            decision="promote",
            kind="ab_champion",
            subject="geopolitical_risk",
            date="2026-11-16",
            before_sha256=before,
            after_sha256=sha256(root / PROMPT),
            report_sha256=sha256(root / REPORT),
            verdict={
                "verdict": verdict,
                "effect": 0.083,
                "ci_low": 0.031,
                "ci_high": 0.134,
                "e_value": 34.0,
                "cases_used": 118,
            },
            metadata={},
        ),
    )


def unexplained(root: Path) -> list[str]:
    return [finding.subject for finding in audit.audit(Repo(root)) if not finding.explained]


def test_a_fresh_checkout_is_explained_by_where_it_started(checkout: Path) -> None:
    assert unexplained(checkout) == []
    assert audit.main(["--quiet"]) == 0


def test_a_promotion_is_explained_before_and_after_its_commit_and_after_later_ones(checkout: Path) -> None:
    promote(checkout, "a better text\n")
    assert unexplained(checkout) == []
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "promote")
    (checkout / REPORT).write_text("{}")
    git(checkout, "commit", "-qam", "the report of a later night")
    assert unexplained(checkout) == []


def test_an_unrecorded_hand_edit_is_found_and_a_recorded_one_is_listed_as_such(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / PROMPT).write_text("edited by hand\n")
    git(checkout, "commit", "-qam", "quick fix")
    assert audit.main([]) == 1
    assert f"ensure {PROMPT} --take live" in capsys.readouterr().out
    assert prompt_variant_manager.main(["ensure", PROMPT, "--take", "live", "--quiet"]) == 0
    (finding,) = [finding for finding in audit.audit(Repo(checkout)) if finding.subject == PROMPT]
    assert finding.explained and finding.why.startswith("hand edit, recorded")


def test_a_champion_swapped_after_its_decision_is_found(checkout: Path) -> None:
    promote(checkout, "a better text\n")
    (checkout / PROMPT).write_text("slipped in\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "promote")
    assert PROMPT in unexplained(checkout)


@pytest.mark.parametrize("fault", ["verdict", "report", "before"])
def test_a_decision_that_its_commit_does_not_bear_out_does_not_count(checkout: Path, fault: str) -> None:
    path = promote(checkout, "a better text\n", verdict="keep" if fault == "verdict" else "promote")
    if fault == "report":
        (checkout / REPORT).write_text('{"another": "report"}')
    if fault == "before":
        row = json.loads(path.read_text()) | {"before_sha256": "0" * 64}
        path.write_text(json.dumps(row))
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "promote")
    assert {PROMPT, str(path.relative_to(checkout))} <= set(unexplained(checkout))


def test_a_disabled_agent_needs_a_decision(checkout: Path) -> None:
    switch_off("macro_watcher")
    assert "macro_watcher" in unexplained(checkout)
    git(checkout, "checkout", "-q", ".")
    for _ in range(120):
        log_event("vix_echo", "r", 1.0, cost_usd=0.0, reward=0.0)
    assert retirement.main(["--disable", "--quiet"]) == 0
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "retire")
    assert unexplained(checkout) == []


def test_the_log_tells_when_what_effect_evidence_and_commit(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(["--log"]) == 0
    assert "No decision yet" in capsys.readouterr().out
    promote(checkout, "a better text\n")
    assert audit.main(["--log", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "when": "2026-11-16",
        "what": "promote geopolitical_risk",
        "effect": "+8.3 points (+3.1 .. +13.4)",
        "evidence": "34:1 on 118 cases",
        "commit": "not committed",
        "holds": True,
    }


def test_a_broken_decision_file_is_bad_input(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "meta/decisions").mkdir(parents=True)
    (checkout / "meta/decisions/2026-11-16-ab_champion-x.json").write_text("{")
    assert audit.main([]) == 2
    assert "meta/decisions/2026-11-16-ab_champion-x.json" in capsys.readouterr().err
