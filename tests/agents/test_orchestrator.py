"""The orchestrator: everyone runs, nobody takes the others down, every failure is a row of its kind."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agents import orchestrator
from agents.run.inputs import packed
from telemetry import logger, retention
from telemetry.edge import cli
from telemetry.edge.files import Repo, here
from telemetry.texts import text_of
from tests.conftest import REPOSITORY
from tests.worlds import toy as rivers
from tests.worlds import world
from tests.worlds.loopback import Loopback, Reply, chat, error

FIRST, LAST = world.DAYS[0], world.DAYS[-1]


def write_manifest(root: Path, agents: list[dict[str, Any]], domain: str | None = "tests.worlds.toy") -> None:
    module = {"inputs": "levels", "module": "tests.worlds.misbehaving_agents", "eval_suite": "suite.jsonl"}
    world.put(root, "suite.jsonl", "")
    world.put(root, rivers.SAMPLE, "".join(f"{json.dumps(line)}\n" for line in world.sample()))
    world.manifest(root, [module | agent for agent in agents], **({"domain": domain} if domain else {}))


def troupe(root: Path, *names: str, **fields: Any) -> None:
    write_manifest(root, [{"name": name, "callable": name, **fields} for name in names])


def rows(root: Path, kind: str = "run") -> list[dict[str, Any]]:
    return world.rows(root, kind)


def output(root: Path, agent: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / f"agents/outputs/{agent}.json").read_text())
    return document


def test_a_run_leaves_one_row_and_one_output_per_agent(root: Path) -> None:
    troupe(root, "good", "seeing")
    assert orchestrator.main([]) == cli.OK
    (row,) = [row for row in rows(root) if row["agent"] == "good"]
    document = output(root, "good")
    assert len(rows(root)) == 2
    assert document["run_id"] == row["run_id"]
    assert document["output"] == [{"signal": "rising", "daily_change": 0.05, "as_of": LAST}]
    assert document["input_hash"] == row["input_hash"] == output(root, "seeing")["input_hash"]
    given = json.loads(text_of(row["input_sha256"], Repo(root)) or "")
    assert packed(given).hash == row["input_hash"], "what a run was given can be given to it again"
    assert (row["source"], row["source_mode"], row["as_of"]) == ("runtime", "snapshot", LAST)
    assert row["reward"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("hung", "timeout", "no result after 1 s"),
        ("dozing", "timeout", "no result after 1 s"),
        ("crashing", "agent", "ZeroDivisionError: no items to average"),
        ("quitting", "agent", "SystemExit: I have had enough"),
        ("garbage", "agent", "must be a list of items, not dict"),
        ("unserialisable", "agent", "cannot be written as JSON"),
        ("immeasurable", "agent", "cannot be written as JSON"),
    ],
)
def test_whatever_an_agent_does_is_an_error_row_and_the_others_finish(
    root: Path, name: str, kind: str, said: str
) -> None:
    troupe(root, name, "good")
    limit = "1" if kind == "timeout" else "60"  # who only errs is not to be cut off by a busy machine
    assert orchestrator.main(["--timeout-s", limit, "--quiet"]) == cli.OK
    (bad,) = [row for row in rows(root) if row["agent"] == name]
    assert bad["error_kind"] == kind
    assert said in bad["error"]
    assert bad["reward"] is None
    assert output(root, name)["output"] is None, "an error is not an empty output"
    assert said in output(root, name)["error"]
    assert output(root, "good")["output"]


def test_a_hung_thread_does_not_hold_up_the_exit(root: Path) -> None:
    troupe(root, "hung", "good")
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "agents.orchestrator", "--root", str(root), "--timeout-s", "2", "--quiet"],
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == cli.OK
    assert time.monotonic() - start < 50, "the agent sleeps for 60 s"


def test_an_agent_that_spoils_its_inputs_spoils_nobody_elses(root: Path) -> None:
    troupe(root, "vandal", "seeing", "good")
    assert orchestrator.main(["--quiet"]) == cli.OK
    assert output(root, "seeing")["output"] == [{"signal": "seen", "as_of": LAST, "latest": LAST}]


def test_a_failed_source_is_an_error_row_and_no_quiet_day(root: Path) -> None:
    troupe(root, "good")
    (root / rivers.SAMPLE).write_text("{}\nnothing of the kind\n")
    assert orchestrator.main(["--quiet"]) == cli.STOPPED
    (row,) = rows(root)
    assert (row["error_kind"], row["reward"]) == ("source", None)
    assert "not a sample of rivers" in row["error"]
    assert output(root, "good")["output"] is None


def test_only_the_agents_of_a_failed_source_fail(root: Path) -> None:
    write_manifest(
        root,
        [
            {"name": "good", "callable": "good", "inputs": "notes"},
            {"name": "seeing", "callable": "seeing", "inputs": "levels"},
        ],
    )
    world.put(root, f"{rivers.LIVE}/notes.json", {"as_of": "2026-07-01T10:00:00Z", "notes": []})
    assert orchestrator.main(["--source-mode", "live", "--quiet"]) == cli.OK
    assert {row["agent"]: row["error_kind"] for row in rows(root)} == {"good": None, "seeing": "source"}
    assert "the world does not answer" in output(root, "seeing")["error"]
    assert output(root, "good")["source_mode"] == "live"


def test_a_deployment_is_live_by_its_environment_and_a_replay_never_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    troupe(root, "good")
    monkeypatch.setenv("RATCHET_SOURCE_MODE", "live")
    assert orchestrator.main(["--quiet"]) == cli.STOPPED
    assert output(root, "good")["source_mode"] == "live"
    assert orchestrator.main(["--replay", "1", "--quiet"]) == cli.OK
    monkeypatch.setenv("RATCHET_SOURCE_MODE", "dream")
    assert orchestrator.main(["--quiet"]) == cli.BAD_INPUT
    assert "dream: allowed are" in capsys.readouterr().err


def test_reviewers_see_this_runs_outputs_and_the_meta_agent_their_findings(root: Path) -> None:
    write_manifest(
        root,
        [
            {"name": "good", "callable": "good"},
            {"name": "vandal", "callable": "vandal"},
            {"name": "crashing", "callable": "crashing"},
            {"name": "reviewing", "callable": "reviewing", "inputs": "outputs"},
            {"name": "proposing", "callable": "proposing", "inputs": "findings"},
        ],
    )
    for problem in (None, None, None, "it broke"):
        logger.log_event("good", logger.new_run_id(), 10.0, error=problem)
    assert orchestrator.main(["--quiet"]) == cli.OK
    (finding,) = output(root, "reviewing")["output"]
    assert finding["target_agent"] == "good"
    assert finding["evidence"] == "1 items, error rate 0.25"
    assert output(root, "proposing")["output"] == [
        {"finding_id": "f1", "target": "good", "change": "look at good"}
    ]
    (review,) = [row for row in rows(root) if row["agent"] == "reviewing"]
    assert review["target_agent"] == "good"


def test_an_agent_that_has_become_dear_and_slow_is_noticed(root: Path) -> None:
    world.toy(root)
    for night in range(60):
        slow = night >= 40
        logger.log_event("flood_watch", logger.new_run_id(), 900.0 + 3000 * slow, 0.001 + 0.004 * slow)
    assert orchestrator.main(["--quiet"]) == cli.OK
    found = [item for item in output(root, "reviewer")["output"] if item["item"] is None]
    assert {(item["target_agent"], item["defect"]) for item in found} == {
        ("flood_watch", "cost_spike"),
        ("flood_watch", "latency_spike"),
    }
    assert '"avg_cost_usd": 0.005' in {item["evidence"] for item in found}


def test_a_reviewer_alone_reviews_the_latest_outputs(root: Path) -> None:
    write_manifest(
        root,
        [
            {"name": "good", "callable": "good"},
            {"name": "seeing", "callable": "seeing"},
            {"name": "reviewing", "callable": "reviewing", "inputs": "outputs"},
            {"name": "proposing", "callable": "proposing", "inputs": "findings"},
        ],
    )
    assert orchestrator.main(["--quiet", "--agent", "good", "--agent", "seeing"]) == cli.OK
    assert orchestrator.main(["--quiet", "--agent", "reviewing"]) == cli.OK
    document = output(root, "reviewing")
    assert [item["target_agent"] for item in document["output"]] == ["good", "seeing"]
    assert [run["target_agent"] for run in document["runs"]] == ["good", "seeing"]
    assert orchestrator.main(["--quiet", "--agent", "proposing"]) == cli.OK
    assert len(output(root, "proposing")["output"]) == 2


def test_disabled_agents_never_run_unless_in_shadow(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_manifest(
        root,
        [{"name": "good", "callable": "good", "enabled": False}, {"name": "seeing", "callable": "seeing"}],
    )
    assert orchestrator.main(["--quiet"]) == cli.OK
    assert {row["agent"] for row in rows(root)} == {"seeing"}
    capsys.readouterr()
    assert orchestrator.main(["--agent", "good"]) == cli.BAD_INPUT
    assert "agents.good.enabled: false; it is switched off" in capsys.readouterr().err
    assert orchestrator.main(["--shadow", "--quiet"]) == cli.OK
    assert [(row["agent"], row["source"]) for row in rows(root)[1:]] == [("good", "shadow")]
    assert not (root / "agents/outputs/good.json").exists(), "nobody acts on a shadow"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agent", "nobody"], "no agent 'nobody' (there are: good, dozing)"),
        (["--replay", "0"], "must be a whole number >= 1"),
        (["--replay", "3", "--source-mode", "live"], "only the sample can be replayed"),
        (["--replay", "3", "--as-of", LAST], "--as-of: only for a single run"),
        (["--as-of", "2026-10-31"], f"no day of the sample ({FIRST} to {LAST})"),
        (["--timeout-s", "-1"], "must be a number > 0"),
        (["--timeout-s", "soon"], "must be a number > 0"),
        (["--max-usd", "nan"], "must be a number > 0"),
        (["--offline-noise", "2"], "must be a number >= 0 and <= 1"),
        (["--prompt-price-per-mtok", "1"], "give both or neither"),
        (["--source-mode", "dream"], "invalid choice: 'dream'"),
        (["--agent", "good", "--shadow"], "--shadow runs disabled agents only"),
    ],
)
def test_bad_input_is_one_line_and_nothing_runs(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    troupe(root, "good", "dozing")
    assert orchestrator.main(arguments) == cli.BAD_INPUT
    complaint = capsys.readouterr().err
    assert said in complaint
    assert complaint.count("\n") == 1
    assert not rows(root)


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ("tests.worlds.toy", "agents.good.inputs: must be one of levels, notes, outputs, findings, not news"),
        (None, "agents.good.inputs: must be one of outputs, findings, not news"),
        ("agents.prompted", "domain: agents.prompted has no DOMAIN"),
    ],
)
def test_inputs_that_the_domain_does_not_have_are_told_before_anyone_runs(
    root: Path, capsys: pytest.CaptureFixture[str], domain: str | None, said: str
) -> None:
    write_manifest(root, [{"name": "good", "callable": "good", "inputs": "news"}], domain)
    assert orchestrator.main([]) == cli.BAD_INPUT
    assert said in capsys.readouterr().err
    assert not rows(root)


@pytest.mark.parametrize("asked", ["--source-mode", "RATCHET_SOURCE_MODE"])
def test_without_a_domain_there_is_no_live_source(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    write_manifest(root, [{"name": "good", "callable": "good", "inputs": "outputs"}], None)
    monkeypatch.setenv("RATCHET_SOURCE_MODE", "live" if asked == "RATCHET_SOURCE_MODE" else "")
    assert orchestrator.main(["--source-mode", "live"] if asked == "--source-mode" else []) == cli.BAD_INPUT
    assert "--source-mode live: agents/manifest.yaml names no domain" in capsys.readouterr().err
    assert not rows(root)


def test_json_is_one_document_and_progress_goes_elsewhere(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    troupe(root, "good", "crashing")
    assert orchestrator.main(["--json"]) == cli.OK
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["failed"] == 1
    assert {result["agent"]: result["items"] for result in document["results"]} == {
        "good": 1,
        "crashing": None,
    }
    assert "crashing: agent error" in said.err


def test_the_table_shows_errors_and_quiet_shows_nothing(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    troupe(root, "good", "crashing")
    orchestrator.main([])
    assert "agent: ZeroDivisionError" in capsys.readouterr().out
    orchestrator.main(["--quiet"])
    assert capsys.readouterr() == ("", "")


def test_when_nobody_comes_through_the_exit_code_says_so(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    troupe(root, "crashing")
    assert orchestrator.main(["--quiet"]) == cli.STOPPED
    assert "no agent came through; crashing: ZeroDivisionError" in capsys.readouterr().err


def test_who_only_follows_the_others_does_not_count_as_coming_through(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.toy(root)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    with Loopback([error(401, "Incorrect API key provided")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert orchestrator.main(["--quiet"]) == cli.STOPPED
    said = capsys.readouterr().err
    assert said.startswith("stopped early: no agent came through; flood_watch: LLMError: ")
    assert "set OPENAI_API_KEY" in said and said.count("\n") == 1


def test_a_reviewer_with_nothing_to_review_says_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world.toy(root)
    assert orchestrator.main(["--agent", "reviewer"]) == cli.OK
    assert "no outputs to review yet" in capsys.readouterr().out


# Agents with prompts, against an endpoint.


def test_agents_with_prompts_run_offline_on_every_kind_of_day(toy: Path) -> None:
    said = set()
    for day in (FIRST, "2026-03-11", LAST):
        assert orchestrator.main(["--as-of", day, "--quiet"]) == cli.OK
        said.add(len(output(toy, "flood_watch")["output"]))
    assert said == {0, 1}
    assert not [row for row in rows(toy) if row["error"]]
    assert {row["provider"] for row in rows(toy, "llm_call")} == {"offline"}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (chat("no JSON at all"), "parse"),
        (error(401, "wrong key"), "provider"),
        (error(400, "bad request"), "provider"),
    ],
)
def test_what_an_endpoint_does_becomes_the_kind_of_the_row(
    root: Path, monkeypatch: pytest.MonkeyPatch, reply: Reply, kind: str
) -> None:
    world.toy(root)
    with Loopback([reply]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        assert (
            orchestrator.main(["--agent", "flood_watch", "--agent", "gauge_echo", "--quiet"]) == cli.STOPPED
        )
    assert {row["error_kind"] for row in rows(root)} == {kind}


def test_a_budget_reached_mid_run_keeps_what_is_done(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.toy(root)
    with Loopback([chat('{"items": []}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert orchestrator.main(["--max-calls", "1", "--max-usd", "1", "--quiet"]) == cli.STOPPED
        assert len(server.requests) == 1
    assert "max_calls 1 reached" in capsys.readouterr().err
    kinds = [row["error_kind"] for row in rows(root)]
    assert kinds.count("budget") >= 1
    assert kinds.count(None) >= 2


def test_a_plain_function_that_asks_the_model_is_under_the_budget_of_the_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    troupe(root, "asking")
    with Loopback([chat('{"signal": "risk_off"}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert orchestrator.main(["--quiet", "--max-calls", "1"]) == cli.STOPPED
        assert len(server.requests) == 1
        assert orchestrator.main(["--quiet", "--max-calls", "2"]) == cli.OK
    assert [row["error_kind"] for row in rows(root)] == ["budget", None]
    assert rows(root)[1]["tokens_in"] == 200, "both calls count towards the run"


def test_a_usd_cap_over_an_unpriced_model_is_refused_before_the_first_call(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.toy(root)
    with Loopback([chat('{"items": []}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_MODEL", "my-own-model")
        assert orchestrator.main(["--max-usd", "1", "--quiet"]) == cli.BAD_INPUT
        assert "--prompt-price-per-mtok" in capsys.readouterr().err
        assert not server.requests
        prices = ["--prompt-price-per-mtok", "1", "--completion-price-per-mtok", "2"]
        assert orchestrator.main(["--max-usd", "1", "--quiet", "--agent", "gauge_echo", *prices]) == cli.OK
    (row,) = rows(root)
    assert row["cost_source"] == "override"
    assert row["cost_usd"] == pytest.approx((100 * 1 + 20 * 2) / 1e6)


# Replay


def test_a_replay_is_as_of_each_day_and_never_twice(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    troupe(root, "seeing", "good")
    assert orchestrator.main(["--replay", "5", "--json", "--quiet"]) == cli.OK
    first = json.loads(capsys.readouterr().out)
    assert (first["runs"], first["skipped"], first["errors"]) == (10, 0, {})
    assert {row["source"] for row in rows(root)} == {"replay"}
    assert sorted({row["as_of"] for row in rows(root)}) == world.DAYS[-5:]
    assert orchestrator.main(["--replay", "7", "--json", "--quiet"]) == cli.OK
    second = json.loads(capsys.readouterr().out)
    assert (second["runs"], second["skipped"]) == (4, 10)
    assert not (root / "agents/outputs").exists(), "a back-test is not the latest output"


def test_sealed_days_are_not_replayed_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    troupe(root, "good")
    assert orchestrator.main(["--replay", "4", "--quiet"]) == cli.OK
    assert sum(retention.seal(here(), today=dt.date(2999, 1, 1)).rows_by_day.values()) == 4
    assert orchestrator.main(["--replay", "5", "--json", "--quiet"]) == cli.OK
    again = json.loads(capsys.readouterr().out)
    assert (again["runs"], again["skipped"]) == (1, 4)


def test_a_replay_sees_nothing_of_the_future(root: Path) -> None:
    world.toy(root)
    arguments = ["--replay", "10", "--quiet"]
    assert orchestrator.main(arguments) == cli.OK
    before = {(row["agent"], row["as_of"]): (row["input_hash"], row["signals"]) for row in rows(root)}
    lines = (root / rivers.SAMPLE).read_text().splitlines()
    for index in range(len(lines) - 5, len(lines)):
        day = json.loads(lines[index])
        day["levels"] = {name: 3 * value for name, value in day["levels"].items()}
        lines[index] = json.dumps(day)
    (root / rivers.SAMPLE).write_text("\n".join(lines) + "\n")
    (root / "telemetry/events.jsonl").unlink()
    assert orchestrator.main(arguments) == cli.OK
    after = {(row["agent"], row["as_of"]): (row["input_hash"], row["signals"]) for row in rows(root)}
    changed = {day for (agent, day) in before if before[agent, day] != after[agent, day]}
    assert {agent for agent, _ in before} == {"flood_watch", "gauge_echo"}
    assert changed == set(world.DAYS[-5:])


def test_another_prompt_is_replayed_anew(toy: Path) -> None:
    arguments = ["--replay", "3", "--quiet", "--agent", "gauge_echo"]
    assert orchestrator.main(arguments) == cli.OK
    with (toy / "agents/prompts/gauge_echo.md").open("a") as prompt:
        prompt.write("\nBe brief.\n")
    assert orchestrator.main(arguments) == cli.OK
    assert len(rows(toy)) == 6
    assert len({row["prompt_hash"] for row in rows(toy)}) == 2


def test_a_day_that_failed_for_no_fault_of_the_agent_is_replayed_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.toy(root)
    arguments = ["--replay", "3", "--quiet", "--agent", "gauge_echo"]
    with Loopback([error(400, "bad request")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        orchestrator.main(arguments)
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert orchestrator.main(arguments) == cli.OK
    assert [row["error_kind"] for row in rows(root)] == ["provider"] * 3 + [None] * 3


def test_a_replay_stops_when_the_endpoint_is_down_or_the_budget_used_up(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.toy(root)
    with Loopback([error(400, "bad request")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert orchestrator.main(["--replay", "100", "--quiet", "--agent", "gauge_echo"]) == cli.STOPPED
        assert len(server.requests) < 60
    assert "runs in a row failed" in capsys.readouterr().err
    arguments = ["--replay", "100", "--quiet", "--max-calls", "20", "--agent", "gauge_echo"]
    with Loopback([chat('{"items": []}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert orchestrator.main(arguments) == cli.STOPPED
        assert "max_calls 20 reached" in capsys.readouterr().err
        assert orchestrator.main(arguments) == cli.STOPPED
    good = [row["as_of"] for row in rows(root) if row["error"] is None]
    assert len(good) == len(set(good)) == 40, "it goes on where it stopped"


def test_a_replay_with_no_sample_says_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    troupe(root, "good")
    (root / rivers.SAMPLE).unlink()
    assert orchestrator.main(["--replay", "5"]) == cli.STOPPED
    assert f"{rivers.SAMPLE}: No such file" in capsys.readouterr().err


def test_a_replay_refuses_agents_that_do_not_read_the_sample(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.toy(root)
    assert orchestrator.main(["--replay", "5", "--agent", "reviewer"]) == cli.BAD_INPUT
    assert "reviewer reads outputs, not the sample" in capsys.readouterr().err


def test_noise_and_seed_reach_the_offline_model(root: Path) -> None:
    world.toy(root)
    hashes = set()
    for seed in ("1", "2"):
        arguments = ["--quiet", "--offline-noise", "1", "--seed", seed, "--agent", "flood_watch"]
        orchestrator.main(arguments)
        hashes.add(rows(root, "llm_call")[-1]["raw_output"])
    assert len(hashes) == 2


def test_equal_inputs_have_equal_hashes() -> None:
    assert packed({"a": 1, "as_of": "2026-01-02T10:00:00Z"}).as_of == "2026-01-02"
    assert packed({"a": [1]}).hash == packed({"a": [1]}).hash
