"""A patch that holds is left in the tree; anything else is stopped, with a reason."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import jsonschema
import pytest

from agents.manifest import load_manifest
from agents.model.call import LLMError
from eval.grading.suite import load_suite
from meta import sandbox
from meta.patches import recommendations
from meta.patches import trial as patch_trial
from meta.patches.bench import Bench
from meta.patches.confine import Walls
from meta.patches.exam import Scores, by_heart, is_worse
from meta.patches.recommendations import Recommendation
from meta.patches.report import NotTried, Report, Row, body
from meta.patches.size import Metrics
from meta.patches.trial import Check, Commands, Sandbox
from meta.publish.contents import check_body
from meta.publish.judge import check_handover, pack
from meta.publish.kinds import KINDS
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import here, working_in
from telemetry.edge.records import made, plain
from tests.worlds import sandbox_checkout as small
from tests.worlds.models import Says
from tests.worlds.sandbox_checkout import CODE, PATH, diff, patch
from tests.worlds.world import git, offline, put, with_agents_of

pytestmark = pytest.mark.outside
LOWER = Recommendation("level", f"Set LIMIT in {PATH} to 40", "numbers from 40 on are missed", "P1", "a test")
BETTER = diff(CODE.replace("LIMIT = 50", "LIMIT = 40"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.make(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def checkout(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    tree = tmp_path / "checkout"
    shutil.copytree(template, tree)
    monkeypatch.setattr(patch_trial, "commands", lambda: small.SHORT)
    with_agents_of(tree, monkeypatch)
    with working_in(tree):
        yield tree


def tried(model: Any, *given: Recommendation, triage: bool = False, **options: Any) -> dict[str, Any]:
    bench = Bench(here(), load_manifest(here()), model, sandbox.TIME_LIMIT_S, **options)
    return dict(plain(bench.run(given or (LOWER,), triage=triage)))


def bench(checkout: Path, **parts: Any) -> Sandbox:
    """A sandbox for single patches, with the unpatched grades known."""
    suite = load_suite(here(), "eval/suites/level.jsonl")
    before = {case.id: (0.5, False) for case in suite.cases}
    return Sandbox(
        checkout,
        "level",
        PATH,
        suite,
        **{"time_limit_s": 60.0, "run": small.SHORT, "_before": before, **parts},
    )


def claims(outputs: str) -> tuple[str, ...]:
    """Evals that write a result of their own making, all passed; `n` is the number of a case."""
    code = f"""
import json, pathlib
given = map(json.loads, open("eval/suites/level.jsonl"))
numbers = {{row["id"]: row["input"]["numbers"][0] for row in given}}
rows = [{{"id": id, "output": {outputs}, "ok": True, "score": 1.0, "error": None, "output_kept": True}}
        for id, n in numbers.items()]
