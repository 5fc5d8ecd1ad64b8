"""An A/B night: what is better is promoted, and only that; nothing else changes the tree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval import ab_testing
from eval.ab.body import FORM
from eval.grading.suite import split
from eval.ledger.decisions import decisions
from telemetry import logger
from telemetry.edge import cli
from telemetry.edge.files import here
from tests.worlds import ab_world as world
from tests.worlds import world as rivers

REPORTS = {"meta/reports/ab_test_report.json", "meta/reports/ab_test_report.md"}


@pytest.fixture
def model(root: Path, monkeypatch: pytest.MonkeyPatch) -> world.Scripted:
    world.make(root)
    scripted: world.Scripted = world.use(monkeypatch, world.Scripted())
    return scripted


@pytest.fixture
def outputs(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_OUTPUT", str(root / "eval/ab_output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(root / "eval/ab_outsummary"))
    (root / "eval").mkdir(exist_ok=True)
    return root / "eval/ab_output"


def test_a_better_challenger_becomes_champion_and_live_prompt(
    root: Path, model: world.Scripted, outputs: Path
) -> None:
    world.challenger(root, "B", "# solver\nskill: 0.95\n")
    before = world.tree(root)
    report = world.run(root)
    assert report["promoted"] == [world.PROMPT]
    (test,) = report["tests"]
    (arm,) = test["arms"]
    assert (test["winner"], test["challenger"], arm["verdict"]) == ("B", "B", "promote")
    assert (
        arm["ci_low"] > 0
        and arm["e_value"] >= arm["e_needed"]
        and arm["cases_used"] == arm["cases_available"]
    )
    assert test["delta_B_minus_A"] == pytest.approx(arm["effect"], abs=2e-6)
    detail = test["detail_B"]["solver"]
    assert detail["passed"] / detail["total"] == pytest.approx(detail["success_rate"], abs=1e-6)

    after = world.tree(root)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    (path, decision) = next(iter(decisions(here())))
    champion = "agents/prompts/variants/solver/champion.md"
    assert changed == {world.PROMPT, champion, str(path), *REPORTS}
    assert after[world.PROMPT] == after[champion] == b"# solver\nskill: 0.95\n"
    assert (decision.before_sha256, decision.after_sha256) == (test["champion_sha256"], arm["sha256"])
    assert FORM.read(here()) is not None
    text = outputs.read_text()
    assert "\ntrue\n" in text and f'["{world.PROMPT}"]' in text
    assert f"Promote `solver` B {arm['sha256'][:7]}?" in (root / "eval/ab_outsummary").read_text()
    rows = [json.loads(line) for line in (root / logger.LOG_PATH).read_text().splitlines()]
    assert {row["source"] for row in rows} == {"ab_test"}


@pytest.mark.parametrize("skill", [0.7, 0.6])
def test_what_is_not_better_changes_nothing_but_the_report(
    root: Path, model: world.Scripted, outputs: Path, skill: float
) -> None:
    world.challenger(root, "B", f"# another wording\nskill: {skill}\n")
    before = world.tree(root)
    report = world.run(root)
    assert report["promoted"] == [] and report["tests"][0]["winner"] == "A"
    after = world.tree(root)
    assert {path for path in after if before.get(path) != after[path]} == REPORTS
    assert "\nfalse\n" in outputs.read_text()


def test_identical_texts_are_not_tested(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", (root / world.PROMPT).read_text())
    before = world.tree(root)
    world.run(root)
    assert model.calls == 0 and world.tree(root) == before


def test_arms_run_side_by_side_and_share_the_control(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", "skill: 0.71\n")
    world.challenger(root, "C", "skill: 0.72\n")
    report = world.run(root, "--concurrency", "1")
    rows = [json.loads(line) for line in (root / logger.LOG_PATH).read_text().splitlines()]
    runs = [row for row in rows if row["kind"] == "evaluation" and "arm" in row]
    identities = [(row["arm"], row["case_id"], row["trial_no"]) for row in runs]
    assert len(identities) == len(set(identities))  # the champion once per case and trial, for both
    for three in (runs[:3], runs[3:6]):
        assert len({row["case_id"] for row in three}) == 1
        assert {row["arm"] for row in three} == {"champion", "solver/B", "solver/C"}
    assert [arm["alpha"] for arm in report["tests"][0]["arms"]] == [0.05, 0.05]


def test_the_best_of_several_is_promoted_and_the_rest_wait(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", "skill: 0.9\n")
    world.challenger(root, "C", "skill: 1.0\n")
    report = world.run(root, "--trials", "5")
    arms = {arm["variant"]: arm for arm in report["tests"][0]["arms"]}
    assert arms["B"]["verdict"] == arms["C"]["verdict"] == "promote"
    assert [name for name, arm in arms.items() if arm["promoted"]] == ["C"]
    assert "better still" in arms["B"]["reason"]
    assert (root / world.PROMPT).read_text() == "skill: 1.0\n"


def test_every_agent_counts_equally(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared prompt that helps one agent and ruins another is no improvement, however large the first suite is."""
    world.make(root, {"solver": 0.7, "helper": 0.7})
    script_cases = (root / "eval/suites/helper.jsonl").read_text().splitlines()[:80]
    world.write(root, "eval/suites/helper.jsonl", "\n".join(script_cases) + "\n")
    from eval.grading import suite as suites

    suites.pin(here(), [Path("eval/suites/helper.jsonl")])

    class Mixed(world.Scripted):
        async def complete(self, messages: Any, **options: Any) -> Any:
            if "special" in messages[0]["content"]:
                skill = "0.99" if "# solver" in messages[0]["content"] else "0.3"
                messages = [{**messages[0], "content": f"skill: {skill}"}, messages[1]]
            return await super().complete(messages, **options)

    world.use(monkeypatch, Mixed())
    world.challenger(root, "B", "special\n", world.SHARED)
    report = world.run(root)
    (test,) = report["tests"]
    (arm,) = test["arms"]
    assert set(test["agents"]) == {"solver", "helper"} == set(arm["agents"])
    assert arm["verdict"] == "keep" and arm["effect"] < 0.05
    assert (root / world.SHARED).read_text() == "Be brief.\n"


