"""The rules of shipped prompts, whoever is champion: every one is known to its analyst, and can be searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.market import DOMAIN
from agents.offline.analysts import GENERIC
from agents.offline.rules import Analyst, Rules, chosen
from tests.conftest import REPOSITORY
from tests.market.kit import AGENTS, live_prompt
from tests.worlds import tables

ANALYSTS = {**GENERIC, **DOMAIN.analysts}
PROMPTS = sorted(
    [*(REPOSITORY / "agents/prompts").rglob("*.md"), *(REPOSITORY / "eval/baselines").glob("*.md")]
)


@pytest.mark.parametrize(("name", "analyst"), DOMAIN.analysts.items(), ids=DOMAIN.analysts)
def test_a_table_names_every_key_that_its_analyst_reads_and_what_it_means(
    name: str, analyst: Analyst
) -> None:
    assert tables.check_analyst(name, analyst)


@pytest.mark.parametrize("name", [*AGENTS, "reviewer", "meta_agent"])
def test_every_rule_of_a_shipped_agent_is_in_the_table_of_its_analyst(name: str) -> None:
    tables.check_prompt(live_prompt(name), ANALYSTS, name)


@pytest.mark.parametrize("file", PROMPTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_rule_of_a_shipped_prompt_can_be_searched_or_is_meant_to_stay(file: Path) -> None:
    tables.check_prompt(file.read_text(), ANALYSTS)


@pytest.mark.parametrize("name", ["macro_watcher", "geopolitical_risk", "arbitrage_finder"])
def test_every_analyst_survives_an_empty_question_and_no_rules(name: str) -> None:
    analyst = chosen(ANALYSTS, Rules(), {"task": name})
    assert analyst is not None and analyst.answer(Rules(), {"task": name}) == {"items": []}
