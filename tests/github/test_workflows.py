"""Every workflow keeps the house rules, and each rule can fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from meta.publish.boundaries import PROTECTED
from meta.publish.kinds import KINDS
from tests.github.workflow_rules import ACTIONS, pins, problems, triggers

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
BIN = Path(sys.executable).parent
FILES = sorted([*GITHUB.glob("workflows/*.y*ml"), *GITHUB.glob("actions/*/action.y*ml")])

COMMIT = "0123456789" * 4
GOOD = f"""
on:
  schedule:
    - cron: "7 3 * * *"
  workflow_dispatch:
    inputs:
      mode: {{type: string, default: report}}
permissions: {{}}
concurrency:
  group: night
  cancel-in-progress: false
jobs:
  night:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions:
      contents: write
    steps:
      - uses: actions/checkout@{COMMIT} # {ACTIONS["actions/checkout"].major}.1.2
        with:
          persist-credentials: false
      - run: echo "$MODE"
        env:
          MODE: ${{{{ inputs.mode || 'report' }}}}
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(GITHUB)))
def test_workflow_keeps_the_house_rules(path: Path) -> None:
    assert problems(path.read_text()) == []


def test_a_workflow_that_keeps_the_rules_has_no_problems() -> None:
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("permissions: {}", "permissions: read-all", "permissions: {} is missing"),
        ("permissions: {}\n", "", "permissions: {} is missing"),
        ("    permissions:\n      contents: write\n", "", "no permissions of its own"),
        ('echo "$MODE"', "echo ${{ inputs.mode || 'report' }}", "run: holds an expression"),
        (COMMIT, "v6", "not pinned"),
        (COMMIT, COMMIT[:39], "not pinned"),
        (f" # {ACTIONS['actions/checkout'].major}.1.2", "", "version in a comment"),
        (f" # {ACTIONS['actions/checkout'].major}.", " # v99.", "as reviewed"),
        ("actions/checkout@", "someone/checkout@", "not a reviewed action"),
        ("persist-credentials: false", "persist-credentials: true", "persist-credentials"),
        ("persist-credentials: false", "fetch-depth: 0", "persist-credentials"),
        ("persist-credentials: false", "persist-credentials: false\n          reff: x", "no input 'reff'"),
        ("    timeout-minutes: 5\n", "", "timeout-minutes"),
        ("  group: night\n", "", "concurrency group"),
        ("cancel-in-progress: false", "cancel-in-progress: true", "cut off a job that writes"),
        ("  schedule:", "  pull_request_target:\n  schedule:", "pull_request_target"),
        ("  schedule:", "  workflow_run: {workflows: [CI]}\n  schedule:", "workflow_run"),
        ('"7 3 * * *"', '"0 3 * * *"', "cron minute 0"),
        ('"7 3 * * *"', '"*/7 3 * * *"', "cron minute"),
        ("type: string, default: report", "type: string", "has no default"),
        (" || 'report'", "", "empty on schedule"),
        ("          MODE:", "          OPENAI_API_KEY: ${{ secrets.K }}\n          MODE:", "model key"),
    ],
)
def test_each_rule_can_fail(old: str, new: str, complaint: str) -> None:
    assert old in GOOD
    assert any(complaint in problem for problem in problems(GOOD.replace(old, new)))


def test_an_action_has_one_version_in_all_workflows() -> None:
    assert all(len(versions) == 1 for versions in pins(path.read_text() for path in FILES).values())


@pytest.mark.parametrize("path", sorted(GITHUB.glob("workflows/*.yml")), ids=lambda path: path.stem)
def test_a_job_that_has_the_model_key_heeds_the_kill_switch(path: Path) -> None:
    """Its own condition does, or that of the job without which it does not run."""
    jobs = yaml.safe_load(path.read_text())["jobs"]
    heeding = {name for name, job in jobs.items() if "RATCHET_PAUSE" in str(job.get("if"))}
    for name, job in jobs.items():
        if "secrets.OPENAI_API_KEY" in yaml.safe_dump(job.get("steps", [])):
            assert name in heeding or job.get("needs") in heeding, name


def test_a_schedule_without_dispatch_is_a_problem() -> None:
    head, _, rest = GOOD.partition("  workflow_dispatch:")
    text = head + "permissions:" + rest.partition("permissions:")[2]
    assert problems(text) == ["schedule without workflow_dispatch"]


CALLERS = {
    "prompt_ab_test": "ab_champion",
    "model_ab_test": "ab_model",
    "agent_retirement": "retirement",
    "agent_revival": "revival",
    "cross_critiques": "critiques",
    "prompt_proposals": "proposals",
    "sandbox_patch": "sandbox",
}


