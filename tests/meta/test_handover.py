"""A hand-over holds what the script changed and may change, and nothing when there is nothing to propose."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from meta import handover
from meta.outcome import outcome
from meta.publish import judge, kinds
from meta.publish.judge import META, pack
from tests.worlds import proposal_repo as repo

REPORT = "meta/reports/ab_test_report.md"
# What each stubbed script does; it stands where the real one would: eval/ab_testing.py.
STUB = """\
import os, pathlib, sys
pathlib.Path({report!r}).write_text("**Promote?**\\n")
pathlib.Path({report!r}).with_suffix(".json").write_text("{{}}\\n")
{body}
"""
DECISION = repo.decision("promote", "ab_champion", "macro_watcher", "better\n")
PROMOTE = (
    f"DECISION = {DECISION!r}"
    + """
for name in ("macro_watcher.md", "variants/macro_watcher/champion.md"):
    pathlib.Path("agents/prompts", name).write_text("better\\n")
pathlib.Path("meta/decisions/2026-11-16-ab_champion-macro_watcher.json").write_text(DECISION)
pathlib.Path("telemetry").mkdir(exist_ok=True)
pathlib.Path("telemetry/events.jsonl").write_text("data\\n")
pathlib.Path(".github/workflows/ci.yml").write_text("on: evil\\n")
with open(os.environ["GITHUB_OUTPUT"], "a") as out:
    out.write("list<<E\\npromoted=no\\nE\\npromoted=true\\n")
