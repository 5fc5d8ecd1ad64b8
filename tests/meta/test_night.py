"""The night: steps in order, failures contained, nothing repeated, and a checked-out tree that stays as it was."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agents.llm_client import ModelOptions, model_from_env
from agents.manifest import load_manifest
from agents.model.budget import Budget
from agents.model.call import LLMError
from agents.model.endpoint import OpenAIModel
from agents.texts.variants import Variants
from eval.ledger.provenance import add_once, history
from meta import night
from meta.audit import recorded
from meta.nightly import diary, standing
from meta.nightly.budget import Forecast, shared_budget
from meta.nightly.diary import Diary, Display, Newcomers, runs_since
from meta.nightly.stage import TREE, InPlace, Stage
from meta.nightly.steps import DONE, FAILED, SKIPPED, STOPPED, Result, Step, run_night, run_step, steps
from meta.retirement import switch
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo, write_atomic, write_json
from telemetry.edge.lock import only_one
from telemetry.logger import utc_now
from tests.conftest import REPOSITORY
from tests.worlds import night_checkout, tickets, world
from tests.worlds import proposal_repo as repo
from tests.worlds.eventlog import day, event, line
from tests.worlds.night_checkout import PROMPT, git


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return night_checkout.make(tmp_path_factory.mktemp("pristine") / "ratchet")


@pytest.fixture
def checkout(pristine: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(pristine), "checkout")
    return tmp_path / "checkout"


def scripted(name: str, code: int = 0, *flags: str, **more: object) -> Step:
    """A step whose script only returns an exit code."""
    return Step(name, "working", (("tests.worlds.exits", str(code), name, *flags),), **more)  # type: ignore[arg-type]


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


def test_a_step_that_reads_nothing_of_later_ones_runs_beside_them_and_is_told_in_its_place(
    root: Path,
) -> None:
    night = [
        scripted("agents"),
        scripted("evals", 0, "--once", "drawn"),
        scripted("charts", 0, "--leave", "drawn", after="agents", only_data=True),
    ]
    told = run(night, root)
    assert [(name, result.status) for name, result in told.items()] == [
        ("agents", DONE),
        ("evals", DONE),
        ("charts", DONE),
    ]
    assert told["charts"].told == "charts told"


def test_a_step_whose_own_process_was_killed_is_run_again_by_the_night_itself(root: Path) -> None:
    charts = scripted("charts", 0, "--die-beside", after="agents", only_data=True)
    assert run([scripted("agents"), charts], root)["charts"].told == "charts told"


@pytest.mark.parametrize("how", ["plainly", "in words"])
def test_who_interrupts_a_step_means_the_night(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    planned = (
        scripted("first"),
        scripted("second", 0, "--interrupt", how),
        scripted("third", 0, "--leave", "x"),
    )
    monkeypatch.setattr("meta.nightly.whole.steps", lambda *_, **__: planned)
    assert night.main(["--quiet", "--root", str(checkout)]) == cli.STOPPED
    told = "stopped early: interrupted; steps that are done are kept: the same command goes on\n"
    assert capsys.readouterr().err == told
    (diary,) = (checkout / ".ratchet/night").glob("*.json")
    assert [step["name"] for step in json.loads(diary.read_text())["steps"]] == ["first"]


def test_what_is_done_is_not_repeated_and_what_failed_is(root: Path) -> None:
    about = {"head": "abc"}
    diary = Diary(root, about)
    diary.add(Result("agents", DONE, "6 agents ran"))
    diary.add(Result("evals", FAILED, "no endpoint"))
    again = run([scripted("agents", 1), scripted("evals")], root, Diary(root, about).results)
    assert (again["agents"].told, again["agents"].again) == ("6 agents ran", True)
    assert (again["evals"].told, again["evals"].again) == ("evals told", False)
    assert Diary(root, {"head": "another"}).results == {}


@pytest.mark.parametrize(("right", "wrong"), [('"steps"', '[{"name"'), ('"x"', "true")])
def test_a_torn_diary_is_said_and_forgotten(
    right: str, wrong: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diary = Diary(root, {})
    diary.add(Result("agents", DONE, "x"))
    (path,) = (root / ".ratchet/night").glob("*.json")
    path.write_text(path.read_text().replace(right, wrong))
    assert Diary(root, {}).results == {}
    assert "every step runs again" in capsys.readouterr().err


REPORT = "meta/reports/cross_critiques"


def write_report(tree: Path, text: str) -> None:
    empty: dict[str, object] = {"critiques": [], "failed": [], "nothing_to_see": [], "model": {}}
    about = {"schema_version": 1, "generated_at": "2026-11-16T00:00:00.000Z"}
    write_json(tree / f"{REPORT}.json", about | empty)
    write_atomic(tree / f"{REPORT}.md", text)


def test_a_change_becomes_one_commit_on_its_branch_and_the_tree_stays_as_it_was(checkout: Path) -> None:
    (checkout / PROMPT).write_text("edited, not committed\n")
    before = git(checkout, "status", "--porcelain")
    with Stage(checkout) as stage:
        assert stage.publish("critiques") is None
        write_report(stage.tree, "> **Nothing to decide.**\n")
        assert stage.publish("critiques") == "meta/cross-critiques"
    assert git(checkout, "status", "--porcelain") == before
    assert (checkout / PROMPT).read_text() == "edited, not committed\n"
    assert git(checkout, "rev-list", "--count", "main..meta/cross-critiques") == "1"
    message = git(checkout, "log", "-1", "--format=%B", "meta/cross-critiques")
    assert message.startswith("Meta: Cross-agent critiques\n\nNothing to decide.\n")
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


def test_the_commit_is_headed_by_what_was_found(checkout: Path) -> None:
    with Stage(checkout) as stage:
        text = "better\n"
        for name in (PROMPT, "agents/prompts/variants/watcher/champion.md"):
            write_atomic(stage.tree / name, text)
        row = json.loads(repo.decision("promote", "ab_champion", "watcher", text))
        row["verdict"] = {"effect": 0.083, "ci_low": 0.031, "ci_high": 0.134, "cases_used": 112}
        write_json(stage.tree / "meta/decisions/2026-11-16-ab_champion-watcher.json", row)
        write_atomic(stage.tree / "meta/reports/ab_test_report.json", repo.REPORT)
        write_atomic(stage.tree / "meta/reports/ab_test_report.md", "> **Merge?**\n")
        branch = stage.publish("ab_champion")
    message = git(checkout, "log", "-1", "--format=%B", str(branch))
    assert message.startswith("Promote watcher: +8.3 points (95 % CI 3.1..13.4), n=112\n\nMerge?\n")


def test_each_change_starts_from_the_same_commit_and_may_carry_what_an_earlier_one_made(
    checkout: Path,
) -> None:
    with Stage(checkout) as stage:
        write_report(stage.tree, "first\n")
        stage.publish("critiques")
        tree = stage.fresh(f"{REPORT}.json")
        assert (tree / f"{REPORT}.json").is_file() and not (tree / f"{REPORT}.md").exists()
        (tree / "stray.txt").write_text("x")
        assert not (stage.fresh() / "stray.txt").exists()
        write_atomic(stage.tree / "agents/prompts/variants/watcher/C.md", "other\n")
        write_atomic(stage.tree / "meta/reports/proposals.md", "> more\n")
        write_json(stage.tree / "meta/reports/proposals.json", {})
        assert stage.publish("proposals") == "meta/prompt-proposals"
    assert git(checkout, "rev-parse", "meta/prompt-proposals^") == git(checkout, "rev-parse", "main")
    assert REPORT not in git(checkout, "diff", "--name-only", "main", "meta/prompt-proposals")


def python(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A script in the checkout as a newcomer runs it: no key, no git identity of one's own."""
    bare = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    bare["PYTHONPATH"] = f"{checkout}{os.pathsep}{REPOSITORY}"
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=checkout, env=bare, capture_output=True, text=True
    )


