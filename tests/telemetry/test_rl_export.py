"""`python -m telemetry.rl_export`: what may leave leaves once, anonymous and on record; what may not, says why."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from telemetry import rl_export
from telemetry.batches import pick
from telemetry.batches.access import ACCESS
from telemetry.batches.anonymise import SECRET, Anonymiser, Options
from telemetry.batches.formats import TYPES
from telemetry.batches.holdout import split
from telemetry.edge import cli
from telemetry.edge.files import EXPORTS
from telemetry.edge.records import input_hash
from telemetry.logger import new_run_id
from tests.worlds import runs, world
from tests.worlds.runs import lines, run


@pytest.fixture(autouse=True)
def agents(root: Path) -> None:
    runs.checkout(root)


def export(kind: str, capsys: pytest.CaptureFixture[str], *flags: str, code: int = cli.OK) -> dict[str, Any]:
    got = rl_export.main(["--type", kind, "--json", *flags])
    told = capsys.readouterr()
    assert got == code, told.err
    found: dict[str, Any] = json.loads(told.out) if told.out else {"error": told.err}
    return found


def gates(result: dict[str, Any]) -> dict[str, int]:
    return {row["gate"]: row["points"] for row in result["gates"]}


def rows(root: Path, result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return lines(root / EXPORTS / result["id"] / f"{name}.jsonl")


def test_too_little_is_exit_1_with_what_is_missing_and_nothing_written(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    told = export("sft", capsys, code=cli.FOUND)
    assert told["missing"] == ["999 more points", "2 more task types"]
    assert [one.name for one in (root / EXPORTS).iterdir()] == ["access.jsonl"]


def test_partial_exports_it_with_a_stamp(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(asked="Elm?", answer="rising")
    told = export("sft", capsys, "--partial")
    assert told["below_minimum"] == ["999 more points", "2 more task types"]
    [row] = rows(root, told, "prompt_completion")
    assert row["prompt"] == [
        {"role": "system", "content": "You watch rivers."},
        {"role": "user", "content": "Elm?"},
    ]
    assert row["completion"] == [{"role": "assistant", "content": "rising"}]
    assert rows(root, told, "chat") == [{"messages": row["prompt"] + row["completion"]}]


def test_a_full_batch_needs_no_flag(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pick.MINIMA, "sft", pick.Minimum(3, 0.8, task_types=3))
    for number in range(3):
        run(asked=f"{number}?", task_type=f"type_{number}")
    told = export("sft", capsys)
    assert told["below_minimum"] == []
    assert told["task_type_distribution"] == {f"type_{number}": 1 for number in range(3)}
    assert told["quality_stats"]["mean"] == 0.9
    assert told["total_points"] == 3
    assert set(told["files"]) == {
        f"{one}.jsonl" for one in ("prompt_completion", "chat", "preference", "unpaired")
    }


def test_nothing_is_exported_twice_for_the_same_purpose(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(asked="1?")
    first = export("sft", capsys, "--partial")
    assert export("sft", capsys, "--partial", code=cli.FOUND)["id"] is None
    run(asked="2?")
    second = export("sft", capsys, "--partial")
    ledger = [lines(root / EXPORTS / one["id"] / "ledger.jsonl") for one in (first, second)]
    assert len({row["point_id"] for part in ledger for row in part}) == 2
    assert ledger[0][0] | {"point_id": ""} == {
        "point_id": "", "rl_ready": True, "exported_at": first["exported_at"], "training_batch_id": first["id"],
    }  # fmt: skip
    assert export("curriculum", capsys, "--partial")["total_points"] == 2, "another purpose is another matter"


def test_an_export_that_is_killed_leaves_no_batch_and_its_points_are_free(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert rl_export.main(["--type", "sft", "--partial"]) == cli.STOPPED
    capsys.readouterr()
    assert not list((root / EXPORTS).glob("*sft*"))
    assert export("sft", capsys, "--partial")["total_points"] == 1


@pytest.mark.parametrize(
    ("gate", "fields"),
    [
        ("complete-metrics", {"quality": None}),
        ("complete-metrics", {"tokens_used": None, "tokens_in": None}),
        ("quality-bounds", {"quality": 1.2}),
        ("schema", {"complexity": "hard"}),
        ("known-agent", {"agent": "stranger"}),
        ("time-order", {"ts": "2099-01-01T00:00:00.000Z"}),
        ("missing-text", {"turns": 0}),
        ("holdout-leak", {"case": ("c1", "holdout"), "source": "eval"}),
        ("holdout-leak", {"case": ("c1", "fresh"), "source": "eval"}),
        ("holdout-leak", {"source": "ab_test"}),
    ],
)
def test_a_gate_keeps_back_what_must_not_leave(
    gate: str, fields: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run(**fields)
    told = export("sft", capsys, "--partial", code=cli.FOUND)
    assert gates(told) == {gate: 1}


def test_the_field_run_on_the_input_of_an_unseen_case_does_not_leave(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family = next(f"f{number:03}" for number in range(99) if split(f"f{number:03}") == "holdout")
    tune = next(f"f{number:03}" for number in range(99) if split(f"f{number:03}") == "tune")
    cases = [
        {"id": "case-1", "family": family, "input": {"b": 2, "a": 1}, "expect": []},
        {"id": "case-2", "family": tune, "input": {"a": 2}, "expect": []},
        {
            "id": "case-3",
            "family": tune,
            "input": {"a": 3},
            "expect": [],
            "split": "fresh",
            "since": "2026-11-01",
        },
    ]
    world.put(root, "eval/suites/agent_0.jsonl", "\n".join(map(json.dumps, cases)) + "\n")
    for number, payload in enumerate(({"a": 1, "b": 2}, {"a": 2}, {"a": 3}, {"a": 4})):
        run(asked=f"{number}?", input_hash=input_hash(payload))
    told = export("sft", capsys, "--partial")
    assert (told["total_points"], gates(told)) == (2, {"holdout-leak": 2})
    world.put(root, "eval/suites/agent_0.jsonl", "version https://git-lfs.github.com/spec/v1\n")
    told = export("sft", capsys, "--partial", code=cli.BAD_INPUT)
    assert told["error"] == "error: eval/suites/agent_0.jsonl:1: not a case\n", "who knows what would leave"


def test_rewards_of_one_scoring_version_only_leave(capsys: pytest.CaptureFixture[str]) -> None:
    run(asked="1?", scoring_version="0.9")
    run(asked="2?", scoring_version="1.0")
    told = export("sft", capsys, "--partial")
    assert (told["total_points"], gates(told)) == (1, {"one-scoring-version": 1})


def test_the_same_question_and_answer_leave_once(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    run()
    told = export("sft", capsys, "--partial")
    assert (told["total_points"], gates(told)) == (1, {"duplicate": 1})


def test_offline_answers_leave_only_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run(provider="offline")
    assert export("sft", capsys, "--partial", code=cli.FOUND)["points"] == 0
    assert export("sft", capsys, "--partial", "--include-offline")["total_points"] == 1


def test_only_the_chosen_side_must_be_good(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(asked="Elm?", answer="rising", quality=0.9, reward=0.6)
    run(asked="Elm?", answer="falling", quality=0.2, reward=0.1)
    run(asked="Oak?", answer="rising", quality=0.9, reward=0.6)
    run(asked="Oak?", answer="calm", quality=0.7, reward=0.5)
    told = export("sft", capsys, "--partial")
    [pair] = rows(root, told, "preference")
    assert [pair[side][0]["content"] for side in ("chosen", "rejected")] == ["rising", "falling"]
    assert pair["prompt"][-1]["content"] == "Elm?", "a gap of 0.1 makes no pair"
    labels = {(row["prompt"][-1]["content"], row["label"]) for row in rows(root, told, "unpaired")}
    assert labels == {("Elm?", True), ("Elm?", False), ("Oak?", True), ("Oak?", False)}
    assert {row["rl_ready"] for row in lines(root / EXPORTS / told["id"] / "ledger.jsonl")} == {True, False}


def test_answers_to_two_prompts_are_no_pair(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(asked="Elm, by prompt A?", quality=0.9, reward=0.9)
    run(asked="Elm, by prompt B?", quality=0.1, reward=0.1)
    told = export("sft", capsys, "--partial")
    assert rows(root, told, "preference") == []


def test_grpo_holds_each_question_of_a_tune_case_once_with_its_case(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(asked="Elm?", answer="a", case=("c1", "tune"), source="eval")
    run(asked="Elm?", answer="b", case=("c1", "tune"), source="eval")
    run(asked="Oak?")
    told = export("grpo", capsys, "--partial")
    [row] = rows(root, told, "prompt_only")
    assert (row["agent"], row["case_id"], row.get("reward")) == ("agent_0", "c1", None)


def test_trajectories_hold_turns_rewards_and_their_group(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(asked="Elm?", answer="a", turns=2)
    run(asked="Elm?", answer="b", turns=2)
    run(asked="Oak?")
    told = export("turn-rl", capsys, "--partial")
    found = rows(root, told, "trajectories")
    assert sorted(len(row["turns"]) for row in found) == [1, 2, 2]
    assert len({row["group_id"] for row in found}) == 2
    assert all(row["reward"] == 0.5 for row in found)


def test_bandit_rows_are_context_action_propensity_reward(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from telemetry.logger import log_event

    run_id = new_run_id()
    about = {"task_type": "flood", "complexity": None, "requirements": {"capabilities": []}}
    log_event("agent_0", run_id, None, kind="routing", selected_agent_id="agent_0", propensity=0.4, **about)
    log_event("agent_0", run_id, 5.0, 0.0, 1, 1, reward=0.7)
    run()
    told = export("turn-rl", capsys, "--partial")
    assert rows(root, told, "bandit") == [
        {"context": about, "action": "agent_0", "propensity": 0.4, "reward": 0.7}
    ]


def test_a_curriculum_begins_with_what_is_mostly_done_well(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        run("agent_1", asked=f"{number}?", quality=0.7, task_type="hard")
        run("agent_2", asked=f"{number}?", quality=0.95, task_type="easy")
    found = rows(root, export("curriculum", capsys, "--partial"), "curriculum")
    assert [row["task_type"] for row in found] == ["easy"] * 4 + ["hard"] * 4
    assert [row["stage"] for row in found] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_last_month_comes_first_in_turn_by_type_and_agent(capsys: pytest.CaptureFixture[str]) -> None:
    old = (datetime.now(UTC) - timedelta(days=60)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    for number in range(6):
        run(asked=f"{number}?", task_type="common")
    run(asked="rare?", task_type="rare")
    run(asked="old?", task_type="old", turns=1, ts=old)
    told = export("sft", capsys, "--partial", "--most", "3")
    assert told["task_type_distribution"] == {"common": 2, "rare": 1}


def test_only_the_types_and_days_asked_for_leave(capsys: pytest.CaptureFixture[str]) -> None:
    run(asked="1?", task_type="flood")
    run(asked="2?", task_type="drought")
    assert export("sft", capsys, "--partial", "--task-types", "flood")["task_type_distribution"] == {
        "flood": 1
    }
    told = export("sft", capsys, "--partial", "--since", "2099-01-01", code=cli.FOUND)
    assert told["points"] == 0


def test_personal_data_and_tenants_do_not_leave(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "a secret that is long enough")
    run(asked="Acme's jo@example.org asks: DE89 3704 0044 0532 0130 00?", tenant_id="Acme")
    told = export("sft", capsys, "--partial")
    [row] = rows(root, told, "prompt_completion")
    said = row["prompt"][-1]["content"]
    assert said.endswith("'s [email] asks: [iban]?")
    assert row["tenant_id"].startswith("tenant-")
    assert said.startswith(row["tenant_id"])
    assert b"Acme" not in b"".join(one.read_bytes() for one in (root / EXPORTS / told["id"]).iterdir())


def test_tenants_without_a_secret_are_exit_2_and_nothing_is_written(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tenant_id="Acme")
    told = export("sft", capsys, "--partial", code=cli.BAD_INPUT)
    assert told["error"].startswith(f"error: {SECRET}: ")
    assert not list((root / EXPORTS).glob("sft-*"))


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        ({"remove_file_names": True}, "see src/agents/base.py and notes.md", "see [file] and [file]"),
        (
            {"remove_variable_names": True},
            "set max_calls or maxCalls to MAX_CALLS",
            "set [name] or [name] to [name]",
        ),
        ({"keep_structure_only": True}, '{"level": 3.14, "note": "high"}', '{"x": 0.00, "x": "x"}'),
        ({"strip_tenant_identifiers": True}, "for Acme only", "for [tenant] only"),
    ],
)
def test_each_option_does_what_it_says(options: dict[str, Any], before: str, after: str) -> None:
    by = Anonymiser(Options(**{"replace_tenant_ids": False, **options}), ["Acme"])
    assert by.text(before) == after


def test_the_same_tenant_has_the_same_name_under_one_key_only(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for secret in ("a" * 20, "a" * 20, "b" * 20):
        monkeypatch.setenv(SECRET, secret)
        names.append(Anonymiser(Options(), ["Acme"]).tenant("Acme"))
    assert names[0] == names[1] != names[2]


def test_noise_is_off_unless_asked_for() -> None:
    assert Anonymiser(Options()).reward(0.5) == 0.5
    noisy = Anonymiser(Options(add_noise_to_rewards=True, noise_magnitude=0.1))
    assert len({noisy.reward(0.5) for _ in range(5)}) > 1
    assert noisy.reward(None) is None


def allow(root: Path, **rule: Any) -> None:
    world.put(root, ACCESS, yaml.safe_dump({"defaults": rule}))


@pytest.mark.parametrize(
    ("rule", "flags", "said"),
    [
        ({"allowed_roles": ["auditor"]}, [], "allowed_roles: 'trainer' is none of auditor"),
        ({"require_approval": True}, [], "require_approval: say who approved it"),
        ({"time_range": 7}, ["--since", "2020-01-01"], "time_range: 7 days"),
        ({"fields": "some"}, [], "fields: must be all or anonymized-only"),
        ({"time_range": "long"}, [], "time_range: must be a int"),
        ({"surprise": 1}, [], "surprise: unknown field"),
        ({"anonymize": {"hide": True}}, [], "anonymize.hide: unknown field"),
    ],
)
def test_access_is_refused_in_one_line_and_on_record(
    rule: dict[str, Any], flags: list[str], said: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allow(root, **rule)
    run()
    told = export("sft", capsys, "--partial", *flags, code=cli.BAD_INPUT)
    assert said in told["error"]
    assert told["error"].count("\n") == 1
    assert not list((root / EXPORTS).glob("sft-*"))


def test_every_request_is_on_record_also_the_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allow(root, allowed_roles=["auditor"])
    run()
    export("sft", capsys, code=cli.BAD_INPUT)
    export("sft", capsys, "--partial", "--role", "auditor", "--approved-by", "Jo")
    found = lines(root / EXPORTS / "access.jsonl")
    assert [(one["role"], one["allowed"], one["approved_by"]) for one in found] == [
        ("trainer", False, None),
        ("auditor", True, "Jo"),
    ]


def test_where_all_fields_may_leave_texts_stay_and_are_counted(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allow(root, fields="all")
    run(asked="jo@example.org?", tenant_id="Acme")
    told = export("sft", capsys, "--partial")
    [row] = rows(root, told, "prompt_completion")
    assert (row["prompt"][-1]["content"], row["tenant_id"]) == ("jo@example.org?", "Acme")
    assert gates(told) == {"privacy-compliance": 1}


def test_what_training_did_is_recorded_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run()
    name = export("sft", capsys, "--partial")["id"]
    file = str(world.put(root, "result.json", {"quality_before": 0.7, "quality_after": 0.8, "model": "tiny"}))
    assert rl_export.main(["consumed", name, "--result", file]) == cli.OK
    assert "quality +0.100" in capsys.readouterr().out
    record = json.loads((root / EXPORTS / name / "consumed.json").read_text())
    assert (record["training_batch_id"], record["result"]["model"]) == (name, "tiny")
    assert rl_export.main(["consumed", name, "--result", file]) == cli.BAD_INPUT
    assert rl_export.main(["consumed", "../sft", "--result", file]) == cli.BAD_INPUT
    bad = str(world.put(root, "result.json", {"quality_before": 7}))
    assert rl_export.main(["consumed", name, "--result", bad]) == cli.BAD_INPUT


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_has_its_minimum(kind: str) -> None:
    least = pick.MINIMA[kind]
    wanted = {"sft": (1000, 0.8), "turn-rl": (5000, 0.7), "grpo": (10_000, 0.7), "curriculum": (20_000, 0.6)}
    assert (least.points, least.quality) == wanted[kind]


def test_aggregates_leave_with_noise_until_the_budget_is_spent(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("opendp", reason="the extra `privacy` is not installed")
    for _ in range(200):
        run(quality=0.8)

    def asked(epsilon: str, code: int = cli.OK) -> dict[str, Any]:
        assert rl_export.main(["aggregates", "--epsilon", epsilon, "--json"]) == code
        told = capsys.readouterr()
        return dict(json.loads(told.out)) if code == cli.OK else {"error": told.err}

    first = asked("0.5")
    assert set(first["agents"]) == set(runs.AGENTS) and first["left"] == 0.5
    told = first["agents"]["agent_0"]  # the noise has scale 4: beyond 60 once in three million tests
    assert abs(told["runs"] - 200) < 60 and abs(told["mean_quality"] - 0.8) < 0.4
    assert asked("0.4")["left"] == pytest.approx(0.1)
    assert "0.1 of 1 is left" in asked("0.2", cli.BAD_INPUT)["error"]
    assert asked("0.1")["left"] == 0.0
    assert "0 of 1 is left" in asked("0.001", cli.BAD_INPUT)["error"]
    assert len(lines(root / EXPORTS / "privacy.jsonl")) == 3