file = pathlib.Path("eval/results/level.json")
file.parent.mkdir()
file.write_text(json.dumps({{"results": rows, "summary": {{"mean_score": 1.0}}}}))
"""
    return (sys.executable, "-c", code)


QUICK = Commands((), (), claims("[{'risk_score': n}] if n >= 40 else []"))


def status(checkout: Path) -> set[str]:
    return {line[3:] for line in git(checkout, "status", "--porcelain", "-uall").splitlines()}


def events(checkout: Path, kind: str) -> list[dict[str, Any]]:
    lines = (checkout / "telemetry/events.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def test_a_patch_that_helps_is_left_applied_and_becomes_a_draft(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    (tmp_path / "one.json").write_text(
        json.dumps({"agent": "level", "change": LOWER.change, "why": LOWER.why})
    )
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    assert (
        sandbox.main(["--recommendation", str(tmp_path / "one.json"), "--quiet", "--root", str(checkout)])
        == 0
    )
    assert "LIMIT = 40  # report" in (checkout / PATH).read_text()
    assert "true" in (tmp_path / "output").read_text()

    report = json.loads((checkout / "meta/reports/sandbox_report.json").read_text())
    jsonschema.validate(report, json.loads((repository / "meta/sandbox_report.schema.json").read_text()))
    [row] = report["attempts"]
    assert (report["patched"], row["verdict"], row["provider"]) == (True, "passed", "offline")
    assert [check["name"] for check in row["checks"]] == ["guard", "lint", "evals", "tests"]
    assert list(report["metadata"]["suites"]) == ["eval/suites/level.jsonl"]
    assert row["scores"]["after"] == 1.0 > row["scores"]["before"]
    assert row["scores"]["newly_right"] and not row["scores"]["newly_wrong"]

    [event] = events(checkout, "evaluation")
    assert event["agent"] == "level" and event["verdict"] == "passed" and event["source"] == "critique"
    assert 0.1 <= event["reward_multiplier"] <= 1.0 and event["file_touch_count"] == 1
    assert {"ast_similarity", "line_change_ratio", "scaffolding_penalty"} <= event.keys()
    [run] = events(checkout, "run")
    assert (run["agent"], run["task"], run["cost_usd"]) == ("meta_agent", "patch", 0.0)

    paths = pack(KINDS["sandbox"], checkout, tmp_path / "handover")
    reports = {"meta/reports/sandbox_report.json", "meta/reports/sandbox_report.md"}
    [decision] = set(paths) - reports - {PATH}
    assert decision.startswith("meta/decisions/") and decision.endswith("-sandbox-level.json")
    assert check_handover(tmp_path / "handover", "sandbox", checkout).problems == ()
    assert json.loads((tmp_path / "handover/meta.json").read_text())["draft"] is True
    assert git(checkout, "worktree", "list").count("\n") == 1, "the throw-away worktrees are gone"


def test_a_patch_that_makes_it_worse_is_rejected_and_nothing_is_applied(checkout: Path) -> None:
    report = tried(offline(), replace(LOWER, change="Set LIMIT to 60"))
    [row] = report["attempts"]
    assert row["verdict"] == "rejected" and "worse on all cases" in row["reasons"][0]
    assert not report["patched"] and status(checkout) == {
        "meta/reports/sandbox_report.json",
        "meta/reports/sandbox_report.md",
    }


def test_the_offline_writer_says_what_it_cannot_do(checkout: Path) -> None:
    for change, why in (
        ("Handle missing values better", "names no numeric constant"),
        ("Set LIMIT lower", "does not say to which number"),
        ("Set LIMIT to 40, or to 45", "several numbers"),
        ("Set LIMIT to 50", "is 50 already"),
    ):
        [row] = tried(offline(), replace(LOWER, change=change))["attempts"]
        assert row["verdict"] == "declined" and why in row["reasons"][0], change


def link(path: str, target: str) -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"


def gone(path: str) -> str:
    lines = diff("", CODE).splitlines(keepends=True)[2:]
    return f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n{''.join(lines)}"


def new(path: str, text: str) -> str:
    lines = text.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{added}"


def inside(line: str) -> str:
    """The agent's code with one line put at the start of `analyze`."""
    return diff(CODE.replace("        return", f"        {line}\n        return"))