def test_a_night_that_was_killed_is_told_once_and_from_its_beginning(root: Path) -> None:
    world.put(root, "eval/history.jsonl", "")
    assert Diary(root, {}).begin(1000.0, True) == 1000.0
    again = Diary(root, {})
    assert again.begin(5000.0, False) == 1000.0, "what was asked before it was killed is this night's too"
    assert again.killed and not Diary(root, {"head": "another"}).killed
    again.tell("")
    assert Diary(root, {}).begin(6000.0, False) == 6000.0
    idle = Diary(root, {})
    assert idle.begin(9000.0, True) == 9000.0 and not idle.killed, (
        "nothing was done: there is nothing to tell"
    )
    for appended in (False, True):  # killed before the line was appended, and after
        dying = Diary(root, {})
        dying.begin(9000.0, True)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(diary, "add_once", killed_after(add_once if appended else None))
            dying.tell(f'{{"night": {int(appended)}}}\n')
        assert Diary(root, {}).begin(9500.0, False) == 9500.0
    told = (root / "eval/history.jsonl").read_text()
    assert told == '{"night": 0}\n{"night": 1}\n'


def killed_after(work: Callable[[Repo, str], None] | None) -> Callable[[Repo, str], None]:
    def dies(repo: Repo, line: str) -> None:
        if work:
            work(repo, line)
        raise KeyboardInterrupt

    return dies


