"""The offline model: only the rules decide, the schema always holds, noise comes at its rate and is repeatable."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.call import trial_label
from agents.model.schema import listed, problems
from agents.offline.analysts import GENERIC
from agents.offline.model import NAME, OfflineModel, UnknownTask, fitted
from agents.offline.rules import Analyst, Key, Rules, chosen
from telemetry.logger import INFRASTRUCTURE
from tests.worlds.toy import DOMAIN
from tests.worlds.world import TREE, built, gauges, rows

PROMPT = (TREE / "agents/prompts/flood_watch.md").read_text()
JUDGEMENT = listed(json.loads((TREE / "agents/schemas/gauge.json").read_text()))
CHANGES = {"Elm": 0.5, "Oak": 0.01, "Ash": -0.4, "Yew": 0.0}
QUESTION = json.dumps(
    {
        "task": "flood_watch",
        "gauges": [{"gauge": name, "daily_change": change} for name, change in CHANGES.items()],
    }
)


def answer(noise: float = 0.0, seed: int = 0, system: str | None = None, trial: str = "") -> dict[str, Any]:
    token = trial_label.set(trial)
    try:
        model = OfflineModel(noise, seed, DOMAIN.analysts)
        return model.answer(system or PROMPT, QUESTION, JUDGEMENT)
    finally:
        trial_label.reset(token)


def test_a_call_is_logged_like_any_other_and_says_offline() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    call = asyncio.run(OfflineModel(analysts=DOMAIN.analysts).complete(messages, schema=JUDGEMENT))
    (row,) = rows()
    assert (row["kind"], row["provider"], row["cost_usd"], row["cost_source"]) == (
        "llm_call",
        "offline",
        0.0,
        "provider",
    )
    assert call.model_answered == NAME and call.tokens_in == -(-len(QUESTION) // 4) + 3
    assert json.loads(call.raw) == call.data


def test_the_same_question_has_the_same_answer() -> None:
    assert answer() == answer() == answer(seed=9, trial="x")
    assert answer()["items"]


@pytest.mark.parametrize("question", ['{"task": "poetry", "lines": 3}', "write a poem"])
def test_an_unknown_task_is_not_answered(question: str) -> None:
    with pytest.raises(UnknownTask):
        OfflineModel().answer("Do it.", question, JUDGEMENT)


def test_a_rule_can_name_the_analyst() -> None:
    given = {"task": "mine", "gauges": [{"gauge": "Elm", "daily_change": 0.2}]}
    item = {"type": "object", "additionalProperties": False, "required": ["gauge", "level"]}
    item["properties"] = {
        "gauge": {"type": "string"},
        "level": {"enum": ["low", "high"]},
        "value": {"type": "number"},
    }
    system = "```rules\nanalyst: flood\nabove: 0.1\n```"
    items = OfflineModel(analysts=DOMAIN.analysts).answer(system, json.dumps(given), listed(item))["items"]
    assert items == [{"gauge": "Elm", "level": "low", "value": 0.2}]  # what the rules cannot know is neutral
    spelt = (
        "```rules\nanalyst: threshold\nlist: gauges\nid_field: gauge\nfield: daily_change\nabove: 0.1\n```"
    )
    assert OfflineModel().answer(spelt, json.dumps(given), listed(item))["items"] == items


def test_without_a_domain_it_does_not_know_its_analysts() -> None:
    with pytest.raises(UnknownTask):
        OfflineModel().answer(PROMPT, QUESTION, JUDGEMENT)


def test_a_task_without_an_analyst_has_no_answer_and_says_what_to_do(root: Path) -> None:
    question = [{"role": "user", "content": '{"task": "stargazer"}'}]
    with pytest.raises(UnknownTask, match="set a model, or give the prompt a rules block of kind classify"):
        asyncio.run(OfflineModel().complete(question))
    [row] = rows(root)
    assert (row["finish_reason"], row["error_kind"]) == ("no_analyst", "unknown_task")
    assert row["error_kind"] in INFRASTRUCTURE


def test_another_task_can_be_taught() -> None:
    umpire = Analyst(
        lambda rules, payload: {"better": payload[rules.word("favour")]},
        {"favour": Key("word", "first", "which")},
    )
    question = '{"task": "umpire", "first": "A", "second": "B"}'
    model = OfflineModel(analysts={"umpire": umpire})
    assert model.answer("", question) == {"better": "A"}
    assert model.answer("```rules\nfavour: second\n```", question) == {"better": "B"}
    with pytest.raises(UnknownTask):  # taught to that one alone
        OfflineModel().answer("", question)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_noise_errs_at_its_rate(rate: float) -> None:
    right = answer()
    wrong = sum(answer(rate, trial=str(n)) != right for n in range(600))
    assert abs(wrong / 600 - rate) < 0.06


def test_noise_depends_on_seed_trial_and_prompt_and_repeats() -> None:
    def errors(**given: Any) -> list[bool]:
        return [answer(0.5, **given, trial=f"{given}{n}") != answer() for n in range(64)]

    assert errors(seed=1) == errors(seed=1)
    assert errors(seed=1) != errors(seed=2)
    longer = PROMPT + "\nBe kind.\n"
    same_trials = [answer(0.5, trial=str(n)) for n in range(64)]
    assert same_trials != [answer(0.5, system=longer, trial=str(n)) for n in range(64)]


def test_a_noisy_answer_still_fits_the_schema() -> None:
    for n in range(200):
        assert problems(JUDGEMENT, answer(1.0, trial=str(n))) == []


@pytest.mark.parametrize("noise", [-0.1, 1.1])
def test_an_impossible_rate_is_refused(noise: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        OfflineModel(noise=noise)


@pytest.mark.parametrize("name", ["flood_watch", "reviewer", "meta_agent"])
def test_every_analyst_survives_an_empty_question_and_no_rules(name: str) -> None:
    analyst = chosen({**GENERIC, **DOMAIN.analysts}, Rules(), {"task": name})
    assert analyst is not None and analyst.answer(Rules(), {"task": name}) == {"items": []}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 500) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["items", "gauge", "risk_score", "x"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_an_analyst_says_the_answer_fits_the_schema(value: Any) -> None:
    assert problems(JUDGEMENT, fitted(value, JUDGEMENT)) == []


@pytest.mark.usefixtures("toy")
def test_only_the_rules_of_a_prompt_change_its_agent() -> None:
    inputs = gauges(0.35)
    before = built("flood_watch").run(inputs)
    assert before != built("flood_watch", PROMPT.replace("risk_per_unit: 100", "risk_per_unit: 90")).run(
        inputs
    )
    assert before == built("flood_watch", PROMPT + "\nBe kind.\n").run(inputs)