@pytest.mark.parametrize(("name", "kind"), CALLERS.items())
def test_a_caller_names_its_pull_request_as_the_kind_does(name: str, kind: str) -> None:
    """The file shows what it will open; `meta/publish/kinds.yaml` is what the night uses. They must not drift apart."""
    document = yaml.safe_load((GITHUB / f"workflows/{name}.yml").read_text())
    job = document["jobs"]["propose"]
    given, form = job["with"], KINDS[kind]
    assert job["uses"] == "./.github/workflows/propose_change.yml"
    assert kind in given["kind"]
    assert given["title"] == form.title
    assert given["labels"] == ",".join(form.labels)
    if kind == "retirement":
        branches = (KINDS["retirement_disable"].branch, form.branch)
        assert given["branch"] == "${{{{ inputs.mode == 'disable' && '{}' || '{}' }}}}".format(*branches)
        given["branch"] = form.branch
        assert given["draft"] == "${{ inputs.mode == 'disable' }}"
    else:
        assert given.get("draft", False) is form.draft
    assert given["branch"] == form.branch
    taken = {"prompt", "model", "goal", "max_usd", "merge", "trials", "allow"} & set(given)
    assert taken == set(form.options)


def test_disabling_is_a_draft_on_a_branch_of_its_own() -> None:
    report, disable = KINDS["retirement"], KINDS["retirement_disable"]
    assert (report.draft, disable.draft) == (False, True)
    assert report.branch != disable.branch


def test_schedules_follow_the_loop() -> None:
    """Critiques feed proposals, proposals feed the A/B test; a night's order is in the hours."""
    hours = {}
    for name in CALLERS:
        on = triggers(yaml.safe_load((GITHUB / f"workflows/{name}.yml").read_text()))
        assert "workflow_dispatch" in on
        for entry in on.get("schedule", []):
            minute, hour, _, _, weekday = entry["cron"].split()
            hours[name] = (int(hour), int(minute), weekday)
    assert hours["cross_critiques"] < hours["prompt_proposals"] < hours["prompt_ab_test"] < (3, 30, "*")
    assert hours["agent_retirement"][0::2] == (4, "1")
    assert "sandbox_patch" not in hours


def test_every_link_of_the_night_keeps_its_own_hours_unless_all_are_on_one_clock() -> None:
    """The same condition in all: that it lets a schedule through is seen where the A/B test is run by one."""
    own = "inputs.chained || github.event_name != 'schedule' || vars.RATCHET_CLOCK != 'nightly'"
    jobs = yaml.safe_load((GITHUB / "workflows/nightly.yml").read_text())["jobs"].values()
    links = [GITHUB.parent / job["uses"] for job in jobs if job.get("with") == {"chained": True}]
    assert len(links) == 4
    for link in links:
        document = yaml.safe_load(link.read_text())
        first = next(iter(document["jobs"].values()))
        assert first["if"] in (own, f"vars.RATCHET_PAUSE == '' && ({own})"), link
        assert "schedule" in triggers(document), link


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True)


def test_zizmor_is_clean() -> None:
    done = _run("zizmor", "--offline", "--no-progress", "--persona=pedantic", ".github")
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_sees_an_injection(tmp_path: Path) -> None:
    bad = GOOD.replace('echo "$MODE"', "echo ${{ github.event.issue.title }}")
    (tmp_path / "bad.yml").write_text(bad)
    done = _run("zizmor", "--offline", "--no-progress", str(tmp_path / "bad.yml"))
    assert done.returncode != 0
    assert "template-injection" in done.stdout


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", "workflows/*.yml"),
        ("vendor.github-actions", "actions/*/action.yml"),
        ("vendor.dependabot", "dependabot.yml"),
        ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_files_match_githubs_schema(schema: str, pattern: str) -> None:
    files = [str(path) for path in GITHUB.glob(pattern)]
    assert files
    done = _run("check-jsonschema", "--builtin-schema", schema, *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_whatever_no_proposal_may_touch_has_an_owner() -> None:
    """The last line that matches a path decides, as on GitHub."""
    lines = [
        line.split() for line in (GITHUB / "CODEOWNERS").read_text().splitlines() if line.startswith("/")
    ]
    for glob in PROTECTED:
        path = f"/{glob.replace('**', 'x').replace('*', 'x')}"
        owned = [
            owners for prefix, *owners in lines if path == prefix or path.startswith(prefix.rstrip("/") + "/")
        ]
        assert owned and owned[-1], glob


def test_every_line_of_the_threat_model_is_held_by_a_test_that_exists() -> None:
    told = (GITHUB / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in told.splitlines() if line.startswith(("| a ", "| whoever"))]
    assert len(rows) >= 7
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert named, row
        assert all((GITHUB.parent / name).exists() for name in named), row
