"""The workflows run as they are, from the script to the pull request; only the scripts are stand-ins here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from meta.publish.kinds import KINDS
from tests.github.act_night import Night, Ran, small_tree
from tests.worlds import proposal_repo as repo

REPORT = """\
import os, pathlib, sys
def put(name, text):
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
def output(text):
    with open(os.environ["GITHUB_OUTPUT"], "a") as out:
        out.write(text)
put("{report}.json", "{{}}\\n")
put("{report}.md", "**Merge?** yes\\n")
"""
BETTER = "Watch the macro series closely.\n"
DECISION = repo.decision("promote", "ab_champion", "macro_watcher", BETTER)
PROMOTE = f"""\
put("agents/prompts/macro_watcher.md", {BETTER!r})
put("agents/prompts/variants/macro_watcher/champion.md", {BETTER!r})
put("meta/decisions/2026-11-16-ab_champion-macro_watcher.json", {DECISION!r})
output("promoted=true\\n")
"""
DATA = 'put("telemetry/events.jsonl", "data stays out\\n")\n'
REVIVED = "assert sys.argv[1:] == ['--revive']\noutput('revived=1\\n')\n"
PATCHED = repo.FILES["agents/market/macro_watcher.py"].replace("sqrt(x)", "sqrt(abs(x))")


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with Night(tmp_path) as night:
        small_tree(night.tree)
        yield night


def script(night: Night, kind: str, body: str) -> None:
    """Let the script of a kind write its report and do `body`."""
    form = KINDS[kind]
    text = REPORT.format(report=form.report) + body
    for command in form.before:
        repo.write(night.tree, command[0].replace(".", "/") + ".py", "")
    repo.write(night.tree, form.command[0].replace(".", "/") + ".py", text)


def ab_night(night: Night, body: str, event: str = "schedule", **more: str) -> Ran:
    script(night, "ab_champion", body)
    night.start()
    return night.run("prompt_ab_test", event, **more)


# The other kinds are proposed with their own scripts in test_life.py.
@pytest.mark.parametrize(
    ("workflow", "kind", "event", "body", "files"),
    [
        ("agent_revival", "revival", "schedule", REVIVED, {}),
        ("new_cases", "new_cases", "schedule", "output('harvested=2\\n')\n", {}),
        (
            "sandbox_patch",
            "sandbox",
            "workflow_dispatch",
            f"put('agents/market/macro_watcher.py', {PATCHED!r})\noutput('patched=true\\n')\n",
            {"agents/market/macro_watcher.py": PATCHED},
        ),
    ],
    ids=["revival", "new_cases", "sandbox"],
)
def test_a_change_becomes_the_pull_request_of_its_kind(
    night: Night, workflow: str, kind: str, event: str, body: str, files: dict[str, str]
) -> None:
    script(night, kind, body + DATA)
    night.start()
    assert_opened(night, night.run(workflow, event), kind, files)


def assert_opened(night: Night, ran: Ran, kind: str, files: dict[str, str]) -> None:
    """The run opened the pull request of that kind, with its report and these files."""
    form = KINDS[kind]
    assert ran.proposing == {"produce": "success", "publish": "success"}, ran.log
    request = ran.requests[form.branch]
    assert (request["title"], request["base"], request["delete-branch"]) == (form.title, "main", "true")
    assert (request["operation"], request["labels"]) == ("created", ",".join(form.labels))
    assert request["body"] == "**Merge?** yes\n"
    assert request["draft"] == ("always-true" if form.draft else "false")
    reports = {f"{form.report}.json": "{}\n", f"{form.report}.md": "**Merge?** yes\n"}
    assert night.diff(form.branch) == reports | files
    assert "file(s)" in ran.summaries["produce"]
    assert "Pull request [#" in ran.summaries["publish"]
    assert "No BOT_TOKEN" in ran.log


@pytest.mark.parametrize(
    ("body", "result", "told"),
    [
        ("output('demoted=false\\n')\n", "success", "Nothing to propose"),
        ("output('demoted=true\\n')\nsys.exit('broken')\n", "failure", "failed with exit code 1"),
    ],
)
def test_a_run_with_nothing_to_propose_opens_nothing_and_says_why(
    night: Night, body: str, result: str, told: str
) -> None:
    script(night, "backtest", body)
    night.start()
    ran = night.run("prompt_backtest", "schedule")
    assert (ran.proposing, ran.requests) == ({"produce": result}, {}), ran.log
    assert night.branches() == {"main"}
    assert told in ran.summaries["produce"]


def test_what_would_not_succeed_is_not_run_and_a_pause_starts_no_job(night: Night) -> None:
    script(night, "backtest", "put(os.environ['TEST_STORE'] + '/spent', '')\noutput('demoted=false\\n')\n")
    repo.write(night.tree, "meta/preflight.py", "raise SystemExit(2)")
    night.start()
    ran = night.run("prompt_backtest", "schedule")
    assert (ran.results, ran.requests) == ({"produce": "failure"}, {}), ran.log
    assert not (night.store / "spent").exists()
    paused = night.run("prompt_backtest", "schedule", variables={"RATCHET_PAUSE": "holidays"})
    assert paused.results == {}, paused.log


# Everything that differs, whatever the rules say, put in the place of what was packed as soon as that is there.
SMUGGLE = """
import subprocess, time
subprocess.run(["git", "add", "--all"], check=True)
diff = ["git", "diff", "--cached", "--binary", "HEAD"]
patch = subprocess.run(diff, check=True, capture_output=True).stdout
if os.fork() == 0:
    folder = pathlib.Path(os.environ["HANDOVER"])
    while not (folder / "meta.json").exists():
        time.sleep(0.001)
    (folder / "change.patch").write_bytes(patch)
    os._exit(0)
