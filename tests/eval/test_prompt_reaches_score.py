"""The prompt reaches the model, the answer is graded, the grade follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval import harness
from telemetry.edge import cli
from tests.worlds import world

pytestmark = pytest.mark.usefixtures("toy")

AGENTS = ("flood_watch", "reviewer", "meta_agent", "gauge_echo")


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
    [
        ("flood_watch", "above: 0.3 ", "above: 0.35 "),
        ("reviewer", "min_rationale_words: 3", "min_rationale_words: 9"),
        ("gauge_echo", "up_signal: rising", "up_signal: falling"),
    ],
)
def test_one_word_in_one_agents_rules_moves_that_agents_scores_and_no_others(
    toy: Path, agent: str, word: str, other: str
) -> None:
    before = outcomes(toy)
    prompt = toy / f"agents/prompts/{agent}.md"
    text = prompt.read_text()
    assert text.count(word) == 1
    prompt.write_text(text.replace(word, other))
    after = outcomes(toy)
    assert [name for name in AGENTS if before[name] != after[name]] == [agent]
    assert sum(score for _, score, _ in after[agent]) < sum(score for _, score, _ in before[agent])


def test_a_rule_of_the_guidelines_reaches_everyone_whose_own_prompt_does_not_say(toy: Path) -> None:
    before = outcomes(toy)
    guidelines = toy / "agents/prompts/agent_guidelines.md"
    guidelines.write_text(guidelines.read_text().replace("max_age_days: 3", "below: 0.2"))
    after = outcomes(toy)
    assert [name for name in AGENTS if before[name] != after[name]] == ["flood_watch", "gauge_echo"]


def test_the_offline_model_repeats_itself_and_errs_at_its_noise(toy: Path) -> None:
    def passed(*arguments: str) -> list[bool]:
        assert harness.main(["--quiet", "--agent", "flood_watch", *arguments]) == cli.OK
        stored = json.loads((toy / "eval/results/flood_watch.json").read_text())
        return [row["ok"] for row in stored["results"]]

    (toy / world.PROMPT).write_text(world.BETTER)
    noisy = ("--offline-noise", "0.3", "--trials", "2")
    first = passed(*noisy, "--seed", "1")
    assert first == passed(*noisy, "--seed", "1")
    assert first != passed(*noisy, "--seed", "2")
    assert sum(first) < 2 * sum(passed())
