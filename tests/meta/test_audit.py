"""The audit: real git history, decisions that hold, decisions that were tampered with, and hand edits."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agents.manifest import MANIFEST
from eval.ledger.decisions import Decision, write_decision
from meta import audit, prompt_variant_manager, retirement
from meta import prompt_variant_manager as manager
from telemetry.edge.files import Repo, here, write_atomic
from telemetry.logger import log_event
from tests.worlds.eventlog import day

PROMPT = "agents/prompts/watcher.md"
REPORT = "meta/reports/ab_test_report.json"


def git(root: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True)


def switch_off(agent: str) -> None:
    """What a person does in an editor."""
    write_atomic(here() / MANIFEST, retirement.switch(here(), [agent], enabled=False))


@pytest.fixture
def checkout(root: Path) -> Path:
    """Two agents without code, their prompts contested, in a repository with one commit."""
    agents = []
    for name in ("watcher", "echo"):
        places = {"prompt": "prompts/{}.md", "output_schema": "schemas/{}.json", "eval_suite": "{}.jsonl"}
        files = {field: f"agents/{place.format(name)}" for field, place in places.items()}
        for path, text in zip(files.values(), (f"# {name}\n", '{"type": "object"}', ""), strict=True):
            write_atomic(root / path, text)
        code = {"module": "agents.prompted", "callable": "PromptedAgent.run"}
        agents.append({"name": name, "inputs": "outputs", **code, **files})
        manager.ensure_variants(files["prompt"])
    write_atomic(root / MANIFEST, yaml.safe_dump({"version": 1, "agents": agents}, sort_keys=False))
    (root / ".gitignore").write_text("telemetry/events.jsonl\n")
    git(root, "init", "-q", "-b", "main")
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
            subject="watcher",
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


def test_a_prompt_that_nobody_can_read_is_unexplained(checkout: Path) -> None:
    (checkout / PROMPT).write_bytes(b"\xff\xfe")
    assert unexplained(checkout) == [PROMPT]


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
    switch_off("watcher")
    assert "watcher" in unexplained(checkout)
    git(checkout, "checkout", "-q", ".")
    retire("echo")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "retire")
    assert unexplained(checkout) == []


def by_merge(root: Path, branch: str) -> None:
    git(root, "merge", "-q", "--no-ff", "--no-edit", branch)


def by_squash(root: Path, branch: str) -> None:
    git(root, "merge", "-q", "--squash", branch)
    git(root, "commit", "-qm", f"Squash {branch}")


def by_rebase(root: Path, branch: str) -> None:
    git(root, "rebase", "-q", "main", branch)
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--ff-only", branch)


MERGES = {"merge": by_merge, "squash": by_squash, "rebase": by_rebase}


def proposed(root: Path, branch: str, change: Callable[[], object]) -> None:
    """A change as one commit on a branch of its own; main is checked out again."""
    git(root, "checkout", "-qb", branch)
    change()
    git(root, "add", "-A")
    git(root, "commit", "-qm", branch)
    git(root, "checkout", "-q", "main")


def moved_on(root: Path) -> None:
    """What a person does on main in the meantime, also to files that the proposals change elsewhere."""
    manifest = root / MANIFEST
    manifest.write_text("# a new first line\n" + manifest.read_text())
    (root / "README.md").write_text("edited\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "by hand")


def retire(agent: str) -> None:
    for number in range(120):
        log_event(agent, "r", 1.0, cost_usd=0.0, reward=0.0, as_of=day(number))
    assert retirement.main(["--disable", "--quiet"]) == 0


@pytest.mark.parametrize("how", MERGES)
def test_a_promotion_and_a_retirement_are_explained_however_they_are_merged(checkout: Path, how: str) -> None:
    proposed(checkout, "promotion", lambda: promote(checkout, "a better text\n"))
    proposed(checkout, "retirement", lambda: retire("echo"))
    moved_on(checkout)
    for branch in ("promotion", "retirement"):
        MERGES[how](checkout, branch)
        assert unexplained(checkout) == []
    proposed(checkout, "later", lambda: promote(checkout, "an even better text\n"))
    MERGES[how](checkout, "later")
    assert unexplained(checkout) == []
    assert [row["holds"] for row in audit.log(Repo(checkout))] == [True, True, True]


def test_several_changes_squashed_into_one_commit_are_explained_each(checkout: Path) -> None:
    proposed(checkout, "promotion", lambda: promote(checkout, "a better text\n"))
    proposed(checkout, "retirement", lambda: retire("echo"))
    moved_on(checkout)
    git(checkout, "checkout", "-qb", "all")
    by_merge(checkout, "promotion")
    by_merge(checkout, "retirement")
    git(checkout, "checkout", "-q", "main")
    by_squash(checkout, "all")
    assert unexplained(checkout) == []


@pytest.mark.parametrize("how", MERGES)
def test_several_nights_of_one_kind_are_explained_when_they_are_merged_together(
    checkout: Path, how: str
) -> None:
    git(checkout, "checkout", "-qb", "nights")
    for text in ("better\n", "even better\n", "best\n"):
        promote(checkout, text)
        git(checkout, "add", "-A")
        git(checkout, "commit", "-qm", text)
    git(checkout, "checkout", "-q", "main")
    moved_on(checkout)
    MERGES[how](checkout, "nights")
    assert unexplained(checkout) == []
    assert [row["holds"] for row in audit.log(Repo(checkout))] == [True, True, True]


def test_nights_squashed_together_that_do_not_lead_to_each_other_are_found(checkout: Path) -> None:
    git(checkout, "checkout", "-qb", "nights")
    for text in ("better\n", "even better\n"):
        promote(checkout, text)
        manager.save_champion(PROMPT, "between them, by hand\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "all")
    assert len(unexplained(checkout)) == 3  # both decisions, and the champion


def test_a_shallow_history_is_said_to_be_shallow_in_one_line(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(checkout, "a better text\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "promote")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "later")
    git(checkout, "clone", "-q", "--depth=1", f"file://{checkout}", "shallow")
    assert audit.main(["--root", str(checkout / "shallow")]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: history is shallow") and told.err.count("\n") == 1 and not told.out


@pytest.mark.parametrize("how", MERGES)
def test_a_promotion_that_was_reverted_is_no_decision_and_its_return_is_one_again(
    checkout: Path, how: str
) -> None:
    before = (checkout / PROMPT).read_text()
    proposed(checkout, "promotion", lambda: promote(checkout, "a better text\n"))
    MERGES[how](checkout, "promotion")
    moved_on(checkout)
    mainline = ("-m", "1") if how == "merge" else ()
    git(checkout, "revert", "--no-edit", *mainline, "HEAD^")
    assert (checkout / PROMPT).read_text() == before
    assert unexplained(checkout) == [] and audit.log(Repo(checkout)) == []
    git(checkout, "revert", "--no-edit", "HEAD")
    assert (checkout / PROMPT).read_text() == "a better text\n"
    assert unexplained(checkout) == [] and [row["holds"] for row in audit.log(Repo(checkout))] == [True]


def test_after_a_revert_the_promotion_before_it_explains_the_champion(checkout: Path) -> None:
    for number, text in enumerate(("better\n", "even better\n")):
        proposed(checkout, f"promotion{number}", lambda text=text: promote(checkout, text))
        by_squash(checkout, f"promotion{number}")
    git(checkout, "revert", "--no-edit", "HEAD")
    (finding,) = [finding for finding in audit.audit(Repo(checkout)) if finding.subject == PROMPT]
    assert finding.explained and "promoted by meta/decisions/2026-11-16-ab_champion" in finding.why
    assert unexplained(checkout) == []


def test_a_decision_that_came_with_a_merge_itself_counts(checkout: Path) -> None:
    proposed(checkout, "other", lambda: (checkout / "README.md").write_text("x\n"))
    git(checkout, "merge", "-q", "--no-ff", "--no-commit", "other")
    promote(checkout, "a better text\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "merge, and promote on the way")
    assert unexplained(checkout) == []


def test_a_decision_that_was_rewritten_later_does_not_count(checkout: Path) -> None:
    path = promote(checkout, "a better text\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "promote")
    row = json.loads(path.read_text())
    row["verdict"]["effect"] = 0.9
    path.write_text(json.dumps(row))
    git(checkout, "commit", "-qam", "polish")
    assert set(unexplained(checkout)) == {PROMPT, str(path.relative_to(checkout))}


@pytest.mark.parametrize("fault", ["verdict", "other agent", "off before"])
def test_a_retirement_that_its_commit_does_not_bear_out_does_not_count(checkout: Path, fault: str) -> None:
    if fault == "off before":
        switch_off("echo")
        git(checkout, "commit", "-qam", "by hand")
        git(checkout, "checkout", "-q", "HEAD^", "--", str(MANIFEST))
    retire("echo")
    (path,) = (checkout / "meta/decisions").glob("*.json")
    row = json.loads(path.read_text())
    if fault == "verdict":
        row["verdict"]["odds"] = row["verdict"]["convinced"] - 1
    if fault == "other agent":
        row["subject"] = "watcher"
    path.write_text(json.dumps(row))
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "retire")
    assert set(unexplained(checkout)) == {"echo", str(path.relative_to(checkout))}


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
        "what": "promote watcher",
        "effect": "+8.3 points (+3.1 .. +13.4)",
        "evidence": "34:1 on 118 cases",
        "commit": "not committed",
        "holds": True,
    }


COMPARED = {"prompt": PROMPT, "pair": "p", "variant": "B", "sha256": "392ef40" + "0" * 57, "promoted": False}
FIGURES = {"effect": -0.135, "ci_low": -0.232, "ci_high": -0.038, "e_value": 0.02, "cases_used": 42}


def compared(root: Path, day: str, *comparisons: dict[str, object]) -> None:
    """A line of history as the A/B test leaves it."""
    line = {"run_type": "ab_test", "ts": f"{day}T03:07:00.000Z", "summary": {"comparisons": comparisons}}
    with (root / "eval/history.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_the_log_tells_what_was_rejected_too_in_the_order_of_the_days(checkout: Path) -> None:
    (checkout / "eval").mkdir(exist_ok=True)
    compared(checkout, "2026-11-17", {**COMPARED, "verdict": "keep", **FIGURES})
    compared(checkout, "2026-11-15", {**COMPARED, "verdict": "blocked"}, {**COMPARED, "verdict": "continue"})
    promote(checkout, "a better text\n")
    blocked, promoted, lost = audit.log(Repo(checkout))
    assert (blocked["what"], blocked["effect"]) == (
        "watcher: champion stays, B 392ef40 was better, but blocked",
        "",
    )
    assert promoted["what"] == "promote watcher"
    assert lost == {
        "when": "2026-11-17",
        "what": "watcher: champion stays, B 392ef40 lost",
        "effect": "-13.5 points (-23.2 .. -3.8)",
        "evidence": "0.02:1 on 42 cases",
        "commit": "",
        "holds": None,
    }


def test_a_promoted_text_is_called_by_letter_and_hash(checkout: Path) -> None:
    file = promote(checkout, "a better text\n")
    decision = json.loads(file.read_text())
    decision["verdict"]["variant"] = "B"
    file.write_text(json.dumps(decision))
    (row,) = audit.log(Repo(checkout))
    assert row["what"] == f"promote watcher B {decision['after_sha256'][:7]}"


def test_the_log_fits_eighty_columns_and_cuts_no_name(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "eval").mkdir(exist_ok=True)
    long = {**COMPARED, "prompt": "agents/prompts/geopolitical_risk_watch.md", "verdict": "keep", **FIGURES}
    compared(checkout, "2026-11-15", {**COMPARED, "verdict": "blocked", **FIGURES}, long)
    promote(checkout, "a better text\n")
    assert audit.main(["--log"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "2026-11-15  geopolitical_risk_watch: champion stays, B 392ef40 lost" in lines
    assert "            +8.3 points (+3.1 .. +13.4); 34:1 on 118 cases; not committed" in lines


def test_a_line_of_history_that_cannot_be_read_is_left_out_of_the_log(checkout: Path) -> None:
    (checkout / "eval").mkdir(exist_ok=True)
    (checkout / "eval/history.jsonl").write_text('{"run_type": "ab_test"}\n[]\n{"run_ty')
    assert audit.log(Repo(checkout)) == []


def test_a_broken_decision_file_is_bad_input(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "meta/decisions").mkdir(parents=True)
    (checkout / "meta/decisions/2026-11-16-ab_champion-x.json").write_text("{")
    assert audit.main([]) == 2
    assert "meta/decisions/2026-11-16-ab_champion-x.json" in capsys.readouterr().err
