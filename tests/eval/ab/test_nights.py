"""Comparisons that take more than one night: what was measured counts on, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval.ab import evidence, plan
from telemetry import logger
from tests.worlds import ab_world as world
from tests.worlds.models import Scripted


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    world.make(tmp_path)
    return tmp_path


class Calendar:
    """Which night it is."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.day = 1
        patch.setattr(plan, "utc_now", lambda: f"2026-11-{self.day:02}T03:00:00.000Z")


def turns(root: Path) -> list[dict[str, Any]]:
    rows = map(json.loads, (root / logger.LOG_PATH).read_text().splitlines())
    return [row for row in rows if row["kind"] == "evaluation" and "pair" in row]


def only(report: dict[str, Any]) -> dict[str, Any]:
    ((arm,),) = (test["arms"] for test in report["tests"])
    return dict(arm)


def test_an_undecided_comparison_goes_on_the_next_night(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night = Calendar(monkeypatch)
    model = world.use(monkeypatch, Scripted())
    world.challenger(root, "B", "skill: 0.75\n")
    first = only(world.run(root, "--trials", "1"))
    assert (first["verdict"], first["rounds"]) == ("continue", 1)
    calls = model.calls
    night.day = 2
    second = only(world.run(root, "--trials", "1"))
    assert second["rounds"] == 2 and model.calls - calls <= calls
    cases = second["cases_available"]
    assert sorted(row["round"] for row in turns(root)) == [1] * cases + [2] * cases
    assert [row["place"] for row in turns(root)] == list(range(1, 2 * cases + 1))


def test_the_same_night_again_costs_no_call_and_leaves_no_row_twice(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Calendar(monkeypatch)
    model = world.use(monkeypatch, Scripted())
    world.challenger(root, "B", "skill: 0.75\n")
    first, calls, rows = world.run(root, "--trials", "1"), model.calls, turns(root)
    again = world.run(root, "--trials", "1")
    assert model.calls == calls and turns(root) == rows
    assert only(first)["e_value"] == only(again)["e_value"] and only(again)["verdict"] == "continue"


def test_a_true_improvement_is_found_in_a_few_nights_and_a_repeated_row_counts_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Calendar(monkeypatch)
    world.use(monkeypatch, Scripted())
    world.challenger(root, "B", "skill: 0.83\n")
    verdicts = []
    for night.day in range(1, 8):
        report = world.run(root, "--trials", "1")
        verdicts.append(only(report)["verdict"])
        if verdicts[-1] != "continue":
            break
        log = root / logger.LOG_PATH  # a push that was repeated
        log.write_text(log.read_text() + "".join(json.dumps(row) + "\n" for row in turns(root)))
    assert verdicts[-1] == "promote" and len(verdicts) > 1 and only(report)["finished"]
    bill = only(report)["bill"]  # of all nights, not of the last
    pairs = len({row["event_id"] for row in turns(root)})
    assert bill["calls"] == 2 * (pairs + 3 * only(report)["cases_available"])
    assert bill["cost_usd"] == pytest.approx(0.001 * bill["calls"])


def test_an_archive_counts_only_from_enough_evals_of_the_same_text_and_model(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents.manifest import load_manifest
    from agents.texts.prompt_set import PromptSet
    from telemetry.edge.files import Repo

    repo = Repo(root)
    (spec,) = load_manifest(repo).agents
    prompts = PromptSet(repo)

    def graded(case: str, score: float, text: str, model: str = "now") -> None:
        with logger.source("eval"):
            fields = {"case_id": case, "score": score, "ok": True, "prompt_hash": text, "model": model}
            logger.log_event(spec.name, "r", 1.0, kind="evaluation", **fields)

    monkeypatch.chdir(root)
    for score in (0.0, 1.0, 1.0, 1.0, 1.0):
        graded("often", score, prompts.hash(spec))
        graded("other text", score, "0" * 12)
        graded("other model", score, prompts.hash(spec), "before")
    graded("once", 1.0, prompts.hash(spec))
    found = evidence.gathered(repo, ["0" * 16], {spec.name: (prompts.hash(spec), "now")}, "tonight")
    assert dict(found.means) == {(spec.name, "often"): 0.8}


def test_what_can_never_be_decided_is_asked_for_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night = Calendar(monkeypatch)
    model = world.use(monkeypatch, Scripted())
    world.make(root, cases=40)
    world.challenger(root, "B", "skill: 0.9\n")
    first = only(world.run(root))
    assert (first["verdict"], first["rounds"]) == ("inconclusive", 1)
    assert first["reason"].endswith("cases, at least 30 are needed")
    calls = model.calls
    night.day = 2
    again = only(world.run(root))
    assert model.calls == calls, "a person has seen it; more of the same decides nothing"
    assert (again["verdict"], again["reason"]) == (first["verdict"], first["reason"])


def test_answers_that_nobody_can_read_settle_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Prose(Scripted):
        async def complete(self, messages: Any, **options: Any) -> Any:
            from agents.model.call import LLMError

            self.calls += 1
            raise LLMError("the answer is not JSON", "parse")

    model = world.use(monkeypatch, Prose())
    world.challenger(root, "B", "skill: 0.9\n")
    arm = only(world.run(root))
    assert arm["verdict"] == "inconclusive" and "could not be read" in arm["reason"] and model.calls
    assert not turns(root)
    world.use(monkeypatch, Scripted())  # the endpoint is mended, the same day
    assert only(world.run(root))["verdict"] == "promote"


def test_what_could_not_be_read_is_no_evidence_for_other_nights(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Prose(Scripted):
        """Whose answers are mostly prose, and no better under the challenger where they are not."""

        async def complete(self, messages: Any, **options: Any) -> Any:
            from agents.model.call import LLMError

            self.calls += 1
            if self.calls % 5:
                raise LLMError("the answer is not JSON", "parse")
            return await super().complete(messages, **options)

    night = Calendar(monkeypatch)
    world.use(monkeypatch, Prose())
    world.challenger(root, "B", "skill: 0.9\n")
    for night.day in (1, 2, 3):
        arm = only(world.run(root))
        assert arm["verdict"] == "inconclusive" and "could not be read" in arm["reason"]
    world.use(monkeypatch, Scripted())
    night.day = 4
    assert only(world.run(root))["verdict"] == "promote"


def test_a_persons_own_change_is_compared_with_a_revision_and_nothing_is_carried_out(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import subprocess

    from eval import ab_testing
    from telemetry.edge import cli

    world.use(monkeypatch, Scripted())

    def git(*words: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch", "trunk")
    git("add", "--all")
    git("commit", "--quiet", "--message", "base")
    ask = ["--root", str(root), "--against", "trunk", "--trials", "2"]
    assert ab_testing.main(ask) == cli.OK and "nothing to compare" in capsys.readouterr().out
    (root / world.PROMPT).write_text("# solver\nskill: 0.95\n")
    before = world.tree(root)
    assert ab_testing.main([*ask, "--json"]) == cli.OK
    arm = only(json.loads(capsys.readouterr().out))
    assert (arm["variant"], arm["verdict"]) == ("tree", "promote") and world.tree(root) == before
    (root / world.PROMPT).write_text("# solver\nskill: 0.3\n")
    assert ab_testing.main(ask) == cli.FOUND
    assert "worse, beyond reasonable doubt" in capsys.readouterr().out
    assert ab_testing.main(["--root", str(root), "--against", "nowhere"]) == cli.BAD_INPUT
    assert "--against nowhere: no such revision" in capsys.readouterr().err
    assert not turns(root)


def test_the_interval_of_the_only_agent_is_about_that_of_all(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.use(monkeypatch, Scripted())
    world.challenger(root, "B", "skill: 0.9\n")
    arm = only(world.run(root))
    (agent,) = arm["agents"].values()
    assert agent["difference"] == pytest.approx(arm["effect"], abs=1e-5)
    assert agent["ci_low"] == pytest.approx(arm["ci_low"], abs=0.03)
    assert agent["ci_high"] == pytest.approx(arm["ci_high"], abs=0.03)


def test_a_worn_holdout_is_told_and_may_stop_a_promotion(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eval.ab.body import body
    from eval.ab.record import Report
    from telemetry.edge.records import made

    world.use(monkeypatch, Scripted())
    world.challenger(root, "B", "skill: 0.95\n")
    verdicts = [{"prompt": world.PROMPT, "verdict": "keep", "suites": ["eval/suites/solver.jsonl"]}] * 61
    about = {"suites": {"eval/suites/solver.jsonl": "x"}}
    row = {"ts": "2026-11-01T03:00:00.000Z", "run_type": "ab_test", "metadata": about}
    history = json.dumps(row | {"summary": {"comparisons": verdicts}}) + "\n"
    world.write(root, "eval/history.jsonl", history)
    report = world.run(root)
    assert report["promoted"] and report["tests"][0]["wear"] == 61
    assert "has given 61 verdicts since its last fresh case" in body(made(Report, report))
    manifest = root / "agents/manifest.yaml"
    manifest.write_text(manifest.read_text().replace("ab_test:", "ab_test:\n  wear: block", 1))
    world.challenger(root, "C", "skill: 1.0\n")
    stopped = {arm["variant"]: arm for arm in world.run(root)["tests"][0]["arms"]}
    assert stopped["C"]["verdict"] == "inconclusive" and "add fresh cases" in stopped["C"]["reason"]
