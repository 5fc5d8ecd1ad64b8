"""One run, one row: whatever an agent does, its run is timed, checked and logged once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from agents.base import AgentError, AnswerError, BaseAgent, build_agent
from agents.manifest import PROMPTED, AgentSpec
from agents.model.schema import listed
from agents.offline.model import OfflineModel
from agents.offline.rules import Analyst
from agents.prompted import PromptedAgent
from agents.texts.prompt_set import PromptSet
from telemetry.edge.files import here
from tests.worlds.models import Says
from tests.worlds.world import built, put, rows

ITEM = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


class Plain(BaseAgent):
    def analyze(self, inputs: Any) -> list[dict[str, Any]]:
        return [{"risk_score": inputs["risk"]}]


class Asking(BaseAgent):
    async def analyze(self, inputs: Any) -> list[dict[str, Any]]:
        answer = await self.ask({"question": inputs["q"]}, listed(ITEM))
        return list(answer["items"])


class Hanging(BaseAgent):
    def analyze(self, inputs: Any) -> list[dict[str, Any]]:
        time.sleep(30)
        return []


class Returning(BaseAgent):
    def analyze(self, inputs: Any) -> Any:
        return inputs["this"]


class Counter:
    def count(self, inputs: Any) -> list[dict[str, Any]]:
        return [{"n": len(inputs)}]


class Doubled(PromptedAgent):
    async def analyze(self, inputs: Any) -> list[dict[str, Any]]:
        return [{"n": f"{item['n']} twice"} for item in await super().analyze(inputs)]


def double(inputs: Any) -> list[dict[str, Any]]:
    return [{"n": 2 * inputs["n"]}]


async def triple(inputs: Any) -> list[dict[str, Any]]:
    await asyncio.sleep(0)
    return [{"n": 3 * inputs["n"]}]


def agent(callable_: str, model: Any = None, **fields: Any) -> BaseAgent:
    spec = AgentSpec("tested", __name__, callable_, "macro", **fields)
    return build_agent(spec, PromptSet(here()), model or Says({"items": []}))


def test_a_run_is_one_row_with_its_reward() -> None:
    assert agent("Plain.run").run({"risk": 50}) == [{"risk_score": 50}]
    (row,) = rows()
    assert (row["kind"], row["agent"], row["signal_strength"], row["error"]) == ("run", "tested", 0.5, None)


def test_a_model_call_inside_is_counted_on_the_run() -> None:
    agent("Asking.run", Says({"items": [{"n": 1}]})).run({"q": "?"})
    call, run = rows()
    assert (call["kind"], run["kind"]) == ("llm_call", "run")
    assert call["run_id"] == run["run_id"] and run["tokens_in"] == 1 and run["provider"] == "test"


def test_the_model_reads_task_and_payload_as_json() -> None:
    model = Says({"items": []})
    agent("Asking.run", model).run({"q": "what?"})
    assert model.asked[0][-1]["content"] == '{"task": "tested", "question": "what?"}'


@pytest.mark.parametrize(
    "answer", [[], {"items": 3}, {"items": [{"n": "1"}]}, {"items": [], "extra": 1}, "no", None]
)
def test_an_answer_of_another_shape_is_a_parse_error(answer: Any) -> None:
    with pytest.raises(AnswerError):
        agent("Asking.run", Says(answer)).run({"q": "?"})
    assert rows()[-1]["error_kind"] == "parse"


@pytest.mark.parametrize("output", [None, {}, "text", [1], [None], [[]]])
def test_garbage_as_output_is_the_agents_own_error(output: Any) -> None:
    with pytest.raises(AgentError):
        agent("Returning.run").run({"this": output})
    (row,) = rows()
    assert row["error_kind"] == "agent" and row["reward"] is None


def test_an_output_that_breaks_the_declared_schema_is_refused(root: Path) -> None:
    (root / "s.json").write_text('{"type": "object", "required": ["n"]}')
    with pytest.raises(AgentError, match=r'does not match s\.json: 0: "n" is a required'):
        agent("Returning.run", output_schema="s.json").run({"this": [{}]})


def test_a_hung_agent_is_a_timeout_row_and_holds_up_nobody() -> None:
    start = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"no result after 0\.05 s"):
        agent("Hanging.run", timeout_s=0.05).run({})
    assert time.perf_counter() - start < 10
    assert rows()[0]["error_kind"] == "timeout"


@pytest.mark.parametrize(
    ("callable_", "inputs", "n"),
    [("double", {"n": 4}, 8), ("triple", {"n": 4}, 12), ("Counter.count", {"a": 0, "b": 0}, 2)],
)
def test_plain_functions_and_classes_are_agents_too(callable_: str, inputs: Any, n: int) -> None:
    assert agent(callable_).run(inputs) == [{"n": n}]
    assert len(rows()) == 1


def test_a_callable_that_is_not_there_is_told() -> None:
    with pytest.raises(AgentError, match="nothing_like_it cannot be loaded"):
        agent("nothing_like_it")


ALARM = {
    "gauge": "Elm", "signal": "rising", "value": 3.1, "daily_change": 0.4, "risk_score": 12, "rationale": "Elm rose",
}  # fmt: skip


def test_an_agent_without_code_answers_by_its_schema(toy: Path) -> None:
    model = Says({"items": [ALARM]})
    gauges = [{"id": "Elm", "history": [{"date": "2026-01-02", "value": 20.0}]}]
    assert built("gauge_echo", model=model).run({"as_of": "2026-01-02", "gauges": gauges}) == [ALARM]
    assert '"daily_change": null' in model.asked[0][-1]["content"]  # it gets measurements, not raw history


def test_an_agent_without_code_cannot_add_fields(toy: Path) -> None:
    model = Says({"items": [ALARM | {"run": "rm"}]})
    with pytest.raises(AnswerError, match="run"):
        built("gauge_echo", model=model).run({"as_of": "2026-01-02", "gauges": []})


def test_what_a_subclass_makes_of_an_answer_is_held_to_the_schema_too(root: Path) -> None:
    put(root, "item.json", ITEM)
    made = agent("Doubled.run", Says({"items": [{"n": 1}]}), output_schema="item.json")
    with pytest.raises(AgentError, match="does not match item"):
        made.run({})


def test_what_is_no_number_leaves_no_agent_as_a_number(root: Path) -> None:
    odd = {"odd": Analyst(lambda rules, payload: {"items": [{"n": 1, "more": float("nan")}]})}
    put(root, "item.json", ITEM)
    put(root, "prompt.md", "```rules\nanalyst: odd\n```\n")
    spec = AgentSpec("tested", *PROMPTED, "macro", output_schema="item.json", prompt="prompt.md")
    with pytest.raises(ValueError, match="not JSON compliant"):
        build_agent(spec, PromptSet(here()), OfflineModel(analysts=odd)).run({})