def test_what_a_night_will_cost_is_told_before_it_starts_and_its_steps_share_one_budget(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(checkout))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    manifest = load_manifest(Repo(checkout))
    ask = replace(ModelOptions().within(manifest), max_usd=0.01)
    names = [step.name for step in steps(())]
    with shared_budget(Repo(checkout), manifest, ask, names) as line:
        first, second = (model_from_env(ModelOptions(max_usd=1)) for _ in range(2))
        assert isinstance(first, OpenAIModel) and isinstance(second, OpenAIModel)
        asyncio.run(first.budget.reserve(0.009))
        first.budget.settle(0.009, None)
        with pytest.raises(LLMError, match=r"max_usd 0\.01 reached: 0\.009"):
            asyncio.run(second.budget.reserve(0.009))
    assert line.startswith("Tonight asks gpt-6-luna: about $0.") and "of at most $0.01: " in line
    assert "evals 0." in line and "A/B 0." in line and line.endswith("; it will stop early.")
    monkeypatch.delenv("OPENAI_API_KEY")
    with shared_budget(Repo(checkout), manifest, ask, names) as line:
        assert line == "", "the offline model costs nothing"


def test_what_a_judge_takes_is_foreseen_with_the_evals(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(checkout))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    manifest = load_manifest(Repo(checkout))
    spec = next(spec for spec in manifest.enabled() if spec.eval_suite)

    def foreseen(*expect: dict[str, Any]) -> float:
        world.suite(checkout, spec.name, [{"id": "one", "input": {"q": 1}, "expect": list(expect)}])
        ask = ModelOptions().within(manifest)
        model = model_from_env(ask)
        assert isinstance(model, OpenAIModel)
        return Forecast(Repo(checkout), manifest, ask, model).by_step(["evals"], replay=())["evals"]

    plain = foreseen({"grader": "absent", "path": "9"})
    once = foreseen({"grader": "llm_judge", "path": "", "rubric": "is polite"})
    twice = foreseen({"grader": "llm_judge", "path": "", "rubric": "is polite", "reference": "x"})
    assert twice - plain == pytest.approx(2 * (once - plain)) and once > plain


def test_a_step_that_only_waits_for_answers_shows_how_many_came_and_what_they_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(diary, "TERMINAL_EVERY_S", 0)
    shown, budget = Display(quiet=False, total=2), Budget()
    budget.on_settled = shown.answered
    agents, evals = steps(())[:2]
    for step in (agents, evals):
        shown.start(step)
        for _ in range(2):
            asyncio.run(budget.reserve(0.01))
            budget.settle(0.01, 0.01)
        if step is agents:
            assert "[1/2] agents: running the agents ... 1 answer, $0.0100 tonight\r" in terminal.getvalue()
        shown.end(Result(step.name, DONE, "ran"))
    assert "[2/2] evals: grading them on their suites ... 2 answers, $0.0400 tonight" in terminal.getvalue()
    shown.start(evals)
    shown.hear("eval 3/9")
    budget.settle(asyncio.run(budget.reserve(0.01)), 0.01)
    assert terminal.getvalue().endswith("eval 3/9"), "a step's own word says more"