"""
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repo.make(tmp_path_factory.mktemp("handover") / "repo")


@pytest.fixture
def root(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    return Path(shutil.copytree(template, tmp_path / "repo"))


def produce(root: Path, body: str, *flags: str, kind: str = "ab_champion") -> tuple[int, str, str]:
    """Commit the stub, produce, and return exit code, summary and step output."""
    repo.write(root, "eval/ab_testing.py", STUB.format(report=REPORT, body=body))
    repo.git(root, "add", "-A")
    repo.git(root, "commit", "-q", "-m", "stub")
    out = root.parent / "handover"
    code = handover.main(["produce", "--kind", kind, "--root", str(root), "--out", str(out), *flags])
    summary, output = root.parent / "summary", root.parent / "output"
    return code, summary.read_text(), output.read_text() if output.exists() else ""


def test_a_promotion_is_handed_over_without_data_or_foreign_paths(root: Path) -> None:
    code, summary, output = produce(root, PROMOTE)
    assert code == 0
    assert "\ntrue\n" in output
    assert "agents/prompts/macro_watcher.md" in summary
    folder = root.parent / "handover"
    patch = (folder / judge.PATCH).read_text()
    assert "events.jsonl" not in patch
    assert ".github" not in patch
    assert sorted(path.name for path in folder.iterdir()) == [judge.PATCH, META]
    meta = json.loads((folder / META).read_text())
    assert meta["branch"] == "meta/prompt-ab-champion"
    assert meta["base_sha"] == repo.git(root, "rev-parse", "HEAD").strip()
    repo.git(root, "stash", "-q", "-u")
    assert judge.check_handover(folder, "ab_champion", root).problems == ()


def test_packing_leaves_the_index_alone(root: Path) -> None:
    repo.write(root, REPORT, "new\n")
    assert pack(kinds.KINDS["ab_champion"], root, root.parent / "handover") == (REPORT,)
    assert repo.git(root, "diff", "--cached", "--name-only") == ""


@pytest.mark.parametrize(
    ("name", "value"), [("diff.noprefix", "true"), ("color.ui", "always"), ("diff.external", "false")]
)
def test_how_someone_likes_their_diffs_changes_no_patch(root: Path, name: str, value: str) -> None:
    repo.git(root, "config", name, value)
    repo.write(root, REPORT, "new\n")
    assert pack(kinds.KINDS["ab_champion"], root, root.parent / "handover") == (REPORT,)
    assert judge.check_handover(root.parent / "handover", "ab_champion", root).problems == ()


def test_nothing_promoted_hands_over_the_report_alone(root: Path) -> None:
    """It may speak against a pull request that is open."""
    code, summary, output = produce(root, "")
    assert (code, [path.name for path in (root.parent / "handover").iterdir()]) == (0, ["report.json"])
    assert "Nothing to propose: the script found nothing promoted." in summary
    assert "\nfalse\n" in output


def test_an_unchanged_tree_hands_over_nothing(root: Path) -> None:
    for name in (
        "agents/orchestrator",
        "eval/harness",
        "eval/drift",
        "telemetry/__init__",
        "telemetry/rollup",
        "meta/critique_loops",
    ):
        repo.write(root, f"{name}.py", "")
    telling = "import os\nopen(os.environ['GITHUB_OUTPUT'], 'a').write('to_tell=true\\n')\n"
    repo.write(root, "meta/critique_loops.py", telling)
    code, summary, _ = produce(root, "", kind="critiques")
    assert (code, "no file changed" in summary, (root.parent / "handover").exists()) == (0, True, False)


def test_what_a_script_needs_runs_first_and_its_failure_is_the_jobs(root: Path) -> None:
    repo.write(root, "agents/orchestrator.py", "raise SystemExit(3)")
    code, summary, _ = produce(root, "", kind="critiques")
    assert (code, "Stopped early" in summary) == (0, True)
    repo.write(root, "agents/orchestrator.py", "raise SystemExit(2)")
    code, summary, _ = produce(root, "", kind="critiques")
    assert (code, "The script failed with exit code 2" in summary) == (2, True)


def test_stopping_early_is_no_failure_and_proposes_nothing(root: Path) -> None:
    code, summary, output = produce(root, PROMOTE + "sys.exit(3)")
    assert code == 0
    assert "Stopped early" in summary
    assert "\nfalse\n" in output


@pytest.mark.parametrize(
    ("ending", "expected"), [("sys.exit(2)", 2), ("1 / 0", 1), ("os.kill(os.getpid(), 9)", 1)]
)
def test_a_failing_script_fails_and_still_writes_its_summary(root: Path, ending: str, expected: int) -> None:
    code, summary, output = produce(root, PROMOTE + ending)
    assert code == expected
    assert "The script failed" in summary
    assert "\nfalse\n" in output


@pytest.mark.parametrize(
    "flags",
    [
        ("--prompt=$(touch pwned)",),
        ("--prompt=x; touch pwned",),
        ("--prompt=`touch pwned`",),
        ("--prompt=a\nb",),
        ("--max-usd=1e9",),
        ("--max-usd=1 --root=/",),
    ],
)
def test_hostile_options_never_reach_the_script(root: Path, flags: tuple[str, ...]) -> None:
    code, summary, _ = produce(root, "pathlib.Path('ran').touch()", *flags)
    assert code == 2
    assert "not of the form" in summary
    assert not (root / "ran").exists()
    assert not (root / "pwned").exists()


def test_plain_options_reach_the_script_as_flags(root: Path) -> None:
    flags = ("--prompt=agents/prompts/macro_watcher.md", "--max-usd=2.50")
    produce(root, "pathlib.Path('argv').write_text(repr(sys.argv[1:]))", *flags)
    assert (root / "argv").read_text() == repr(["--only", "prompts", *flags])


def test_an_option_the_kind_does_not_take_is_bad_input(root: Path) -> None:
    code, _, _ = produce(root, "", "--prompt=x", kind="retirement")
    assert code == 2


def test_unset_secrets_are_absent_not_empty(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    produce(root, "pathlib.Path('key').write_text(str('OPENAI_API_KEY' in os.environ))")
    assert (root / "key").read_text() == "False"


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"GUARD_OUTCOME": "failure"}, "the change was not fit to be applied"),
        ({"GUARD_OUTCOME": "skipped"}, "was not even judged. If it was the\ndownload"),
        (
            {"GUARD_OUTCOME": "success", "PR_OUTCOME": "failure"},
            "/o/r/compare/main...meta/agent-retirement?expand=1",
        ),
        (
            {
                "GUARD_OUTCOME": "success",
                "PR_OUTCOME": "success",
                "PR_NUMBER": "7",
                "PR_OPERATION": "updated",
            },
            "[#7]() updated",
        ),
        ({"GUARD_OUTCOME": "success", "PR_OUTCOME": "success", "PR_NUMBER": ""}, "already holds"),
        ({"GUARD_OUTCOME": "success", "PR_OUTCOME": "success", "PR_NUMBER": "7"}, "No `BOT_TOKEN` is set"),
    ],
)
def test_the_outcome_is_told_in_words(facts: dict[str, str], told: str) -> None:
    facts |= {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r"}
    assert told in outcome(kinds.KINDS["retirement"], facts)


def test_a_label_that_could_not_be_set_is_not_a_pull_request_that_could_not_be_opened() -> None:
    standing = {"number": 7, "html_url": "u", "labels": [{"name": "meta-agent"}]}
    told = outcome(kinds.KINDS["retirement"], {"GUARD_OUTCOME": "success", "PR_OUTCOME": "failure"}, standing)
    assert "[#7](u) is open, but the labels retirement could not be set" in told
    assert "could not be opened" not in told


def test_what_a_script_prints_is_no_command_to_the_runner(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    produce(root, "print('::error::pwned')")
    told = capfd.readouterr().err
    token = told.partition("::stop-commands::")[2].split()[0]
    assert told.index("::stop-commands::") < told.index("::error::pwned") < told.index(f"::{token}::")


def test_no_notice_with_a_bot_token() -> None:
    facts = {"GUARD_OUTCOME": "success", "PR_OUTCOME": "success", "PR_NUMBER": "7", "HAS_BOT_TOKEN": "true"}
    assert "TOKEN" not in outcome(kinds.KINDS["retirement"], facts)
