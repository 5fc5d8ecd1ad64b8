"""The suites tell a good prompt from a bad one, the shipped challengers are what they are shipped to be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.manifest import load_manifest
from agents.texts import variants
from agents.texts.prompt_set import PromptSet
from eval.grading.suite import load_suite
from eval.scores_table import Scores, pass_rates, scores, scores_table
from eval.trials.pool import Job
from telemetry.edge.repo import here as checkout
from telemetry.edge.repo import working_in

BUILT_IN = ("macro_watcher", "geopolitical_risk", "arbitrage_finder", "reviewer", "meta_agent")


@pytest.fixture
def here(repository: Path) -> Iterator[Path]:
    with working_in(repository):
        yield repository


def rates(arms: dict[str, PromptSet], *agents: str) -> Scores:
    specs = [load_manifest().agent(name) for name in agents]
    return pass_rates(
        [
            Job(arm, prompts, spec, case)
            for spec in specs
            for case in load_suite(checkout(), str(spec.eval_suite)).cases
            for arm, prompts in arms.items()
        ]
    )


def test_the_champion_is_well_above_naive_rules_and_nothing_is_perfect(here: Path) -> None:
    """Holds on any later day, too: a champion may come near the best known, or pass it, by merged pull requests."""
    found = scores()
    assert set(BUILT_IN) <= set(found)
    for agent in BUILT_IN:
        naive, champion, best = (found[agent][arm]["holdout"] for arm in ("naive", "champion", "best"))
        assert naive + 0.15 <= champion < 1.0, agent
        assert 0.90 <= best < 1.0, agent  # some cases wait for a better agent, not for a better threshold
    assert f"| reviewer | {found['reviewer']['naive']['tune']:.0%} /" in scores_table(found)


def test_the_shipped_champions_are_the_live_prompts(here: Path) -> None:
    shipped = [path.name for path in (here / variants.FOLDER).iterdir()]
    assert {"macro_watcher", "geopolitical_risk"} <= set(shipped)
    for stem in shipped:
        prompt = f"agents/prompts/{stem}.md"
        live = (here / prompt).read_text("utf-8")
        assert variants.load_variant(prompt, "champion") == live
        for variant in variants.challengers(prompt)[0]:
            origin = variants.origin(prompt, variant.sha256)
            assert origin is not None, variant.name
            assert origin.parent_sha256 is not None, variant.name


def test_one_shipped_challenger_is_better_and_one_only_looks_so(here: Path) -> None:
    def gain(agent: str) -> tuple[float, float]:
        prompt = f"agents/prompts/{agent}.md"
        origin = variants.origin(prompt, variants.sha256(variants.load_variant(prompt, "B")))
        if origin is None or origin.source != "shipped":
            pytest.skip(f"B of {agent} is a later proposal by now")
        live = PromptSet(here)
        arms = {name: live.with_overrides({prompt: variants.load_variant(prompt, name)}) for name in "AB"}
        found = rates(arms, agent)[agent]
        tune, holdout = (found["B"][half] - found["A"][half] for half in ("tune", "holdout"))
        return tune, holdout

    tune, holdout = gain("geopolitical_risk")
    assert tune > 0.10
    assert holdout > 0.10
    tune, holdout = gain("macro_watcher")
    assert tune > 0.05
    assert holdout < 0.0


def test_one_changed_word_in_one_agents_rules_moves_that_agents_scores_and_no_other(here: Path) -> None:
    live = PromptSet(here)
    prompt = "agents/prompts/geopolitical_risk.md"
    text, edits = re.subn(
        r"^report_threshold: \S+", "report_threshold: 90", live.text(prompt), flags=re.MULTILINE
    )
    assert edits == 1
    changed = live.with_overrides({prompt: text})
    found = rates({"before": live, "after": changed}, *BUILT_IN)
    moved = [agent for agent, arms in found.items() if arms["before"] != arms["after"]]
    assert moved == ["geopolitical_risk"]