def test_a_disabled_agent_runs_in_shadow_and_comes_back_as_a_branch_once_it_has_recovered(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(checkout))
    write_atomic(checkout / MANIFEST, switch(Repo(checkout), ["watcher"], enabled=False))
    git(checkout, "commit", "-qam", "retire")
    beside = [step for step in steps(["--seed", "0"], shadow=True) if step.name in SHADOW]
    told = [
        {"agent": "watcher", "source": "shadow", "as_of": day(number), "reward": 0.5} for number in range(120)
    ]

    def night() -> list[str]:
        with Stage(checkout) as stage:
            results = run_night(beside, stage, {}, lambda _: None, lambda _: None)
        assert [result.status for result in results] == [DONE, DONE], results
        return [result.told for result in results]

    assert night() == ["1 agent ran, 0 signals and findings", "No retired agent earns its keep again"]
    assert git(checkout, "branch", "--list", "meta/*") == ""
    with (checkout / "telemetry/events.jsonl").open("ab") as log:
        log.writelines(line(**row) + b"\n" for row in told)
    assert night()[1] == "Earning their keep again: watcher"
    assert git(checkout, "log", "-1", "--format=%s", "meta/agent-revival") == "Revive watcher"
    changed = git(checkout, "diff", "main", "meta/agent-revival", "--", str(MANIFEST))
    assert [text for text in changed.splitlines() if text[0] in "+-"][2:] == [
        "-    enabled: false",
        "+    enabled: true",
    ]
    git(checkout, "merge", "-q", "--no-edit", "meta/agent-revival")
    (revived,) = [one for one in recorded(Repo(checkout)) if one.decision.kind == "revival"]
    assert revived.faults == ()


SHADOW = ("shadow", "revival")


@pytest.mark.slow
def test_the_first_night_of_a_newcomer(checkout: Path) -> None:
    """The whole loop as `make night` runs it, without any history."""
    first = python(checkout, "meta.night", "--json")
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    assert {step["status"] for step in told["steps"]} == {DONE}
    text = git(checkout, "show", "meta/prompt-proposals:agents/prompts/variants/idler/B.md")
    proposed = hashlib.sha256(f"{text}\n".encode()).hexdigest()
    said = {step["name"]: step["told"] for step in told["steps"]}
    assert re.fullmatch(r"7\d\d runs of 2 agents tonight", said.pop("rollup"))
    assert said == {
        "agents": "2 agents ran, 0 signals and findings",
        "evals": "watcher 50 %, idler 25 %",
        "drift": "no drift in 2 agents, nights compared: 1",
        "A/B": "promote watcher B 851c909 (+50.0 points)",
        "critiques": "No issue in 1 critique",
        "proposals": f"1 new challenger: idler B {proposed[:7]}",
        "retirement": "1 retirement candidate: idler",
        "charts": "4 charts",
    }
    assert told["spent"]["provider"] == "offline" and told["spent"]["calls"] > 700
    history = [json.loads(line) for line in (checkout / "eval/history.jsonl").read_text().splitlines()]
    assert [row["run_type"] for row in history] == ["eval", "ab_test", "proposals", "night"]
    assert history[-1]["summary"]["spend"] == told["spent"]
    assert history[-1]["metadata"]["provider"] == "offline"
    assert git(checkout, "status", "--porcelain") == ""
    branches = git(checkout, "branch", "--list", "--format=%(refname:short)", "meta/*").split()
    assert branches == [
        "meta/agent-retirement",
        "meta/prompt-ab-champion",
        "meta/prompt-proposals",
    ]
    promoted = git(checkout, "show", f"meta/prompt-ab-champion:{PROMPT}")
    assert promoted == git(checkout, "show", "main:agents/prompts/variants/watcher/B.md")
    subject = git(checkout, "log", "-1", "--format=%s", "meta/prompt-ab-champion")
    assert subject.startswith("Promote watcher: +50.0 points (95 % CI ")

    for branch in branches:
        git(checkout, "merge", "-q", "--no-edit", branch)
    audited = python(checkout, "meta.audit")
    assert audited.returncode == 0, audited.stdout
    git(checkout, "reset", "-q", "--hard", "origin/main")

    second = python(checkout, "meta.night", "--json")
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["spent"]["calls"] == 0
    assert all(step["again"] for step in json.loads(second.stdout)["steps"])


@pytest.mark.slow
def test_the_champions_improve_on_cases_that_no_proposal_has_seen(checkout: Path) -> None:
    done = python(checkout, "meta.night", "--nights", "2", "--seed", "7", "--seeds", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    means = [point["mean"] for point in told["nights"]]
    assert means[-1] - means[0] >= 0.05
    assert means == sorted(means)
    assert told["seeds"] == [7, 8] and told["best_known"] is None
    ends = [run[-1] for run in told["means"].values()]
    assert (told["nights"][-1]["low"], told["nights"][-1]["high"]) == (min(ends), max(ends))
    assert (checkout / told["picture"]).read_bytes().startswith(b"\x89PNG")
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "branch", "--list", "meta/*") == ""