"""


def test_a_script_that_rewrites_the_rules_is_judged_by_those_of_main(night: Night) -> None:
    """Whatever runs in the produce job may hand over anything; the publish job runs main's own code."""
    rules = "meta/publish/boundaries.py"
    loosen = f"put('{rules}', 'check_changes = lambda *_: []')\nput('.github/workflows/ci.yml', 'on: push')\n"
    ran = ab_night(night, PROMOTE + loosen + DATA + SMUGGLE, TEST_HOSTILE="data")
    assert ran.proposing == {"produce": "success", "publish": "failure"}, ran.log
    assert ran.results["record"] == "failure", ran.log
    assert (ran.requests, night.branches()) == ({}, {"main"})
    assert "refused by the guard" in ran.summaries["publish"]
    for path in (".github/workflows/ci.yml", rules):
        assert f"{path}: is outside what ab_champion may touch" in ran.summaries["publish"]


def test_hostile_inputs_execute_nothing(night: Night) -> None:
    script(night, "ab_champion", PROMOTE)
    night.start()
    hostile = {
        "prompt": "$(touch $TEST_STORE/pwned)' || touch $TEST_STORE/pwned #",
        "max_usd": '"; touch $TEST_STORE/pwned; "',
    }
    ran = night.run("prompt_ab_test", inputs=hostile)
    assert not (night.store / "pwned").exists(), ran.log
    assert (ran.proposing, ran.requests) == ({"produce": "failure"}, {})
    assert "not of the form" in ran.summaries["produce"]


def test_a_refused_pull_request_leaves_the_branch_and_the_link_to_open_it(night: Night) -> None:
    night.hub.forbidden = {"POST /repos/owner/repo/pulls"}
    ran = ab_night(night, PROMOTE)
    assert ran.results["publish"] == "failure"
    assert night.branches() == {"main", "meta/prompt-ab-champion"}
    assert "/compare/main...meta/prompt-ab-champion?expand=1" in ran.summaries["publish"]
    assert "/owner/repo/settings/actions) > Workflow permissions" in ran.summaries["publish"]


def test_the_living_pull_request_is_updated_with_the_bot_token_and_no_script_sees_a_token(
    night: Night,
) -> None:
    dump = "put('meta/reports/ab_test_report.md', ' '.join(sorted(os.environ)))\n"
    script(night, "ab_champion", PROMOTE + dump)
    night.start()
    night.leave("meta/prompt-ab-champion")
    secrets = {"OPENAI_API_KEY": "key", "BOT_TOKEN": "bot-token", "GITHUB_TOKEN": "own"}
    ran = night.run("prompt_ab_test", secrets=secrets)
    request = ran.requests["meta/prompt-ab-champion"]
    assert (request["operation"], request["token"]) == ("updated", "bot-token")
    assert "No BOT_TOKEN" not in ran.log
    assert "updated" in ran.summaries["publish"]
    names = request["body"].split()
    assert "OPENAI_API_KEY" in names
    assert not {name for name in names if "TOKEN" in name and not name.startswith("ACTIONS_")}