def test_a_decided_pair_is_skipped_with_its_reference_unless_forced(
    root: Path, model: world.Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    world.challenger(root, "B", "skill: 0.6\n")
    world.run(root)
    calls = model.calls
    assert ab_testing.main(["--root", str(root)]) == cli.OK
    told = capsys.readouterr().out
    assert "already decided: it lost" in told and "ab_test_report.json" in told
    assert model.calls == calls
    (root / "meta/reports/ab_test_report.json").unlink()  # as on a fresh clone with the data branch
    assert ab_testing.main(["--root", str(root)]) == cli.OK
    assert "eval/history.jsonl" in capsys.readouterr().out and model.calls == calls
    world.run(root, "--force")
    assert model.calls == 2 * calls


def test_a_promotion_is_not_tested_backwards(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "A", (root / world.PROMPT).read_text())
    world.challenger(root, "B", "skill: 0.95\n")
    assert world.run(root)["promoted"]
    calls = model.calls
    report = (root / "meta/reports/ab_test_report.json").read_bytes()
    world.run(root)
    assert model.calls == calls
    assert (root / "meta/reports/ab_test_report.json").read_bytes() == report


def test_an_unmerged_promotion_costs_no_call_when_it_is_repeated(root: Path, model: world.Scripted) -> None:
    """The pull request was not merged: the tree is as it was, the journal still knows every trial."""
    world.challenger(root, "B", "skill: 0.95\n")
    fresh = world.tree(root)
    first = world.run(root)
    calls = model.calls
    for path in world.tree(root):
        (root / path).unlink()
    for path, data in fresh.items():
        (root / path).write_bytes(data)
    again = world.run(root)
    assert model.calls == calls
    assert world.verdicts(again) == world.verdicts(first) and again["promoted"] == first["promoted"]


@pytest.mark.parametrize("change", ["prompt", "suite", "seed", "champion", "trials"])
def test_another_configuration_starts_afresh(root: Path, model: world.Scripted, change: str) -> None:
    world.challenger(root, "B", "skill: 0.7\nB\n")
    world.run(root, "--max-calls", "60", code=cli.STOPPED)
    flags = ["--max-calls", "60"]
    if change == "prompt":
        world.challenger(root, "B", "skill: 0.7\nB2\n")
    elif change == "champion":
        world.write(root, world.PROMPT, "skill: 0.7\nnew\n")
        world.write(root, "agents/prompts/variants/solver/champion.md", "skill: 0.7\nnew\n")
    elif change == "suite":
        from eval.grading import suite as suites

        file = root / "eval/suites/solver.jsonl"
        file.write_text(file.read_text().replace('"q":1}', '"q":10001}'))
        suites.pin(here(), [Path("eval/suites/solver.jsonl")])
    else:
        flags += [f"--{change}", "2"]
    report = world.run(root, *flags, code=cli.STOPPED)
    assert report["spend"]["trials_resumed"] == 0


def test_measuring_on_tune_cases_never_promotes(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", "skill: 1.0\n")
    report = world.run(root, "--split", "tune")
    (arm,) = report["tests"][0]["arms"]
    assert arm["effect"] > 0.2 and arm["verdict"] == "inconclusive" and "only holdout" in arm["reason"]
    assert report["promoted"] == []


def test_a_challenger_that_costs_more_is_blocked_told_by_how_much_and_may_be_allowed(
    root: Path, model: world.Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    world.challenger(root, "B", "skill: 1.0\ncost: 1.5\n")
    report = world.run(root)
    (arm,) = report["tests"][0]["arms"]
    assert arm["verdict"] == "blocked" and arm["reason"] == "better, but cost per case +50.0%, limit +20%"
    assert not report["promoted"] and "skill: 0.7" in (root / world.PROMPT).read_text()
    calls = model.calls
    capsys.readouterr()
    assert ab_testing.main(["--root", str(root)]) == cli.OK  # not settled, and not paid for again either
    assert "not run, better, but cost" in capsys.readouterr().out and model.calls == calls
    assert world.run(root, "--allow", "cost")["promoted"] == [world.PROMPT]


def test_too_few_cases_are_inconclusive(root: Path, model: world.Scripted) -> None:
    world.make(root, cases=40)
    world.challenger(root, "B", "skill: 1.0\n")
    (arm,) = world.run(root)["tests"][0]["arms"]
    assert arm["verdict"] == "inconclusive" and "at least 30" in arm["reason"]


def test_a_dry_run_calls_and_writes_nothing(
    root: Path, model: world.Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    world.challenger(root, "B", "skill: 1.0\n")
    before = sorted(root.rglob("*"))
    assert ab_testing.main(["--root", str(root), "--dry-run", "--json"]) == cli.OK
    plan = json.loads(capsys.readouterr().out)
    assert plan["tests"][0]["challengers"] == ["B"] and plan["max_trials"] > 300
    assert ab_testing.main(["--root", str(root), "--dry-run"]) == cli.OK
    told = capsys.readouterr().out
    assert "champion against B" in told and "at a cost that no eval has measured" in told
    assert model.calls == 0 and sorted(root.rglob("*")) == before
    rivers.put(root, "eval/results/solver.json", {"summary": {"cost_usd": 1.0, "counted": 100}})
    assert ab_testing.main(["--root", str(root), "--dry-run", "--max-usd", "9"]) == cli.OK
    cases = plan["max_trials"] // 6  # two arms, three rounds
    assert f"about ${cases * 6 * 0.01:.2f} (cap $9.00)" in capsys.readouterr().out


def timeless(report: Any) -> Any:
    """A report without what the clock says: when, and how long."""
    if isinstance(report, dict):
        timed = ("generated_at", "p95_latency_ms")
        kept = {name: timeless(value) for name, value in report.items() if name not in timed}
        return {**kept, "measured": "", "value": 0} if kept.get("name") == "p95 latency" else kept
    return [timeless(one) for one in report] if isinstance(report, list) else report


def test_a_run_over_three_machines_gives_the_report_of_one_fresh_pass_included(
    root: Path, model: world.Scripted, tmp_path: Path
) -> None:
    world.challenger(root, "B", "skill: 0.95\n")
    world.challenger(root, "C", "skill: 0.7\nC\n")
    whole = tmp_path / "whole"
    shutil.copytree(root, whole, ignore=shutil.ignore_patterns("whole"))
    expected = world.run(whole)
    assert expected["promoted"] and expected["tests"][0]["arms"][0]["finished"]
    before = world.tree(root)
    for part in (1, 2, 3):
        world.run(root, "--shard", f"{part}/3")
        assert world.tree(root) == before
    calls = model.calls
    merged = world.run(root, "--merge", str(root / "eval/results/ab_shards"))
    cases = expected["tests"][0]["arms"][0]["cases_available"]
    assert model.calls - calls == 2 * 3 * cases  # the fresh pass and nothing else
    assert json.dumps(timeless(merged)) == json.dumps(timeless(expected))
    assert (root / world.PROMPT).read_text() == "skill: 0.95\n"


def test_shards_that_ran_out_of_money_make_no_complete_night(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", "skill: 0.72\n")
    for part in (1, 2):
        world.run(root, "--shard", f"{part}/2", "--max-calls", "150", code=cli.STOPPED)
    report = world.run(root, "--merge", str(root / "eval/results"), code=cli.STOPPED)
    assert report["status"] == "stopped" and "shards ended early, last: " in report["stop_reason"]
    assert "max_calls" in report["stop_reason"] and not report["promoted"]


def test_a_plan_beyond_one_machine_is_announced_in_parts(
    root: Path, model: world.Scripted, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.challenger(root, "B", "skill: 0.95\n")
    ab_testing.main(["--root", str(root), "--dry-run", "--quiet"])
    assert not outputs.exists()
    monkeypatch.setattr(ab_testing, "SHARD_TRIALS", world.CASES + 1)  # of three times as many
    ab_testing.main(["--root", str(root), "--dry-run", "--quiet"])
    assert "\n3\n" in outputs.read_text() and "\n[1, 2, 3]\n" in outputs.read_text()


def test_a_shard_spends_its_part_of_what_the_run_may(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", "skill: 0.95\n")
    world.run(root, "--shard", "1/2", "--max-calls", "100", code=cli.STOPPED)
    assert model.calls == 50


def test_a_missing_shard_is_inconclusive(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", "skill: 0.95\n")
    world.run(root, "--shard", "1/2")
    report = world.run(root, "--merge", str(root / "eval/results"), code=cli.STOPPED)
    assert report["stop_reason"] == "shards missing: 2/2" and not report["promoted"]


def test_shards_of_another_night_are_refused(
    root: Path, model: world.Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    world.challenger(root, "B", "skill: 0.95\n")
    world.run(root, "--shard", "1/2")
    world.challenger(root, "C", "skill: 0.9\n")
    assert ab_testing.main(["--root", str(root), "--merge", str(root / "eval/results")]) == cli.BAD_INPUT
    assert "another run" in capsys.readouterr().err


def test_the_function_of_the_same_name_runs_a_night(root: Path, model: world.Scripted) -> None:
    world.challenger(root, "B", "skill: 1.0\n")
    report = ab_testing.ab_test_prompts([world.PROMPT], min_trials=1, promote_if_delta=0.02)
    assert report["settings"]["trials"] == 1 and report["settings"]["min_effect"] == 0.02
    assert report["promoted"] == [world.PROMPT]


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_a_a_nights_with_noise_promote_nothing(toy: Path, seed: str) -> None:
    """The offline model with noise, and a challenger that only reads differently."""
    rivers.challenger(toy, rivers.PROMPT, rivers.TEXT + "\nTake your time.\n")
    report = world.run(toy, "--offline-noise", "0.2", "--seed", seed)
    (arm,) = report["tests"][0]["arms"]
    assert arm["wins"] and arm["losses"]  # the noise really made a difference
    assert arm["verdict"] in ("keep", "continue")


@pytest.mark.slow
def test_of_two_challengers_the_better_is_promoted_and_the_overfitted_kept_out(toy: Path) -> None:
    def case(number: int) -> dict[str, Any]:
        row = rivers.gauge_case("flood_watch", number % 20)  # from 20 % on only in the holdout
        if split(f"flood_watch-{number:04}") == "holdout" and number % 2:
            row = rivers.gauge_case("flood_watch", 30 + number % 10)
        return row | {"id": f"flood_watch-{number:04}"}

    rivers.suite(toy, "flood_watch", map(case, range(rivers.CASES)))
    rivers.challenger(toy, rivers.PROMPT, rivers.BETTER)
    overfitted = rivers.BETTER.replace("up_signal", "below: 0.2\nup_signal")
    rivers.challenger(toy, rivers.PROMPT, overfitted, "C")
    tune = world.run(toy, "--split", "tune", "--offline-noise", "0.05", "--trials", "1")
    (toy / "meta/reports/ab_test_report.json").unlink()
    night = world.run(toy, "--offline-noise", "0.05")
    assert night["promoted"] == [rivers.PROMPT]
    on_tune, on_holdout = (
        {arm["variant"]: arm for arm in report["tests"][0]["arms"]} for report in (tune, night)
    )
    assert on_holdout["B"]["verdict"] == "promote" and on_holdout["C"]["verdict"] == "keep"
    assert on_tune["C"]["effect"] > 0 > on_holdout["C"]["effect"]


def test_the_order_of_cases_is_random_and_fixed_by_the_seed(root: Path, model: world.Scripted) -> None:
    from agents.manifest import load_manifest
    from eval.ab.plan import Settings, make_plan

    world.challenger(root, "B", "skill: 1.0\n")
    orders = [
        [
            unit.case.id
            for unit in make_plan(here(), load_manifest(here()), [], Settings(seed=seed), {}).round(n)
        ]
        for seed, n in ((1, 0), (1, 0), (2, 0), (1, 1))
    ]
    assert orders[0] == orders[1] != orders[2] and orders[0] != orders[3]
    assert sorted(orders[0]) == sorted(orders[2]) and orders[0] != sorted(orders[0])


def test_a_former_champion_is_not_tested_again_by_those_that_follow(
    root: Path, model: world.Scripted
) -> None:
    world.challenger(root, "A", "# solver\nskill: 0.7\n")
    world.challenger(root, "B", "# solver\nskill: 0.85\n")
    assert world.run(root)["promoted"] == [world.PROMPT]
    world.challenger(root, "B", "# solver\nskill: 0.99\n")
    assert world.run(root, "--seed", "1")["promoted"] == [world.PROMPT]
    world.challenger(root, "B", "# solver\nskill: 0.98\n")
    (test,) = world.run(root, "--seed", "2")["tests"]
    assert [arm["variant"] for arm in test["arms"]] == ["B"]
    assert [(skip["variant"], skip["reason"]) for skip in test["skipped"]] == [("A", "a former champion")]
