"""The harness: agents on their suites, graded, written, resumable; an outage changes no score."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents.manifest import load_manifest
from eval import harness, replay
from eval.grading import suite as suites
from eval.grading.suite import load_suite
from eval.trials import evaluation
from meta.evidence.known import tune_results
from meta.patches.exam import Exam
from meta.site.facts import Facts
from telemetry import logger
from telemetry.edge import cli
from telemetry.edge.files import Repo
from tests.worlds import eval_checkout, world
from tests.worlds.loopback import Loopback, Reply, Request, chat, error


@pytest.fixture
def checkout(root: Path) -> Path:
    eval_checkout.make(root)
    return root


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with Loopback(eval_checkout.answer) as server:
        use(server, monkeypatch)
        yield server


def use(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0000000000000000")


def result(root: Path, agent: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((root / f"eval/results/{agent}.json").read_text())
    return stored


def outcomes(stored: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(row["id"], row["trial"], row["ok"], row["score"], row["output"]) for row in stored["results"]]


def rows(root: Path, kind: str) -> list[dict[str, Any]]:
    lines = (root / logger.LOG_PATH).read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def test_a_run_grades_every_case_and_writes_results_events_deliberations_and_history(
    checkout: Path, endpoint: Loopback
) -> None:
    assert harness.main(["--quiet"]) == cli.OK
    for agent in ("alpha", "beta"):
        stored = result(checkout, agent)
        assert len(stored["results"]) == stored["summary"]["counted"] == 20
        assert stored["summary"]["passed"] == 16
        assert stored["summary"]["success_rate"] == 0.8
        assert stored["summary"]["by_tag"] == {"fifth": {"counted": 4, "passed": 0, "mean_score": 0.5}}
        empty = stored["summary"]["empty_baseline"]
        assert {half: found["passed"] for half, found in empty.items()} == {"tune": 0, "holdout": 0}
        assert {half: found["total"] for half, found in empty.items()} == {
            half: found["counted"] for half, found in stored["summary"]["by_split"].items()
        }
        first = stored["results"][0]
        assert {"id", "ok", "score", "output_preview", "latency_ms", "error"} <= first.keys()
        assert (first["id"], first["ok"], first["score"]) == (f"{agent}-0000", False, 0.5)
        assert first["rubric"]["scores"]["task"] == 0.5
        assert first["rubric"]["passed_all_mandatory"] is True
        thoughts = (checkout / f"eval/results/{agent}_deliberations.jsonl").read_text().splitlines()
        one = json.loads(thoughts[3])
        assert len(thoughts) == 20
        assert one["rationale"] == "the text says risk 3" and one["rationale_truncated"] is False
        assert [len(each) for each in one["messages_sha256"][0]] == [12, 12]
    assert [row["source"] for row in rows(checkout, "run")] == ["eval"] * 40
    assert len(rows(checkout, "evaluation")) == len(rows(checkout, "llm_call")) == 40
    [line] = (checkout / "eval/history.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert told["run_type"] == "eval"
    assert told["summary"]["agents"]["beta"]["passed"] == 16
    assert not list((checkout / ".ratchet").glob("eval*")), "a complete run leaves no journal"


def test_every_row_that_an_eval_logs_fits_the_event_schema(
    checkout: Path, endpoint: Loopback, repository: Path
) -> None:
    assert harness.main(["--quiet"]) == cli.OK
    check = Draft202012Validator(json.loads((repository / "telemetry/event.schema.json").read_text()))
    for kind in ("run", "llm_call", "evaluation"):
        for row in rows(checkout, kind):
            check.validate(row)


def test_a_model_without_a_price_under_a_cap_is_refused_before_the_first_call(
    checkout: Path, endpoint: Loopback, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "house-model-1")
    assert harness.main(["--quiet", "--max-usd", "1"]) == cli.BAD_INPUT
    assert "--prompt-price-per-mtok" in capsys.readouterr().err
    assert not endpoint.requests
    priced = ["--prompt-price-per-mtok", "1", "--completion-price-per-mtok", "2"]
    assert harness.main(["--quiet", "--max-usd", "1", *priced]) == cli.OK
    assert result(checkout, "alpha")["summary"]["cost_usd"] == pytest.approx(20 * (100 * 1 + 20 * 2) / 1e6)


def test_the_metadata_says_with_what_it_was_measured(checkout: Path, endpoint: Loopback) -> None:
    subprocess.run(
        "git init -q . && git add -A && git -c user.name=t -c user.email=t@e commit -qm x",
        shell=True,
        cwd=checkout,
        check=True,
    )
    assert harness.main(["--quiet", "--agent", "alpha", "--seed", "7"]) == cli.OK
    metadata = result(checkout, "alpha")["metadata"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True
    )
    assert metadata["git_commit"] == head.stdout.strip()
    assert metadata["git_dirty"] is False
    assert metadata["scoring_version"] == "1.0"
    assert metadata["model_asked"] == "gpt-6-luna"
    assert metadata["model_answered"] == "gpt-4.1-mini-2025-04-14"
    assert metadata["temperature"] is None  # a model that reasons takes none
    assert metadata["seed"] == 7
    assert metadata["price_list_version"].startswith("genai-prices")
    assert set(metadata["suites"]) == {"eval/suites/alpha.jsonl"}
    assert set(metadata["prompts"]) == {"agents/prompts/alpha.md"}
    assert metadata["packages"]["openai"]


def test_one_changed_word_in_one_agents_prompt_moves_that_agents_score_and_no_other(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def obedient(request: Request) -> Reply:
        """Does what its prompt says, and nothing else."""
        if "Report every note" in request.json()["messages"][0]["content"]:
            return eval_checkout.answer(request)
        return chat('{"items": []}')

    with Loopback(obedient) as server:
        use(server, monkeypatch)
        assert harness.main(["--quiet"]) == cli.OK
        before = {agent: result(checkout, agent)["summary"]["success_rate"] for agent in ("alpha", "beta")}
        prompt = checkout / "agents/prompts/beta.md"
        prompt.write_text(prompt.read_text().replace("every", "no"))
        assert harness.main(["--quiet"]) == cli.OK
        after = {agent: result(checkout, agent)["summary"]["success_rate"] for agent in ("alpha", "beta")}
    assert before == {"alpha": 0.8, "beta": 0.8}
    assert after == {"alpha": 0.8, "beta": 0.0}


def test_an_outage_halfway_changes_no_score_and_is_inconclusive(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Loopback(eval_checkout.answer) as server:
        use(server, monkeypatch)
        assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    whole = {row["id"]: (row["ok"], row["score"]) for row in result(checkout, "alpha")["results"]}

    answered = 0

    def dies(request: Request) -> Reply:
        nonlocal answered
        answered += 1
        return eval_checkout.answer(request) if answered <= 10 else error(401, "the account is closed")

    with Loopback(dies) as server:
        use(server, monkeypatch)
        code = harness.main(["--quiet", "--agent", "alpha", "--concurrency", "2"])
    assert code == cli.STOPPED
    told = capsys.readouterr().err
    assert "the account is closed" in told and "--resume" in told and told.count("\n") == 1
    stored = result(checkout, "alpha")
    judged = {row["id"]: (row["ok"], row["score"]) for row in stored["results"] if row["score"] is not None}
    assert judged.items() <= whole.items()
    assert len(judged) == stored["summary"]["counted"] == 10
    assert stored["summary"]["success_rate"] == 0.8
    assert stored["summary"]["inconclusive"] is True
    assert all(row["ok"] is None and row["error"] for row in stored["results"] if row["score"] is None)


def test_a_few_errors_are_counted_beside_the_rate_and_the_run_stands(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hiccup(request: Request) -> Reply:
        if "risk 7" in json.dumps(request.json()) and "risk 17" not in json.dumps(request.json()):
            return error(401, "no")
        return eval_checkout.answer(request)

    with Loopback(hiccup) as server:
        use(server, monkeypatch)
        assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    summary = result(checkout, "alpha")["summary"]
    assert (summary["errors"], summary["counted"], summary["passed"]) == (1, 19, 15)
    assert summary["inconclusive"] is False


def test_a_budget_reached_midway_keeps_what_is_done_and_resume_finishes_it(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--agent", "alpha", "--quiet", "--concurrency", "2"]
    assert harness.main([*arguments, "--max-calls", "8"]) == cli.STOPPED
    told = capsys.readouterr().err
    assert "budget" in told and "go on with --resume" in told
    assert result(checkout, "alpha")["summary"]["counted"] == 8
    assert harness.main([*arguments, "--resume", "--max-calls", "1"]) == cli.STOPPED
    assert "the same command goes on" in capsys.readouterr().err, "a night has no such flag"
    assert harness.main([*arguments, "--resume"]) == cli.OK
    assert result(checkout, "alpha")["summary"]["counted"] == 20
    assert len(endpoint.requests) == 20
    assert result(checkout, "alpha")["metadata"]["resumed"] == 9


@pytest.mark.parametrize("change", ["prompt", "seed", "model"])
def test_resume_starts_afresh_when_the_configuration_changed(
    checkout: Path, endpoint: Loopback, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    arguments = ["--agent", "alpha", "--quiet"]
    assert harness.main([*arguments, "--max-calls", "8"]) == cli.STOPPED
    before = len(endpoint.requests)
    if change == "prompt":
        (checkout / "agents/prompts/alpha.md").write_text("# alpha\n\nReport all notes.\n")
    elif change == "model":
        monkeypatch.setenv("OPENAI_MODEL", "gpt-4.1")
    again = [*arguments, "--resume", *(["--seed", "3"] if change == "seed" else [])]
    assert harness.main(again) == cli.OK
    assert len(endpoint.requests) == before + 20


def test_killed_at_half_and_resumed_the_totals_are_those_of_an_uninterrupted_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eval_checkout.make(checkout, ("alpha", "beta"), cases=60)

    def slowly(request: Request) -> Reply:
        return eval_checkout.answer(request, delay_s=0.01)

    with Loopback(slowly) as server:
        use(server, monkeypatch)
        command = [sys.executable, "-m", "eval.harness", "--root", str(checkout), "--quiet", "--trials", "2"]
        victim = subprocess.Popen(command, env=dict(os.environ))
        while len(server.requests) < 120:
            assert victim.poll() is None
            time.sleep(0.002)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        assert harness.main(["--quiet", "--trials", "2", "--resume"]) == cli.OK
        calls = len(server.requests)
        booked = rows(checkout, "llm_call")
        resumed = {agent: result(checkout, agent) for agent in ("alpha", "beta")}
        assert harness.main(["--quiet", "--trials", "2"]) == cli.OK
        whole = {agent: result(checkout, agent) for agent in ("alpha", "beta")}
    assert calls <= 240 + 32, "at most the calls in flight, and answers being graded, are repeated"
    assert sum(each["metadata"]["resumed"] for each in resumed.values()) >= 120 - 32
    lost = [row for row in booked if row.get("error_kind") == "lost"]
    assert lost and all(row["cost_usd"] is None and row["booked_usd"] > 0 for row in lost)
    assert sum(row["attempts"] for row in booked) >= calls, "every request is in the books"
    for agent in ("alpha", "beta"):
        varying = ("p50_latency_ms", "p95_latency_ms")
        totals = [
            {k: v for k, v in run[agent]["summary"].items() if k not in varying} for run in (resumed, whole)
        ]
        assert totals[0] == totals[1]


def test_shards_merged_are_what_one_run_gives(checkout: Path, endpoint: Loopback) -> None:
    assert harness.main(["--quiet", "--trials", "2"]) == cli.OK
    whole = {name: result(checkout, name) for name in ("alpha", "beta")}
    shutil.rmtree(checkout / "eval/results")
    (checkout / "eval/history.jsonl").unlink()
    asked = len(endpoint.requests)
    for part in (1, 2, 3):
        assert harness.main(["--quiet", "--trials", "2", "--shard", f"{part}/3"]) == cli.OK
    assert len(endpoint.requests) == 2 * asked  # no case twice, none left out
    assert not list((checkout / "eval/results").glob("*.json"))  # a part is no result
    assert not (checkout / "eval/history.jsonl").exists()
    merge = ["--quiet", "--trials", "2", "--merge", "eval/results/eval_shards"]
    assert harness.main(merge) == cli.OK
    assert len(endpoint.requests) == 2 * asked
    for name, before in whole.items():
        now = result(checkout, name)
        assert outcomes(now) == outcomes(before)
        for timed in ("p50_latency_ms", "p95_latency_ms"):
            del now["summary"][timed], before["summary"][timed]
        assert now["summary"] == before["summary"]
        assert now["metadata"].keys() == before["metadata"].keys()
        assert (checkout / f"eval/results/{name}_deliberations.jsonl").exists()
    assert len((checkout / "eval/history.jsonl").read_text().splitlines()) == 1


def test_rows_of_a_large_suite_stand_in_a_file_beside_the_summary_and_readers_find_them(
    checkout: Path, endpoint: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    small = result(checkout, "alpha")
    known = tune_results(Repo(checkout), load_manifest(Repo(checkout)).agent("alpha"))
    monkeypatch.setattr(evaluation, "STREAMED", 5)
    monkeypatch.setattr(suites, "LARGE", 5)
    assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    large = result(checkout, "alpha")
    beside = checkout / "eval/results/alpha_rows.jsonl"
    assert large["results"] == beside.name
    rows_there = [json.loads(line) for line in beside.read_text().splitlines()]
    assert outcomes({"results": rows_there}) == outcomes(small)
    for timed in ("p50_latency_ms", "p95_latency_ms"):
        del large["summary"][timed], small["summary"][timed]
    assert large["summary"] == small["summary"]
    assert replay.main(["eval/results/alpha.json", "--quiet"]) == cli.OK
    found = tune_results(Repo(checkout), load_manifest(Repo(checkout)).agent("alpha"))
    assert found == known and found.failures
    site = Facts(Repo(checkout), datetime.now(UTC), load_manifest(Repo(checkout)))
    assert list(site.result("alpha")["results"]) == rows_there
    suite = load_suite(Repo(checkout), Path("eval/suites/alpha.jsonl"))
    exam = Exam(suite, (), {case.id: case for case in suite.cases})
    files = [(checkout / "eval/results/alpha.json").read_bytes(), beside.read_bytes()]
    graded = exam.graded(*files)
    assert graded == exam.graded(json.dumps(small).encode()) and any(ok for _, ok in (graded or {}).values())
    assert exam.graded(files[0]) is None, "rows that did not come are no wrong answers"
    monkeypatch.setattr(evaluation, "STREAMED", 5_000)
    assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    assert not beside.exists() and outcomes(result(checkout, "alpha")) == outcomes(small)


def test_shards_that_ran_out_of_budget_are_no_whole_run(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in (1, 2):
        limited = ["--quiet", "--max-calls", "10", "--shard", f"{part}/2"]
        assert harness.main(limited) == cli.STOPPED
    assert harness.main(["--quiet", "--merge", "eval/results/eval_shards"]) == cli.STOPPED
    assert "shards ended early, last: " in capsys.readouterr().err


def test_a_missing_shard_is_told_and_shards_of_another_run_are_refused(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness.main(["--quiet", "--shard", "1/2"]) == cli.OK
    merge = ["--quiet", "--merge", "eval/results/eval_shards"]
    assert harness.main(merge) == cli.STOPPED
    assert "shards missing: 2/2" in capsys.readouterr().err
    assert result(checkout, "alpha")["summary"]["inconclusive"]
    for other in (["--seed", "1"], ["--agent", "alpha"], ["--trials", "2"]):
        assert harness.main([*merge, *other]) == cli.BAD_INPUT
        assert "another run" in capsys.readouterr().err
    assert harness.main(["--quiet", "--shard", "2/2", "--seed", "1"]) == cli.OK
    assert harness.main(merge) == cli.BAD_INPUT
    assert "different runs (other seed)" in capsys.readouterr().err
    assert harness.main([*merge, "--shard", "1/2"]) == cli.BAD_INPUT
    assert harness.main(["--merge", "nowhere"]) == cli.BAD_INPUT
    assert "nowhere" in capsys.readouterr().err


def test_splits_part_the_suite_and_trials_repeat_it(checkout: Path, endpoint: Loopback) -> None:
    seen: dict[str, set[str]] = {}
    for split in ("tune", "holdout"):
        assert harness.main(["--quiet", "--agent", "alpha", "--split", split, "--trials", "2"]) == cli.OK
        stored = result(checkout, "alpha")
        seen[split] = {row["id"] for row in stored["results"]}
        assert stored["summary"]["planned"] == 2 * len(seen[split])
    assert not seen["tune"] & seen["holdout"]
    assert len(seen["tune"] | seen["holdout"]) == 20


def test_json_output_is_one_document(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness.main(["--json", "--agent", "beta"]) == cli.OK
    told = json.loads(capsys.readouterr().out)
    assert told["agents"]["beta"]["passed"] == 16


def test_unparsable_answers_are_the_agents_loss_with_the_raw_text_kept(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Loopback([chat("I would rather not say.")]) as server:
        use(server, monkeypatch)
        assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    summary = result(checkout, "alpha")["summary"]
    assert (summary["counted"], summary["passed"], summary["own_errors_by_kind"]) == (20, 0, {"parse": 20})
    assert summary["rubric"]["format"] == 0
    first = json.loads((checkout / "eval/results/alpha_deliberations.jsonl").read_text().splitlines()[0])
    assert first["raw_output"].startswith("I would rather not say.")
    assert first["raw_output_truncated"] is False


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--agent", "nobody"], "nobody"),
        (["--shard", "3/2"], "I/N"),
        (["--trials", "0"], ">= 1"),
        (["--prompt-price-per-mtok", "1"], "--completion-price-per-mtok"),
        (["--offline-noise", "2"], "--offline-noise"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    checkout: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert harness.main(arguments) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert named in told and told.count("\n") == 1
    assert not (checkout / "eval/results").exists()


def test_a_changed_suite_is_refused_by_name_unless_allowed(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = checkout / "eval/suites/alpha.jsonl"
    suite.write_text("".join(suite.read_text().splitlines(keepends=True)[:10]))
    assert harness.main(["--quiet"]) == cli.BAD_INPUT
    assert "suite alpha changed since it was pinned" in capsys.readouterr().err
    assert harness.main(["--quiet", "--allow-unpinned"]) == cli.OK
    assert result(checkout, "alpha")["metadata"]["suite_pinned"] is False


def test_a_kind_of_input_that_nobody_has_is_told_as_the_orchestrator_tells_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    eval_checkout.make(root)
    world.change(root, "alpha", inputs="news")
    assert harness.main(["--quiet"]) == cli.BAD_INPUT
    assert "agents.alpha.inputs: must be one of outputs, findings, not news" in capsys.readouterr().err


def halve(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"half": inputs["n"] / 2}


class Halver:
    """A class that is no agent."""

    def halve(self, inputs: dict[str, Any]) -> Any:
        return inputs["n"] / 2


def rounded(case: dict[str, Any], call: Any) -> Any:
    return {"half": int(call({"n": case["input"]["n"]}))}


@pytest.mark.parametrize(
    ("name", "adapter"), [("halve", ""), ("Halver.halve", "tests.eval.test_harness:rounded")]
)
def test_run_suite_grades_any_callable(root: Path, endpoint: Loopback, name: str, adapter: str) -> None:
    suite = root / "somewhere.jsonl"
    lines = [
        {"id": f"case-{n}", "input": {"n": n}, "expect": [{"grader": "exact", "path": "half", "value": 2}]}
        for n in (4, 6)
    ]
    suite.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = harness.run_suite("tests.eval.test_harness", name, suite, root / "out.json", adapter)
    assert [(row["id"], row["ok"], row["score"], row["error"]) for row in results] == [
        ("case-4", True, 1.0, None),
        ("case-6", False, 0.0, None),
    ]
    stored = json.loads((root / "out.json").read_text())
    assert stored["results"] == results and stored.keys() == {"results", "summary", "metadata"}
    assert len(rows(root, "run")) == 2
    assert not (root / "eval/history.jsonl").exists(), "no model was called"


def test_run_suite_runs_a_manifest_agent_with_its_prompt(checkout: Path, endpoint: Loopback) -> None:
    results = harness.run_suite("agents.prompted", "PromptedAgent.run", "eval/suites/beta.jsonl", "out.json")
    assert sum(row["ok"] for row in results) == 16
    assert {row["agent"] for row in rows(checkout, "run")} == {"beta"}
    assert "# beta" in endpoint.requests[0].json()["messages"][0]["content"]


def test_replay_grades_again_without_calling_and_finds_what_was_tampered_with(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    calls = len(endpoint.requests)
    path = checkout / "eval/results/alpha.json"
    assert replay.main(["eval/results/alpha.json"]) == cli.OK
    assert "20 trials graded again, no differences" in capsys.readouterr().out
    stored = json.loads(path.read_text())
    stored["results"][3]["output"][0]["risk_score"] = 99
    path.write_text(json.dumps(stored))
    assert replay.main(["eval/results/alpha.json", "--json"]) == cli.FOUND
    [found] = json.loads(capsys.readouterr().out)["differences"]
    assert found == {"what": "alpha-0003 trial 0", "stored": "passed (1.000)", "now": "failed (0.500)"}
    assert len(endpoint.requests) == calls


def test_replay_names_a_suite_that_changed(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness.main(["--quiet", "--agent", "alpha"]) == cli.OK
    suite = checkout / "eval/suites/alpha.jsonl"
    suite.write_text("".join(suite.read_text().splitlines(keepends=True)[1:]))
    assert replay.main(["eval/results/alpha.json"]) == cli.FOUND
    told = capsys.readouterr().out
    assert (
        "suite eval/suites/alpha.jsonl changed" in told
        and "alpha-0000 trial 0: in the suite -> no such case" in told
    )


def test_a_rerun_repeats_the_configuration_and_tells_what_moved(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = False

    def answer(request: Request) -> Reply:
        if wrong and "risk 13" in json.dumps(request.json()):
            return chat('{"items": []}')
        return eval_checkout.answer(request)

    with Loopback(answer) as server:
        use(server, monkeypatch)
        assert harness.main(["--quiet", "--agent", "beta", "--trials", "2", "--split", "tune"]) == cli.OK
        arguments = ["eval/results/beta.json", "--rerun", "--json"]
        assert replay.main(arguments) == cli.OK
        wrong = True
        ids = {row["id"] for row in result(checkout, "beta")["results"]}
        capsys.readouterr()
        code = replay.main(arguments)
    told = json.loads(capsys.readouterr().out)
    moved = [each["what"] for each in told["differences"]]
    assert moved == (["beta-0013 trial 0", "beta-0013 trial 1"] if "beta-0013" in ids else [])
    assert code == (cli.FOUND if moved else cli.OK)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"results": []}', '{"results": [{}], "summary": {}, "metadata": {}}']
)
def test_replay_refuses_what_is_no_result(root: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (root / "x.json").write_text(text)
    assert replay.main(["x.json"]) == cli.BAD_INPUT
    assert "x.json: not a results file" in capsys.readouterr().err


def test_answers_that_cannot_be_read_are_told_with_the_first_of_them(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Loopback([chat("I would rather not say.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert harness.main(["--agent", "alpha", "--max-usd", "5"]) == cli.OK
    shown = capsys.readouterr().out
    assert "Eval by gpt-6-luna" in shown
    assert "alpha: 20 of 20 answers could not be read (first: LLMError: the answer holds no JSON" in shown


def test_an_unchanged_question_at_temperature_0_is_not_asked_again_and_that_is_told(
    checkout: Path, endpoint: Loopback, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_zero = ["--agent", "alpha", "--temperature", "0"]
    assert harness.main(at_zero) == cli.OK
    first = result(checkout, "alpha")["summary"]
    assert harness.main(at_zero) == cli.OK
    assert len(endpoint.requests) == 20
    assert "20 answers were reused from the cache; --no-cache asks again" in capsys.readouterr().out
    again = result(checkout, "alpha")["summary"]
    assert again["passed"] == first["passed"] and again["cost_usd"] == 0
    reused = [row.get("reused") for row in rows(checkout, "evaluation")]
    assert reused == [None] * 20 + [True] * 20
    asking_anew = [
        [*at_zero, "--no-cache"],
        ["--agent", "alpha"],  # at another temperature no two answers need be the same
        [*at_zero, "--max-tokens", "99"],
    ]
    for count, arguments in enumerate(asking_anew, 2):
        assert harness.main(arguments) == cli.OK
        assert len(endpoint.requests) == 20 * count
    monkeypatch.setenv("OPENAI_MODEL", "gpt-4.1-nano")
    assert harness.main(at_zero) == cli.OK
    assert len(endpoint.requests) == 100, "another model is another question"
    assert harness.main([*at_zero, "--trials", "2"]) == cli.OK
    assert len(endpoint.requests) == 120, "a case that is run twice is asked twice"
