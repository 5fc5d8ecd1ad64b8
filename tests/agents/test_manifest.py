"""The manifest: everything wrong is told at once, in one line, before any agent code runs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.manifest import GUIDELINES, load_manifest
from telemetry.edge.errors import BadInput
from telemetry.edge.repo import Repo


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A copy of what the real manifest refers to."""
    for folder in ("agents/prompts", "agents/schemas"):
        shutil.copytree(repository / folder, tmp_path / folder)
    for entry in yaml.safe_load((repository / "agents/manifest.yaml").read_text())["agents"]:
        suite = tmp_path / entry["eval_suite"]
        suite.parent.mkdir(parents=True, exist_ok=True)
        suite.write_text("{}\n")
    shutil.copy(repository / "agents/manifest.yaml", tmp_path / "agents/manifest.yaml")
    return tmp_path


def change(root: Path, agent: str | None = None, **fields: Any) -> None:
    """Rewrite the manifest with these fields of an agent (or of the top level) replaced; None removes one."""
    path = root / "agents/manifest.yaml"
    raw = yaml.safe_load(path.read_text())
    target = raw if agent is None else next(entry for entry in raw["agents"] if entry["name"] == agent)
    for key, value in fields.items():
        target.pop(key, None)
        if value is not None:
            target[key] = value
    path.write_text(yaml.safe_dump(raw, sort_keys=False))


def problem(root: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_manifest(Repo(root))
    return str(caught.value)


def test_the_real_manifest_loads(repository: Path) -> None:
    manifest = load_manifest(Repo(repository))
    names = {spec.name for spec in manifest.agents}
    assert {"macro_watcher", "geopolitical_risk", "arbitrage_finder", "reviewer", "meta_agent"} <= names
    assert all(spec.timeout_s > 0 and spec.enabled for spec in manifest.agents)


def test_the_guidelines_affect_everyone_and_an_own_prompt_only_its_agent(repository: Path) -> None:
    manifest = load_manifest(Repo(repository))
    assert set(manifest.prompts[GUIDELINES]) == {spec.name for spec in manifest.agents}
    assert manifest.prompts["agents/prompts/reviewer.md"] == ("reviewer",)
    assert manifest.agent("meta_agent").prompt_paths == (GUIDELINES, "agents/prompts/meta_system.md")


def test_the_reviewer_reviews_everyone_but_itself(repository: Path) -> None:
    manifest = load_manifest(Repo(repository))
    targets = {target for critic, target in manifest.critique_pairs if critic == "reviewer"}
    assert targets == {spec.name for spec in manifest.agents} - {"reviewer"}


def test_defaults_hold_unless_an_agent_says_otherwise(checkout: Path) -> None:
    change(checkout, defaults={"timeout_s": 7, "enabled": False})
    change(checkout, "reviewer", enabled=True)
    manifest = load_manifest(Repo(checkout))
    assert manifest.agent("reviewer").timeout_s == 7
    assert manifest.agent("arbitrage_finder").timeout_s == 30
    assert [spec.name for spec in manifest.enabled()] == ["reviewer"]


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
        ("vix_echo", {"output_schema": None}, "vix_echo.output_schema: missing, an agent without code needs one"),
        (None, {"critique_pairs": [["reviewer", "no"]]}, "critique_pairs.0: unknown agent 'no' (allowed: macro"),
        (None, {"critique_pairs": [["reviewer"]]}, "critique_pairs.0: must be a pair"),
        (None, {"prompts": {"agents/prompts/gone.md": "*"}}, "prompts.agents/prompts/gone.md: no such file"),
        (None, {"budget": {"max_usd": 0}}, "budget.max_usd: must be USD > 0, or null for no limit, not 0"),
        (None, {"domain": "agents.weather"}, "domain: no module named 'agents.weather'"),
        (None, {"agents": []}, "agents: must be a list of at least one agent"),
    ],
)  # fmt: skip
def test_a_mistake_names_agent_field_and_what_is_allowed(
    checkout: Path, agent: str | None, fields: dict[str, Any], told: str
) -> None:
    change(checkout, agent, **fields)
    message = problem(checkout)
    assert told in message
    assert message.startswith("agents/manifest.yaml: ") and "\n" not in message


def test_all_mistakes_are_told_in_one_pass(checkout: Path) -> None:
    change(checkout, "reviewer", timeout_s=-1, module="agents.none")
    change(checkout, "meta_agent", prompt="agents/prompts/none.md", name="macro_watcher")
    change(checkout, critique_pairs=[["reviewer", "nobody"]])
    message = problem(checkout)
    for part in (
        "agents.reviewer.timeout_s",
        "agents.reviewer.module",
        "agents.macro_watcher.name: used 2 times",
        "agents.macro_watcher.prompt",
        "critique_pairs.0",
    ):
        assert part in message


@pytest.mark.parametrize(
    "text", ["", "[]", "agents: 3", "a: [", "agents: [3]", "\x00", "agents:\n- name: a\n  name: b\n"]
)
def test_a_file_that_is_no_manifest_is_refused(checkout: Path, text: str) -> None:
    (checkout / "agents/manifest.yaml").write_text(text)
    assert problem(checkout).startswith("agents/manifest.yaml: ")


def test_a_broken_output_schema_is_found_at_load(checkout: Path) -> None:
    (checkout / "agents/schemas/vix_echo.json").write_text('{"type": 7}')
    assert "agents.vix_echo.output_schema: 'agents/schemas/vix_echo.json' is not a JSON Schema" in problem(
        checkout
    )


def test_loading_runs_no_agent_code(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loud_agent.py").write_text("raise RuntimeError('imported')\ndef act(inputs): return []\n")
    monkeypatch.syspath_prepend(tmp_path)
    change(checkout, "vix_echo", module="loud_agent", callable="act")
    assert load_manifest(Repo(checkout)).agent("vix_echo").callable == "act"
    assert "loud_agent" not in sys.modules


def test_an_unknown_agent_is_told_with_those_there_are(repository: Path) -> None:
    with pytest.raises(BadInput, match=r"no agent 'x' \(there are: macro_watcher, "):
        load_manifest(Repo(repository)).agent("x")
