"""The night: steps in order, failures contained, nothing repeated, and a checked-out tree that stays as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from meta.nightly.stage import TREE, InPlace, Stage
from meta.nightly.steps import DONE, FAILED, SKIPPED, STOPPED, Diary, Result, Step, run_night
from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_atomic, write_json
from tests.conftest import REPOSITORY


def git(root: Path, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What HEAD and the working tree hold together, as a repository with one commit."""
    copy = tmp_path_factory.mktemp("pristine") / "ratchet"
    listed = git(REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        source = REPOSITORY / name
        if source.is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(source.read_bytes())
    git(copy, "init", "-q", "-b", "main")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "start")
    return copy


@pytest.fixture
def checkout(pristine: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(pristine), "checkout")
    return tmp_path / "checkout"


def scripted(name: str, code: int = 0, **more: object) -> Step:
    """A step whose script only returns an exit code."""
    return Step(name, "working", (("tests.worlds.exits", str(code), name),), **more)  # type: ignore[arg-type]


def run(steps: list[Step], root: Path, earlier: dict[str, Result] | None = None) -> dict[str, Result]:
    results = run_night(steps, InPlace(root), earlier or {}, lambda _: None, lambda _: None)
    return {result.name: result for result in results}


def test_a_failing_step_skips_what_needs_it_and_nothing_else(root: Path) -> None:
    told = run(
        [
            scripted("agents", 1),
            scripted("evals"),
            scripted("critiques", needs=("agents",)),
            scripted("proposals", 3, needs=("evals",)),
            scripted("charts"),
        ],
        root,
    )
    assert {name: result.status for name, result in told.items()} == {
        "agents": FAILED,
        "evals": DONE,
        "critiques": SKIPPED,
        "proposals": STOPPED,
        "charts": DONE,
    }
    assert told["critiques"].told == "needs agents"
    assert "exit code 1" in told["agents"].told


def test_a_script_that_raises_is_a_failed_step_with_its_reason(root: Path) -> None:
    told = run([Step("bad", "", (("tests.no_such_module",),))], root)
    assert told["bad"].status == FAILED and "no_such_module" in told["bad"].told


def test_what_is_done_is_not_repeated_and_what_failed_is(root: Path) -> None:
    about = {"head": "abc"}
    diary = Diary(root, about)
    diary.add(Result("agents", DONE, "6 agents ran"))
    diary.add(Result("evals", FAILED, "no endpoint"))
    again = run([scripted("agents", 1), scripted("evals")], root, Diary(root, about).results)
    assert (again["agents"].told, again["agents"].again) == ("6 agents ran", True)
    assert (again["evals"].told, again["evals"].again) == ("evals told", False)
    assert Diary(root, {"head": "another"}).results == {}


