"""The prompt reaches the model, the answer is graded, the grade follows: shipped agents, offline model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval import harness
from telemetry.edge import cli

AGENTS = ("macro_watcher", "geopolitical_risk", "arbitrage_finder", "reviewer", "meta_agent")


@pytest.fixture
def checkout(root: Path, repository: Path) -> Path:
    for folder in ("agents/prompts", "agents/schemas", "eval/suites"):
        shutil.copytree(repository / folder, root / folder)
    shutil.copy(repository / "agents/manifest.yaml", root / "agents/manifest.yaml")
    return root


def outcomes(root: Path) -> dict[str, list[Any]]:
    """Every agent's outcome, case by case, on half of its suite."""
    arguments = [text for agent in AGENTS for text in ("--agent", agent)]
    assert harness.main(["--quiet", "--split", "tune", *arguments]) == cli.OK
    found = {}
    for agent in AGENTS:
        stored = json.loads((root / f"eval/results/{agent}.json").read_text())
        assert stored["metadata"]["provider"] == "offline"
        found[agent] = [(row["id"], row["score"], row["output"]) for row in stored["results"]]
    return found


@pytest.mark.parametrize(
    ("agent", "word", "other"),
    [("arbitrage_finder", "profit_basis: net", "profit_basis: gross")],
)
def test_one_word_in_one_agents_rules_moves_that_agents_scores_and_no_others(
    checkout: Path, agent: str, word: str, other: str
) -> None:
    before = outcomes(checkout)
    prompt = checkout / f"agents/prompts/{agent}.md"
    text = prompt.read_text()
    assert text.count(word) == 1
    prompt.write_text(text.replace(word, other))
    after = outcomes(checkout)
    assert [name for name in AGENTS if before[name] != after[name]] == [agent]
    assert sum(score for _, score, _ in after[agent]) < sum(score for _, score, _ in before[agent])


def test_the_offline_model_repeats_itself_and_errs_at_its_noise(checkout: Path) -> None:
    def passed(*arguments: str) -> list[bool]:
        assert harness.main(["--quiet", "--agent", "macro_watcher", *arguments]) == cli.OK
        stored = json.loads((checkout / "eval/results/macro_watcher.json").read_text())
        return [row["ok"] for row in stored["results"]]

    noisy = ("--offline-noise", "0.3", "--trials", "2")
    assert passed(*noisy, "--seed", "1") == passed(*noisy, "--seed", "1")
    assert passed(*noisy, "--seed", "1") != passed(*noisy, "--seed", "2")
    assert sum(passed(*noisy)) < 2 * sum(passed())
