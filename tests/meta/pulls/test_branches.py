"""A night's local branches live like pull requests: a person's commit stays, and deleting one is a no."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from eval.ab_testing import main as ab_test
from eval.ledger.refusals import refusals
from meta import pull_requests
from meta.nightly.branches import LEFT, record_refused
from meta.nightly.stage import Stage
from telemetry.edge import cli
from telemetry.edge.files import Repo
from tests.worlds import night_checkout, world
from tests.worlds.night_checkout import PROMPT, git

BRANCH = "meta/prompt-ab-champion"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(night_checkout.make(tmp_path / "pristine")), "checkout")
    return tmp_path / "checkout"


def promote(checkout: Path) -> Stage:
    """A night that tests the better challenger, and publishes what came of it."""
    with Stage(checkout) as stage:
        assert ab_test(["--root", str(stage.tree), "--quiet"]) == cli.OK
        assert cli.outputs()["promoted"] == "true"
        assert stage.publish("ab_champion") == BRANCH
    return stage


def test_a_branch_deleted_unmerged_is_not_tested_again(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promote(checkout)
    assert record_refused(Repo(checkout)) == []
    git(checkout, "branch", "-D", BRANCH)
    (refused,) = record_refused(Repo(checkout))
    live = hashlib.sha256((checkout / PROMPT).read_bytes()).hexdigest()
    assert (refused.subject, refused.champion_sha256) == (PROMPT, live)
    assert record_refused(Repo(checkout)) == []
    ab_test(["--root", str(checkout), "--dry-run"])
    assert "B: not run, refused" in capsys.readouterr().out


def test_a_broken_memory_of_branches_is_none(checkout: Path) -> None:
    odd = '{"ab_champion": {"commit": "c", "claims": [{"subject": {"a": 1}}]}}'
    for kept in (
        *("[", odd),
        *('{"ab_champion": {"commit": "c", "claims": ["x"]}}', '{"ab_champion": {"claims": []}}'),
    ):
        world.put(checkout, LEFT, kept)
        assert record_refused(Repo(checkout)) == []


@pytest.mark.parametrize("how", [("--no-ff",), ("--squash",)])
def test_a_merged_branch_is_no_refusal_and_a_reverted_one_is(checkout: Path, how: tuple[str, ...]) -> None:
    promote(checkout)
    git(checkout, "merge", "-q", *how, BRANCH)
    git(checkout, "commit", "-q", "--allow-empty", "-m", "merged")
    git(checkout, "branch", "-D", BRANCH)
    assert record_refused(Repo(checkout)) == []
    if how == ("--no-ff",):
        git(checkout, "revert", "--no-edit", "-m", "1", "HEAD^")
        assert len(record_refused(Repo(checkout))) == 1


def test_a_persons_commit_on_the_branch_stays(checkout: Path) -> None:
    promote(checkout)
    git(checkout, "checkout", "-q", BRANCH)
    (checkout / PROMPT).write_text("my own words\n")
    git(checkout, "commit", "-qam", "my tweak")
    tip = git(checkout, "rev-parse", "HEAD")
    git(checkout, "checkout", "-q", "main")
    stage = promote(checkout)
    assert stage.keeps(BRANCH)
    assert git(checkout, "rev-parse", BRANCH) == tip


def test_reject_says_why_and_deletes_the_branch(checkout: Path) -> None:
    promote(checkout)
    flags = ["--kind", "ab_champion", "--root", str(checkout), "--quiet"]
    assert pull_requests.main(["reject", *flags, "--why", "it tells too much"]) == cli.OK
    (refused,) = refusals(Repo(checkout))
    assert refused.why == "it tells too much"
    assert git(checkout, "branch", "--list", BRANCH) == ""
    assert pull_requests.main(["reject", *flags]) == cli.BAD_INPUT