def test_a_night_that_keeps_every_champion_leaves_no_branch(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not for its report: the history has it, and the next promotion brings a report of its own."""
    monkeypatch.syspath_prepend(checkout)  # its domain
    texts = Variants(Repo(checkout), PROMPT)
    texts.restart("B")
    worse = texts.champion().text.replace("above: 0.3", "above: 0.35")
    kept = texts.add(worse, source="hand", author="a person")
    world.commit(checkout, "a challenger that is worse")
    ab_test = next(step for step in steps(["--seed", "0"]) if step.name == "A/B")
    with Stage(checkout) as stage:
        result = run_step(ab_test, stage)
    assert (result.status, result.look) == (DONE, "python -m meta.audit --log"), result.told
    assert git(checkout, "branch", "--list", "meta/*") == ""
    history = (checkout / "eval/history.jsonl").read_text()
    assert kept.sha256 in history and '"promoted":true' not in history


@pytest.mark.parametrize("broken", ["eval/suites/watcher.jsonl", "agents/prompts/watcher.md"])
def test_a_night_with_a_broken_file_is_told_to_its_end(broken: str, checkout: Path) -> None:
    file = checkout / broken
    file.write_bytes(file.read_bytes() + b"{broken \xff\n")
    git(checkout, "commit", "-qam", "Break a file")
    assert night.main(["--quiet", "--root", str(checkout)]) == cli.FOUND
    *_, told = history(Repo(checkout))
    assert (told.run_type, told.summary["steps"]["evals"]["status"]) == ("night", FAILED)
    assert "did not come through" in (checkout / "site/index.html").read_text()


def test_what_is_not_committed_is_named_and_no_part_of_the_night(root: Path) -> None:
    tickets.make(root)
    world.change(root, "tickets", inputs={"file": "data/rows.csv"})
    world.put(root, "data/rows.csv", "id\n1\n")
    world.commit(root)
    manifest = load_manifest(Repo(root))
    assert standing.uncommitted(root, manifest) == []
    for path in ("data/rows.csv", "agents/prompts/new one.md", tickets.PROMPT, "notes.txt"):
        world.put(root, path, "# Changed\n")
    changed = ["agents/prompts/new one.md", tickets.PROMPT, "data/rows.csv"]  # notes are nobody's input
    assert sorted(standing.uncommitted(root, manifest)) == changed
    assert standing.left_out(["a", "b"]) == "not part of tonight: a, b (commit, or --apply)"
    assert standing.left_out(list("abcdefg")).startswith("not part of tonight: a, b, c, d, e and 2 more (")


def test_in_place_a_changed_suite_prompt_or_manifest_undoes_what_was_done(checkout: Path) -> None:
    diary = Diary(checkout, {}, standing.digest)
    diary.add(Result("evals", DONE, "60 %"))
    assert Diary(checkout, {}, standing.digest).results.keys() == {"evals"}
    world.put(checkout, PROMPT, "# Changed\n")
    assert Diary(checkout, {}, standing.digest).results == {}


def test_the_runs_of_a_night_are_those_since_it_began_and_of_its_agents(root: Path) -> None:
    tickets.make(root)
    rows = [
        event(agent="tickets", ts="2026-10-01T12:00:00.000Z"),
        event(agent="tickets", ts="2026-10-02T01:00:00.000Z"),
        event(agent="somebody_else", ts="2026-10-02T01:00:02.000Z"),
    ]
    world.put(root, "telemetry/events.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    began = datetime(2026, 10, 2, tzinfo=UTC).timestamp()
    assert runs_since(Repo(root), load_manifest(Repo(root)), began) == "1 run of 1 agent tonight"


def test_a_second_night_in_the_checkout_says_who_has_it(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with only_one(Repo(checkout), "night", "night"):
        assert night.main(["--quiet", "--root", str(checkout)]) == cli.STOPPED
    said = capsys.readouterr().err
    assert f"another night is at work in this checkout (process {os.getpid()}, since 20" in said


def test_a_replay_that_was_killed_is_known_to_be_unfinished(toy: Path) -> None:
    manifest = load_manifest(Repo(toy))
    new = Newcomers.of(Repo(toy), manifest).names
    assert "flood_watch" in new
    rows = [json.dumps(event(agent=name, source="replay", ts=utc_now())) for name in new]
    # One row of each was written, then it was killed.
    (toy / "telemetry/events.jsonl").write_text("".join(f"{row}\n" for row in rows))
    again = Newcomers.of(Repo(toy), manifest)
    assert again.names == new
    again.ended(Result("agents", "done", ""))
    assert not Newcomers.of(Repo(toy), manifest).names
