"""The suites tell a good prompt from a bad one, the shipped challengers are what they are shipped to be."""

from __future__ import annotations

import pytest

from agents.manifest import load_manifest
from agents.texts.prompt_set import PromptSet
from agents.texts.variants import Variants, sha256
from eval.grading.suite import load_suite
from eval.scores_table import Scores, pass_rates, scores, scores_table
from eval.trials.pool import Job
from telemetry.edge.files import VARIANTS, Repo
from tests.conftest import REPOSITORY
from tests.market.kit import rules

BUILT_IN = ("macro_watcher", "geopolitical_risk", "arbitrage_finder", "reviewer", "meta_agent")

HERE = Repo(REPOSITORY)

pytestmark = pytest.mark.answers


def rates(arms: dict[str, PromptSet], *agents: str) -> Scores:
    specs = [load_manifest(HERE).agent(name) for name in agents]
    return pass_rates(
        [
            Job(arm, prompts, spec, case)
            for spec in specs
            for case in load_suite(HERE, str(spec.eval_suite)).cases
            for arm, prompts in arms.items()
        ]
    )


@pytest.fixture(scope="module")
def table() -> Scores:
    """Naive, champion and best known of every agent: half of the time that this module takes, so made once."""
    return scores(HERE)


@pytest.fixture(scope="module")
def usual() -> Scores:
    """What the usual rules reach, each agent with its own."""
    return rates({"usual": PromptSet(HERE, usual_rules())}, *BUILT_IN)


def usual_rules() -> dict[str, str]:
    return {str(load_manifest(HERE).agent(agent).prompt): rules(agent) for agent in BUILT_IN}


def test_every_suite_tells_naive_rules_from_usual_ones_and_these_from_the_best_known(
    table: Scores, usual: Scores
) -> None:
    for agent in BUILT_IN:
        naive, best = (table[agent][arm]["holdout"] for arm in ("naive", "best"))
        assert naive + 0.15 <= usual[agent]["usual"]["holdout"] < best, agent
        assert 0.90 <= best < 1.0, agent  # some cases wait for a better agent, not for a better threshold


def test_the_table_shows_every_agent_that_has_baselines(table: Scores) -> None:
    assert set(BUILT_IN) <= set(table)
    shown = [f"{table['reviewer'][arm]['tune']:.0%} / " for arm in ("naive", "champion", "best", "empty")]
    [line] = [line for line in scores_table(table).splitlines() if "| reviewer |" in line]
    assert [
        cell.strip().startswith(rate) for cell, rate in zip(line.split("|")[2:], shown, strict=False)
    ] == [True] * 4


def test_champions_are_the_live_prompts_and_every_text_says_where_it_came_from() -> None:
    for stem in (path.name for path in (HERE / VARIANTS).iterdir()):
        prompt = f"agents/prompts/{stem}.md"
        texts = Variants(HERE, prompt)
        assert texts.text("champion") == (HERE / prompt).read_text("utf-8")
        for variant in texts.challengers()[0]:
            origin = texts.origin(variant.sha256)
            assert origin is not None, variant.name
            assert variant.name == "A" or origin.parent_sha256 is not None, variant.name


def test_one_shipped_challenger_is_better_and_one_only_looks_so() -> None:
    def gain(agent: str) -> tuple[float, float]:
        prompt = f"agents/prompts/{agent}.md"
        texts = Variants(HERE, prompt)
        origin = texts.origin(sha256(texts.text("B")))
        if origin is None or origin.source != "shipped":
            pytest.skip(f"B of {agent} is a later proposal by now")
        live = PromptSet(HERE)
        arms = {name: live.with_overrides({prompt: texts.text(name)}) for name in "AB"}
        found = rates(arms, agent)[agent]
        tune, holdout = (found["B"][half] - found["A"][half] for half in ("tune", "holdout"))
        return tune, holdout

    tune, holdout = gain("geopolitical_risk")
    assert tune > 0.10
    assert holdout > 0.10
    tune, holdout = gain("macro_watcher")
    assert tune > 0.05
    assert holdout < 0.0
