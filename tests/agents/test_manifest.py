"""The manifest: everything wrong is told at once, in one line, before any agent code runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agents.manifest import GUIDELINES, BudgetLimits, load_manifest
from agents.manifest.table import fields_table
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.record.pricing import Override
from tests.worlds.world import change


def problem(root: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_manifest(Repo(root))
    return str(caught.value)


def test_the_guidelines_affect_everyone_and_an_own_prompt_only_its_agent(toy: Path) -> None:
    manifest = load_manifest(Repo(toy))
    assert [spec.name for spec in manifest.agents] == ["flood_watch", "reviewer", "meta_agent", "gauge_echo"]
    assert set(manifest.prompts[GUIDELINES]) == {spec.name for spec in manifest.agents}
    assert manifest.prompts["agents/prompts/reviewer.md"] == ("reviewer",)
    assert manifest.agent("meta_agent").prompt_paths == (GUIDELINES, "agents/prompts/meta_system.md")


def test_a_star_is_everyone_but_the_critic_itself(toy: Path) -> None:
    manifest = load_manifest(Repo(toy))
    targets = {target for critic, target in manifest.critique_pairs if critic == "reviewer"}
    assert targets == {"flood_watch", "meta_agent", "gauge_echo"}


def test_defaults_hold_unless_an_agent_says_otherwise(toy: Path) -> None:
    change(toy, defaults={"timeout_s": 7, "enabled": False})
    change(toy, "reviewer", enabled=True)
    manifest = load_manifest(Repo(toy))
    assert manifest.agent("reviewer").timeout_s == 7
    assert manifest.agent("flood_watch").timeout_s == 30
    assert [spec.name for spec in manifest.enabled()] == ["reviewer"]


def test_a_model_is_a_name_or_settings_and_an_agents_own_go_before_everyones(toy: Path) -> None:
    change(
        toy,
        model={"name": "big", "prices": {"prompt_per_mtok": 0, "completion_per_mtok": 0}, "timeout_s": 300},
    )
    change(toy, "reviewer", model="small")
    change(toy, "meta_agent", model={"temperature": 0, "timeout_s": 5})
    manifest = load_manifest(Repo(toy))
    assert (manifest.model.name, manifest.model.prices) == ("big", Override(0, 0))
    assert manifest.agent("flood_watch").asking == {"timeout_s": 300}
    assert manifest.agent("reviewer").asking == {"model": "small", "timeout_s": 300}
    assert manifest.agent("meta_agent").asking == {"temperature": 0, "timeout_s": 5}


@pytest.mark.parametrize(
    ("agent", "fields", "told"),
    [
        ("reviewer", {"timeout_s": "soon"}, 'timeout_s: must be a number of seconds > 0 and <= 3600, not "soon"'),
        ("reviewer", {"timeout_s": 0}, "agents.reviewer.timeout_s: must be a number of seconds > 0"),
        ("reviewer", {"inputs": "the news"}, "agents.reviewer.inputs: must be a kind of input: one of the domain"),
        ("reviewer", {"inputs": 3}, "inputs: must be a kind of input: one of the domain's, or outputs, or findings"),
        ("reviewer", {"enabled": "perhaps"}, "agents.reviewer.enabled: must be true or false"),
        ("reviewer", {"module": "agents.reviewr"}, "agents.reviewer.module: no module named 'agents.reviewr'"),
        ("reviewer", {"callable": "Reviewer.go"}, "callable: no 'go' in agents.review.reviewer.Reviewer"),
        ("reviewer", {"callable": "Critic.run"}, "callable: no 'Critic' in agents.review.reviewer (has: "),
        ("reviewer", {"prompt": "agents/prompts/none.md"}, "reviewer.prompt: no such file 'agents/prompts/none.md'"),
        ("reviewer", {"prompt": "../secret.md"}, "agents.reviewer.prompt: must be a path inside the repository"),
        ("reviewer", {"eval_suite": None}, "agents.reviewer.eval_suite: missing, must be"),
        ("reviewer", {"eval_suite": "eval/suites/x.jsonl"}, "agents.reviewer.eval_suite: no such file"),
        ("reviewer", {"eval_adapter": "agents.review.reviewer:nope"}, "eval_adapter: no 'nope' in agents.review"),
        ("reviewer", {"colour": "red"}, "agents.reviewer.colour: unknown field (allowed: name, module, "),
        ("reviewer", {"reward": {"cost": -1}}, "agents.reviewer.reward.cost: must be a number >= 0, not -1"),
        ("reviewer", {"name": "Re viewer"}, "agents.Re viewer.name: must be a name of a-z"),
        ("gauge_echo", {"output_schema": None}, "gauge_echo.output_schema: missing, an agent without code needs one"),
        (None, {"critique_pairs": [["reviewer", "no"]]}, "critique_pairs.0: unknown agent 'no' (allowed: flood"),
        (None, {"critique_pairs": [["reviewer"]]}, "critique_pairs.0: must be a pair"),
        (None, {"prompts": {"agents/prompts/gone.md": "*"}}, "prompts.agents/prompts/gone.md: no such file"),
        (None, {"budget": {"max_usd": 0}}, "budget.max_usd: must be USD > 0, or null for no limit, not 0"),
        ("reviewer", {"model": ""}, "agents.reviewer.model: must be a model name, or a mapping of name, prices"),
        (None, {"model": {"nmae": "x"}}, "model.nmae: unknown field (did you mean name? allowed: name, prices, "),
        (None, {"model": {"prices": {"prompt_per_mtok": 1}}}, "model.prices.completion_per_mtok: missing, must be USD"),
        (None, {"model": {"temperature": 3}}, "model.temperature: must be a number in 0..2, not 3"),
        (None, {"domain": "agents.weather"}, "domain: no module named 'agents.weather'"),
        (None, {"agents": []}, "agents: must be a list of at least one agent"),
    ],
)  # fmt: skip
def test_a_mistake_names_agent_field_and_what_is_allowed(
    toy: Path, agent: str | None, fields: dict[str, Any], told: str
) -> None:
    change(toy, agent, **fields)
    message = problem(toy)
    assert told in message
    assert message.startswith("agents/manifest.yaml: ") and "\n" not in message


def test_all_mistakes_are_told_in_one_pass(toy: Path) -> None:
    change(toy, "reviewer", timeout_s=-1, module="agents.none")
    change(toy, "meta_agent", prompt="agents/prompts/none.md", name="flood_watch")
    change(toy, critique_pairs=[["reviewer", "nobody"]])
    message = problem(toy)
    for part in (
        "agents.reviewer.timeout_s",
        "agents.reviewer.module",
        "agents.flood_watch.name: used 2 times",
        "agents.flood_watch.prompt",
        "critique_pairs.0",
    ):
        assert part in message


@pytest.mark.parametrize(
    "text", ["", "[]", "agents: 3", "a: [", "agents: [3]", "\x00", "agents:\n- name: a\n  name: b\n"]
)
def test_a_file_that_is_no_manifest_is_refused(toy: Path, text: str) -> None:
    (toy / "agents/manifest.yaml").write_text(text)
    assert problem(toy).startswith("agents/manifest.yaml: ")


def test_a_broken_output_schema_is_found_at_load(toy: Path) -> None:
    (toy / "agents/schemas/gauge.json").write_text('{"type": 7}')
    assert "agents.gauge_echo.output_schema: 'agents/schemas/gauge.json' is not a JSON Schema" in problem(toy)


def test_loading_runs_no_agent_code(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loud_agent.py").write_text("raise RuntimeError('imported')\ndef act(inputs): return []\n")
    monkeypatch.syspath_prepend(tmp_path)
    change(toy, "gauge_echo", module="loud_agent", callable="act")
    assert load_manifest(Repo(toy)).agent("gauge_echo").callable == "act"
    assert "loud_agent" not in sys.modules


def test_an_unknown_agent_is_told_with_those_there_are(toy: Path) -> None:
    with pytest.raises(BadInput, match=r"no agent 'x' \(there are: flood_watch, "):
        load_manifest(Repo(toy)).agent("x")


def test_a_share_of_a_budget_leaves_no_limit_where_there_was_none() -> None:
    assert BudgetLimits(5.0, 20_000, None).share(0.1) == BudgetLimits(0.5, 2_000, None)
    assert BudgetLimits(max_calls=3).share(0.1).max_calls == 1, "a share of few calls is not none"


def test_the_readme_holds_the_table_of_all_fields(repository: Path) -> None:
    text = (repository / "agents/README.md").read_text()
    shown = text.partition("<!-- fields -->\n")[2].partition("<!-- /fields -->")[0]
    assert shown == fields_table(), "put there what `python -m agents.manifest.table` prints"
    assert "| **`inputs`** |" in shown and "| `signal.full` |" in shown and "| `budget.max_usd` |" in shown