HOSTILE = {
    "a workflow": (new(".github/workflows/evil.yml", "on: push\n"), "protected (.github/**)"),
    "a way up": (new("../evil.py", "x = 1\n"), "git does not apply it"),
    "an absolute path": (new("/tmp/evil.py", "x = 1\n"), "git does not apply it"),
    "the git folder": (new(".git/hooks/post-checkout", "curl evil\n"), "git does not apply it"),
    "a link": (link("agents/level2.py", "/etc/passwd"), "outside"),
    "the code made a link": (
        gone(PATH) + link(PATH, "/etc/passwd"),
        "symbolic link",
    ),
    "a deletion": (gone(PATH), "is deleted"),
    "a binary": (diff(CODE + '\nX = "\0"\n'), "is binary"),
    "a socket": (diff("import socket\n" + CODE), "newly uses socket"),
    "a process": (inside("import subprocess"), "newly uses subprocess"),
    "the environment": (inside("import os; inputs = {'numbers': [len(os.environ)]}"), "newly uses os"),
    "the environment by a detour": (inside("import typing; typing.sys.modules['os'].environ"), "newly uses sys"),
    "a network module of ours": (diff("from agents.fetch import get\n" + CODE), "newly uses agents.fetch.get"),
    "the same, relative": (diff("from . import live\n" + CODE), "newly uses agents.live"),
    "the answers": (inside("open('eval/suites/level.jsonl')"), "newly uses open"),
    "the answers by a path at hand": (inside("(self.prompts.root / 'eval').rglob('*')"), "newly uses rglob"),
    "the graders": (diff("from eval.grading import graders\n" + CODE), "newly uses eval"),
    "the interpreter": (inside("exec('1')"), "newly uses exec"),
    "hidden attributes": (inside("getattr(self, '__class__')"), "newly uses __class__"),
    "a test": (diff("def test_it(): 0\n", "def test_it() -> None: ...\n", "tests/test_level.py"), "protected (tests"),
    "a suite": (new("eval/suites/more.jsonl", "{}\n"), "protected (eval/**)"),
    "another agent": (new("agents/other.py", "x = 1\n"), "outside"),
    "the manifest": (new("agents/more.yaml", "agents: []\n"), "outside"),
    "a forged report": (new("meta/reports/sandbox_report.md", "all fine\n"), "is the code of level"),
    "no code": (diff("def (:\n"), "is not Python"),
    "a rewrite": (diff("".join(f"x{n} = {n}\n" for n in range(500))), "lines outside the report changed"),
    "nonsense": ("rm -rf /\n", "git does not apply it"),
    "hidden characters": (diff(CODE.replace("# report", "# \u202ereport")), "hidden character U+202E"),
    "a secret": (diff(CODE + '\nKEY = "sk-abcdefghijklmnopqrstuv"\n'), "secret"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_patch_is_stopped_by_the_guard_with_a_reason(checkout: Path, name: str) -> None:
    text, why = HOSTILE[name]
    attempt = bench(checkout).try_patch(text)
    assert attempt.verdict == "rejected" and not attempt.checks, "it must not come to running anything"
    assert why in "; ".join(attempt.reasons)
    assert status(checkout) == set()


def test_a_diff_of_two_megabytes_is_not_even_parsed(checkout: Path) -> None:
    report = tried(
        Says(patch(diff(CODE + "# x\n" * 500_000)), {"action": "decline", "why": "no", "diff": ""})
    )
    [row] = report["attempts"]
    assert row["verdict"] == "rejected" and "at most 200,000 are taken" in row["reasons"][0]
    assert len(json.dumps(report)) < 20_000


def test_code_that_never_ends_meets_the_time_limit(checkout: Path) -> None:
    run = Commands(lint=(), tests=(), evals=(sys.executable, "-c", "import agents.level"))
    attempt = bench(checkout, time_limit_s=1.0, run=run).try_patch(
        diff(CODE + "\nwhile True:\n    LIMIT += 1\n")
    )
    assert attempt.verdict == "rejected" and attempt.reasons == ("evals: not done after 1 s",)


def test_patched_code_finds_no_secret(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard would refuse `os`; should a way be found around it, there is nothing to find."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnopqrstuv")
    look = (
        "import os, sys; sys.exit([v for k, v in os.environ.items() if 'KEY' in k or 'sk-' in v] or 'none')"
    )
    attempt = bench(checkout, run=Commands(((sys.executable, "-c", look),), (), ())).try_patch(BETTER)
    assert attempt.checks[-1].said.strip() == "none"


@pytest.mark.parametrize("name", ["evals", "tests"])
def test_no_answer_lies_behind_the_walls(checkout: Path, name: str) -> None:
    """Neither in the suite, nor in how it was made, nor in git; and no name tells what a case is about."""
    for path in ("eval/cases/level.yaml", "eval/baselines/level.md", "meta/reports/old.json"):
        put(checkout, path, "planted-answer\n")
    put(checkout, "eval/build_suites.py", "# planted-answer\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "answers")
    look = (
        "import pathlib, sys\n"
        "files = [path for path in pathlib.Path().rglob('*') if path.suffix not in ('.py', '.json', '')]\n"
        "assert files and not pathlib.Path('.git').exists()\n"
        "words = (b'planted-answer', b'set_f1', *([b'level-0'] if sys.argv[1] == 'evals' else []))\n"
        "found = [str(path) for path in files if any(word in path.read_bytes() for word in words)]\n"
        "sys.exit(' '.join(found) or 0)"
    )
    command = (sys.executable, "-c", look, name)
    right = claims("[{'risk_score': n}] if n >= 40 else []")
    run = Commands((), (command,), right) if name == "tests" else Commands((), (), command)
    attempt = bench(checkout, run=run).try_patch(BETTER)
    assert attempt.checks[-1] == Check(name, "ok", ANY)


def test_who_knows_the_cases_by_heart_is_found_out_on_a_second_sample(checkout: Path) -> None:
    put(checkout, "eval/build_suites.py", small.BUILDER)
    knows = claims("[{'risk_score': n}] if n >= 40 and n in range(35, 66, 2) else []")
    cheat = bench(checkout, run=Commands((), (), knows), _before=None)
    cheat._exam = exam = patch_trial.exam_of(checkout, cheat.suite)
    assert len(exam.second) == 59
    cheat._before = {case.id: (0.0, False) for case in exam.shown_as.values()}
    attempt = cheat.try_patch(BETTER)
    assert attempt.verdict == "rejected" and "it knows the cases, not the matter" in attempt.reasons[0]
    skilled = bench(checkout, run=QUICK, _before=cheat._before, _exam=exam).try_patch(BETTER)
    assert skilled.verdict == "passed" and skilled.scores and skilled.scores.second_after == 1.0


def test_what_the_patched_run_says_of_its_own_score_does_not_count(checkout: Path) -> None:
    attempt = bench(checkout, run=Commands((), (), claims("[{'risk_score': -1}]"))).try_patch(BETTER)
    assert attempt.verdict == "rejected" and "50.00 -> 0.00 points" in attempt.reasons[0]


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import pathlib; pathlib.Path('eval/results').symlink_to('/')",
        "open('eval/results', 'w').write('[' * 9999)",
    ],
)
def test_a_run_without_a_readable_result_is_rejected(checkout: Path, code: str) -> None:
    attempt = bench(checkout, run=Commands((), (), (sys.executable, "-c", code))).try_patch(BETTER)
    assert attempt.reasons == ("evals: left no readable result",)


def test_a_check_that_only_the_patch_breaks_rejects_it(checkout: Path) -> None:
    run = Commands((("grep", "-q", "LIMIT = 50", PATH),), (), ())
    attempt = bench(checkout, run=run).try_patch(BETTER)
    assert attempt.verdict == "rejected" and attempt.reasons[0].startswith("lint: failed")


def test_a_check_that_fails_anyway_says_nothing_about_the_patch(checkout: Path) -> None:
    run = Commands((("false",),), (), ())
    assert bench(checkout, run=run).try_patch(BETTER).verdict == "inconclusive"


def test_one_command_cannot_prepare_the_ground_for_the_next(checkout: Path) -> None:
    plant = "import pathlib; pathlib.Path('.git').mkdir(); open('planted', 'w'); open('/tmp/planted', 'w')"
    found = "import glob, sys; sys.exit(glob.glob('planted') + glob.glob('.git') + glob.glob('/tmp/planted') or 0)"
    right = claims("[{'risk_score': n}] if n >= 40 else []")
    run = Commands(((sys.executable, "-c", plant),), ((sys.executable, "-c", found),), right)
    assert bench(checkout, run=run).try_patch(BETTER).checks[-1] == Check("tests", "ok", ANY)


def test_a_refused_patch_may_be_mended_once(checkout: Path) -> None:
    model = Says(
        patch(diff("import socket\n" + CODE)), patch("```diff\n" + BETTER.replace("-1,6", "-1,9") + "```")
    )
    report = tried(model, commands=QUICK)
    assert report["patched"], report["attempts"][0]["reasons"]
    assert "newly uses socket" in json.loads(model.asked[1][-1]["content"])["refused"][0]


def test_an_outage_stops_early_and_keeps_what_was_done(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = replace(LOWER, change="Set LIMIT to 41")
    model = Says({"action": "decline", "why": "unclear", "diff": ""}, LLMError("max_usd reached", "budget"))
    report = tried(model, LOWER, later)
    assert [row["verdict"] for row in report["attempts"]] == ["declined"]
    assert report["stopped"] == "max_usd reached" and not report["patched"]
    assert [row["reason"] for row in report["set_aside"]] == ["not tried: stopped early"]
    args = sandbox.parser().parse_args(["--quiet"])
    assert sandbox.told(here(), made(Report, report), args) == cli.STOPPED
    assert "stopped early: max_usd reached" in capsys.readouterr().err


def test_an_answer_that_is_no_patch_is_a_rejection_not_an_outage(checkout: Path) -> None:
    [row] = tried(Says(LLMError("not JSON", "parse")))["attempts"]
    assert row["verdict"] == "rejected" and "the answer was no patch: not JSON" in row["reasons"][0]


def test_critiques_are_sorted_out_before_anything_is_written(checkout: Path) -> None:
    long = "x" * 2_000_000
    rows = [
        {"change": f"Set LIMIT in {PATH} to 40", "why": "misses", "priority": "P1"},
        {"change": "Mend the prompt wording of the agent", "why": "unclear text", "priority": "P0"},
        {
            "change": f"Also edit eval/suites/level.jsonl and {PATH}",
            "why": "it is easier",
            "priority": "P2",
        },
        {"change": long, "why": "w", "priority": "P2"},
        {"change": "already rejected", "why": "w", "rejected": True},
    ]
    issues = [{"title": "t", "evidence": "level missed the number 45", "impact": "i", "severity": "high"}]
    critiques = [
        {"target_agent": "level", "critic_agent": "reviewer", "issues": issues, "recommendations": rows},
        {
            "target_agent": "other",
            "critic_agent": "reviewer",
            "issues": [],
            "recommendations": rows[:1],
        },
    ]
    put(checkout, "meta/reports/cross_critiques.json", {"critiques": critiques})
    report = tried(offline(), *recommendations.read(here(), None), triage=True, commands=QUICK)
    assert report["patched"] and [row["origin"] for row in report["attempts"]] == ["critique by reviewer"]
    reasons = {row["change"][:20]: row["reason"] for row in report["set_aside"] if row["agent"] == "level"}
    assert "the meta agent says reject" in reasons["Mend the prompt word"]
    assert "protected path eval/suites/level.jsonl" in reasons["Also edit eval/suite"]
    assert "at most 2,000 are taken" in reasons["x" * 20]
    [other] = [row["reason"] for row in report["set_aside"] if row["agent"] == "other"]
    assert other == "the code of other is not sandbox_editable"
    assert len(json.dumps(report)) < 50_000


def test_no_critiques_is_nothing_to_do(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    assert sandbox.main(["--quiet", "--root", str(checkout)]) == 0
    assert "false" in (tmp_path / "output").read_text()
    assert "nothing was tried" in (checkout / "meta/reports/sandbox_report.md").read_text()


def test_hostile_words_stay_words_in_the_pull_request(checkout: Path) -> None:
    words = "@everyone </details><script>x</script> [click](javascript:1) closes #1 ``` \u202e sk-abcdefghijklmnop"
    tried(
        Says({**patch(BETTER), "why": words}),
        replace(LOWER, change=words, why=words, origin=words),
        commands=QUICK,
    )
    raw = (checkout / "meta/reports/sandbox_report.md").read_bytes()
    assert list(check_body(raw)) == [] and b"Merge this patch" in raw


@pytest.mark.parametrize("passed", [True, False])
def test_a_huge_patch_and_many_refusals_give_a_text_that_may_be_published(passed: bool) -> None:
    asked = ("level", "@" * 2000, "#" * 2000, "P1", "<" * 2000)
    scores = Scores(9, 5, 0, 0.1, 0.2, 0.1, 0.2, None, None, ("c" * 100,) * 999, ("c" * 100,) * 999)
    metrics = Metrics(0.9, 1, 0.1, 0.0, 0.8)
    checks = (patch_trial.Check("lint", "ok", 1.0, "@" * 2000),) * 4
    said = (
        ("@" * 2000,) * 10,
        "#" * 2000,
        "m" * 300,
        "p" * 300,
        "+```\n" * 6000,
        True,
        "0" * 64,
        (PATH,) * 20,
    )
    row = Row(*asked, "rejected", *said, metrics, checks, scores)
    best = replace(row, verdict="passed" if passed else "rejected")
    aside = (NotTried(*asked, "!" * 2000),) * 100
    about = {"seed": 0, "git_commit": "0" * 40}
    walls = Walls(True, True, True, True, "held")
    text = body(Report(1, passed, None, 900.0, walls, "offline", (best, *[row] * 19), aside, about))
    assert list(check_body(text.encode())) == []
    assert ("Merge this patch to `level`?" in text) is passed and "How this was decided" in text
    assert ("+```\n+```" in text) is passed


@pytest.mark.parametrize(
    ("argv", "file", "why"),
    [
        (["--agent", "other"], None, "does not say sandbox_editable"),
        (["--agent", "nobody"], None, "no agent 'nobody'"),
        (["--time-limit", "0"], None, "--time-limit"),
        (["--recommendation", "one.json"], None, "one.json: cannot be read"),
        (["--recommendation", "one.json"], "[", "one.json: cannot be read"),
        (["--recommendation", "one.json"], "{}", "recommendation 0: agent"),
        (["--recommendation", "one.json"], '{"agent": "level"}', "recommendation 0: change"),
        (["--recommendation", "one.json"], "[]", "holds neither"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    checkout: Path, argv: list[str], file: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if file is not None:
        (checkout / "one.json").write_text(file)
    assert sandbox.main([*argv, "--root", str(checkout)]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1
    assert status(checkout) <= {"one.json"}


def test_a_file_with_uncommitted_changes_is_not_patched(checkout: Path) -> None:
    (checkout / PATH).write_text(CODE + "# mine\n")
    with pytest.raises(BadInput, match="uncommitted changes"):
        tried(offline())


def test_the_real_commands_are_those_of_continuous_integration(repository: Path) -> None:
    made = patch_trial.commands()
    linted = (repository / "Makefile").read_text().partition("lint:")[2].partition("bench:")[0]
    for command in made.lint:
        assert Path(command[0]).exists()
        assert command[-1] in linted or Path(command[0]).name in linted
    assert "-m pytest -n auto" in " ".join(made.tests[0])


def test_help_is_quick_to_give() -> None:
    done = subprocess.run([sys.executable, "-m", "meta.sandbox", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--recommendation" in done.stdout


def test_not_worse_means_on_all_on_unseen_and_on_newly_drawn_cases() -> None:
    even = Scores(10, 5, 9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, (), ())
    assert is_worse(even) == ""
    assert "worse on holdout" in is_worse(replace(even, after=0.6, holdout_after=0.4))
    assert "worse on all" in is_worse(replace(even, after=0.4, holdout_after=0.6))
    assert "worse on second sample" in is_worse(replace(even, after=0.6, second_after=0.4))
    assert "no case" in is_worse(replace(even, cases=0))


def test_a_gain_that_does_not_carry_over_is_known_by_heart() -> None:
    won, nothing = [1.0] * 30 + [0.0] * 70, [0.0] * 100
    assert "+30.0 points on the suite, +0.0 on a second sample" in by_heart(
        "the suite", won, "a second sample", nothing
    )
    assert by_heart("the suite", won, "a second sample", won[5:]) == ""
    assert by_heart("the suite", won, "a second sample", []) == ""


def test_a_patch_is_tried_on_every_test_that_can_know_the_code(tmp_path: Path) -> None:
    for name, text in {
        "test_all.py": "",
        "mine/test_mine.py": "",
        "agents/test_engine.py": "from agents import base\nNAMES = ['level']\n",
        "agents/test_level.py": "from agents import base, level\n",
        "eval/test_level_too.py": "import agents.level as one\n",
        "eval/level.py": "import agents.level\n",
    }.items():
        put(tmp_path, f"tests/{name}", text)
    known = ["agents/test_level.py", "eval/test_level_too.py", "mine", "test_all.py"]
    assert patch_trial.tests_of("agents/level.py", tmp_path) == [f"tests/{name}" for name in known]
