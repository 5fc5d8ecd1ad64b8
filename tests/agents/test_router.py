"""`python -m agents.router`: a task in, one choice and one run out; a policy in, its value or a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from agents import orchestrator, router
from telemetry.edge import cli
from tests.conftest import REPOSITORY
from tests.worlds import eventlog, routed, world
from tests.worlds.loopback import Loopback, chat

CHECK = Draft202012Validator(json.loads((REPOSITORY / "telemetry/event.schema.json").read_text()))
FIELDS = {
    "requirements", "selected_agent_id", "routing_strategy", "confidence", "candidate_agents", "primary_reason",
    "secondary_factors", "propensity", "policy_version",
}  # fmt: skip


@pytest.fixture
def rivers(toy: Path) -> Path:
    """The toy world, its two watchers with capabilities."""
    world.change(toy, "flood_watch", capabilities=["levels", "alarms"])
    world.change(toy, "gauge_echo", capabilities=["levels"])
    return toy


def tasks(root: Path, *entries: dict[str, Any]) -> str:
    return str(world.put(root, "task.json", list(entries) if len(entries) > 1 else entries[0]))


FLOOD = {"task_id": "t1", "task_type": "flood", "requirements": {"capabilities": ["alarms"]}}


def test_a_task_is_given_to_who_can_do_it_and_leaves_one_choice_and_one_run(rivers: Path) -> None:
    task = FLOOD | {"complexity": "standard", "tenant_id": "acme", "input": world.gauges(0.5)}
    assert router.main(["run", tasks(rivers, task), "--quiet"]) == cli.OK
    [choice], [run] = world.rows(kind="routing"), world.rows(kind="run")
    for row in (choice, run):
        CHECK.validate(row)
        about = {name: row[name] for name in ("task_id", "task_type", "complexity", "tenant_id")}
        assert about == {name: task[name] for name in about}
    assert choice["selected_agent_id"] == run["agent"] == "flood_watch"
    assert (choice["run_id"], choice["propensity"]) == (run["run_id"], 1.0)
    assert run["signals"] == "Elm:rising"
    assert choice.keys() >= FIELDS
    beside = choice.keys() - FIELDS - run.keys() - {"task_id"}
    assert not beside, "the fields of a choice are exactly those named"


def test_a_choice_is_on_record_before_its_run(rivers: Path) -> None:
    assert router.main(["run", tasks(rivers, FLOOD), "--quiet"]) == cli.OK
    assert world.rows()[0]["kind"] == "routing"


def test_many_tasks_are_routed_each(rivers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [FLOOD | {"task_id": f"t{at}", "requirements": {"capabilities": ["levels"]}} for at in range(12)]
    assert router.main(["run", tasks(rivers, *many), "--json"]) == cli.OK
    told = json.loads(capsys.readouterr().out)["tasks"]
    assert [one["task_id"] for one in told] == [one["task_id"] for one in many]
    assert len(world.rows(kind="routing")) == len(world.rows(kind="run")) == 12
    assert {one["probability"] for one in told[0]["decision"]["candidate_agents"]} == {0.5}


def test_fallback_goes_on_to_the_next_agent_and_logs_both_choices(rivers: Path) -> None:
    world.change(rivers, "gauge_echo", capabilities=["levels", "maps"])
    broken = FLOOD | {"requirements": {"capabilities": ["levels"]}, "input": {"gauges": 7}}
    assert router.main(["run", tasks(rivers, broken), "--strategy", "fallback"]) == cli.STOPPED
    chosen = [row["selected_agent_id"] for row in world.rows(kind="routing")]
    assert sorted(chosen) == ["flood_watch", "gauge_echo"]


def test_a_dry_run_shows_the_choice_and_writes_nothing(
    rivers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert router.main(["run", tasks(rivers, FLOOD), "--dry-run"]) == cli.OK
    assert "t1: flood_watch" in capsys.readouterr().out
    assert not world.rows()


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"task_type": "flood"}, "task.json: task: must be a mapping with task_id"),
        (FLOOD | {"complexity": "hard"}, "complexity: must be trivial, standard or complex"),
        (FLOOD | {"requirements": {"capabilities": ["cooking"]}}, "no agent is left that can do cooking"),
        (FLOOD | {"surprise": 1}, "task.json: task: must be a mapping"),
    ],
)
def test_a_bad_task_is_one_line_and_nothing_is_run(
    task: dict[str, Any], said: str, rivers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert router.main(["run", tasks(rivers, task)]) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not world.rows()


def test_an_agent_with_several_models_asks_the_one_that_was_drawn(
    rivers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [{"name": "cheap", "prices": {"prompt_per_mtok": 0.1, "completion_per_mtok": 0.2}}]
    settings += [{"name": "strong", "prices": {"prompt_per_mtok": 1, "completion_per_mtok": 2}}]
    world.change(rivers, "gauge_echo", models=settings)
    world.change(rivers, budget={"max_usd": 1.0}, model=settings[0])
    with Loopback([chat('{"items": []}')]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        for _ in range(6):
            assert orchestrator.main(["--agent", "gauge_echo", "--quiet"]) == cli.OK
    choices, calls = world.rows(kind="routing"), world.rows(kind="llm_call")
    assert [one["selected_agent_id"] for one in choices] == [
        f"gauge_echo@{one['model_asked']}" for one in calls
    ]
    assert [one["run_id"] for one in choices] == [one["run_id"] for one in calls]
    assert all(one["agent"] == "gauge_echo" for one in choices)


def test_evals_ask_the_first_of_several_models(rivers: Path) -> None:
    from agents.manifest import load_manifest
    from telemetry.edge.files import Repo

    world.change(rivers, "gauge_echo", models=["cheap", "strong"])
    assert load_manifest(Repo(rivers)).agent("gauge_echo").model == "cheap"
    world.change(rivers, "gauge_echo", model="own")
    assert load_manifest(Repo(rivers)).agent("gauge_echo").model == "own"


@pytest.mark.parametrize("models", [["cheap"], [{"temperature": 1}, "strong"], ["a", "a"]])
def test_models_are_at_least_two_with_names(
    models: list[Any], rivers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.change(rivers, "gauge_echo", models=models)
    assert router.main(["run", tasks(rivers, FLOOD)]) == cli.BAD_INPUT
    assert "agents.gauge_echo.models" in capsys.readouterr().err


POLICY = {"policy_version": "mine", "otherwise": {"agent_0": 1.0}}


def logged(count: int, seed: int = 1) -> None:
    done = routed.played(routed.some_world(seed, types=2, agents=3), count, seed)
    eventlog.write(*map(orjson.dumps, routed.as_rows(done)))


def test_a_policy_gets_a_value_from_the_log(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged(900)
    file = str(world.put(root, "policy.json", POLICY | {"otherwise": {f"agent_{at}": 1 for at in range(3)}}))
    assert router.main(["evaluate", "--policy", file, "--json"]) == cli.OK
    told = json.loads(capsys.readouterr().out)["value"]
    assert told["doubly_robust"]["low"] < told["snips"] < told["doubly_robust"]["high"]
    assert told["decisions"] == 900


def test_too_short_a_log_gives_no_number_and_exit_1(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged(50)
    file = str(world.put(root, "policy.json", POLICY))
    assert router.main(["evaluate", "--policy", file, "--json"]) == cli.FOUND
    told = json.loads(capsys.readouterr().out)
    assert told["value"] is None
    assert "effective sample" in told["why"]
    assert router.main(["fit", "--json"]) == cli.FOUND
    assert not (root / router.POLICY).exists()


def test_a_fitted_policy_is_written_shown_on_the_other_half_and_can_be_played(
    rivers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(1200)
    assert router.main(["fit"]) == cli.OK
    assert "over 600 choices" in capsys.readouterr().out
    file = str(rivers / router.POLICY)
    assert router.main(["evaluate", "--policy", file]) == cli.OK
    assert router.main(["run", tasks(rivers, FLOOD), "--policy", file, "--quiet"]) == cli.OK
    assert world.rows(kind="routing")[-1]["policy_version"].startswith("fit-")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"policy_version": "x"}, "policy"),
        (POLICY | {"otherwise": {"a": 0}}, "otherwise.a: must be a share > 0"),
        ("no json", "policy.json: not JSON"),
        ("[" * 100_000, "policy.json: not JSON: depth limit exceeded"),
    ],
)
def test_a_bad_policy_is_one_line(
    policy: Any, said: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(world.put(root, "policy.json", policy))
    assert router.main(["evaluate", "--policy", file]) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