def test_a_torn_diary_is_said_and_forgotten(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diary = Diary(root, {})
    diary.add(Result("agents", DONE, "x"))
    (path,) = (root / ".ratchet/night").glob("*.json")
    path.write_text('[{"name"')
    assert Diary(root, {}).results == {}
    assert "every step runs again" in capsys.readouterr().err


REPORT = "meta/reports/cross_critiques"


def write_report(tree: Path, text: str) -> None:
    empty: dict[str, object] = {"critiques": [], "failed": [], "nothing_to_see": [], "model": {}}
    about = {"schema_version": 1, "generated_at": "2026-11-16T00:00:00.000Z"}
    write_json(tree / f"{REPORT}.json", about | empty)
    write_atomic(tree / f"{REPORT}.md", text)


def test_a_change_becomes_one_commit_on_its_branch_and_the_tree_stays_as_it_was(checkout: Path) -> None:
    (checkout / "README.md").write_text("edited, not committed\n")
    before = git(checkout, "status", "--porcelain")
    with Stage(checkout) as stage:
        assert stage.publish("critiques") is None
        write_report(stage.tree, "> **Nothing to decide.**\n")
        assert stage.publish("critiques") == "meta/cross-critiques"
    assert git(checkout, "status", "--porcelain") == before
    assert (checkout / "README.md").read_text() == "edited, not committed\n"
    assert git(checkout, "rev-list", "--count", "main..meta/cross-critiques") == "1"
    message = git(checkout, "log", "-1", "--format=%B", "meta/cross-critiques")
    assert message.startswith("Meta: Cross-agent critiques\n\n> **Nothing to decide.**")
    assert git(checkout, "diff", "--name-only", "main", "meta/cross-critiques").split() == [
        f"{REPORT}.json",
        f"{REPORT}.md",
    ]
    assert not (checkout / TREE).exists() and git(checkout, "worktree", "list").count("\n") == 0


def test_the_next_night_rebuilds_the_branch_and_replaces_a_stage_that_was_killed(checkout: Path) -> None:
    stage = Stage(checkout)
    stage.__enter__()
    write_report(stage.tree, "half\n")
    (checkout / "telemetry/events.jsonl").write_text('{"kept": true}\n')
    with Stage(checkout) as fresh:
        assert not (fresh.tree / f"{REPORT}.md").exists()
        write_report(fresh.tree, "first\n")
        fresh.publish("critiques")
    with Stage(checkout) as later:
        write_report(later.tree, "second\n")
        later.publish("critiques")
    assert git(checkout, "rev-list", "--count", "main..meta/cross-critiques") == "1"
    assert "second" in git(checkout, "show", f"meta/cross-critiques:{REPORT}.md")
    assert (checkout / "telemetry/events.jsonl").read_text() == '{"kept": true}\n'


def test_what_the_guard_refuses_gets_no_branch(checkout: Path) -> None:
    with Stage(checkout) as stage:
        write_report(stage.tree, "see @everyone <script>alert(1)</script>\n" * 5000)
        with pytest.raises(BadInput, match="the guard refused"):
            stage.publish("critiques")
    assert git(checkout, "branch", "--list", "meta/*") == ""


def test_data_written_on_the_stage_lands_in_the_checkout(checkout: Path) -> None:
    with Stage(checkout) as stage:
        with (stage.tree / "telemetry/events.jsonl").open("a") as log:
            log.write("{}\n")
        (stage.tree / "eval/results/a.json").write_text("{}")
        stage.fresh()
        assert (stage.tree / "eval/results/a.json").exists()
    assert (checkout / "telemetry/events.jsonl").read_text() == "{}\n"
    assert (checkout / "eval/results/a.json").read_text() == "{}"


def test_a_night_needs_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(BadInput, match="needs a git checkout with a commit"), Stage(tmp_path):
        raise AssertionError("not reached")


def bare_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_first_night_of_a_newcomer(checkout: Path) -> None:
    """The whole loop as `make night` runs it: no key, no history, no git identity of one's own."""
    command = [sys.executable, "-m", "meta.night", "--json"]
    first = subprocess.run(command, cwd=checkout, env=bare_environment(), capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    by_name = {step["name"]: step["told"] for step in told["steps"]}
    assert {step["status"] for step in told["steps"]} == {DONE}
    assert "promote geopolitical_risk B" in by_name["A/B"]
    assert "keep macro_watcher B" in by_name["A/B"]
    assert "new challengers: " in by_name["proposals"]
    assert by_name["retirement"] == "1 retirement candidate: vix_echo"
    assert told["spent"]["provider"] == "offline" and told["spent"]["calls"] > 1000
    history = [json.loads(line) for line in (checkout / "eval/history.jsonl").read_text().splitlines()]
    assert [row["run_type"] for row in history] == ["eval", "ab_test", "night"]
    assert history[-1]["summary"]["spend"] == told["spent"]
    assert history[-1]["metadata"]["provider"] == "offline"
    assert git(checkout, "status", "--porcelain") == ""
    branches = git(checkout, "branch", "--list", "--format=%(refname:short)", "meta/*").split()
    assert branches == [
        "meta/agent-retirement",
        "meta/cross-critiques",
        "meta/prompt-ab-champion",
        "meta/prompt-proposals",
    ]
    live = "agents/prompts/geopolitical_risk.md"
    promoted = git(checkout, "show", f"meta/prompt-ab-champion:{live}")
    assert promoted == git(checkout, "show", "main:agents/prompts/variants/geopolitical_risk/B.md")

    git(checkout, "merge", "-q", "--no-edit", "meta/prompt-ab-champion")
    git(checkout, "merge", "-q", "--no-edit", "meta/prompt-proposals")
    audited = subprocess.run(
        [sys.executable, "-m", "meta.audit"], cwd=checkout, capture_output=True, text=True
    )
    assert audited.returncode == 0, audited.stdout
    git(checkout, "reset", "-q", "--hard", "origin/main")

    second = subprocess.run(command, cwd=checkout, env=bare_environment(), capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["spent"]["calls"] == 0
    assert all(step["again"] for step in json.loads(second.stdout)["steps"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_champions_improve_on_cases_that_no_proposal_has_seen(checkout: Path) -> None:
    command = [sys.executable, "-m", "meta.night", "--nights", "2", "--seed", "7", "--json"]
    done = subprocess.run(command, cwd=checkout, env=bare_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    means = [point["mean"] for point in told["curve"]]
    assert means[-1] - means[0] >= 0.05
    assert means == sorted(means)
    assert (checkout / told["picture"]).read_bytes().startswith(b"\x89PNG")
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "branch", "--list", "meta/*") == ""
