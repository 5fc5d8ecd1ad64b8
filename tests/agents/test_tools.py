"""Tools and attempts: a model uses functions, tries again until it is good enough, and every step is on the row."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from agents.base import BaseAgent
from agents.manifest import AgentSpec, Iterate
from agents.model import tools
from agents.model.schema import listed
from agents.model.tools import ToolError, call_tool, described
from agents.offline.model import OfflineModel
from agents.offline.rules import Analyst
from agents.texts.prompt_set import PromptSet
from telemetry.edge.errors import BadInput
from telemetry.edge.files import here
from telemetry.texts import text_of
from tests.agents.test_llm_client import model_at
from tests.worlds.loopback import USAGE, Loopback, Reply, as_json, chat
from tests.worlds.models import Says
from tests.worlds.world import rows

ITEM = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
GOOD = '{"items": [{"n": 31}]}'


def lookup(symbol: str, days: int = 5) -> dict[str, int]:
    """The level of a symbol."""
    return {symbol: 31}


def broken(symbol: str) -> None:
    raise RuntimeError("no line to the exchange")


def slow(symbol: str) -> None:
    time.sleep(5)


def odd(symbol: str) -> object:
    return object()


def untyped(symbol) -> None:  # type: ignore[no-untyped-def]
    raise AssertionError


def quality(items: list[dict[str, Any]], inputs: Any) -> tuple[float, str]:
    return items[0]["n"] / 10, f"{items[0]['n']} is too low"


def nonsense(items: list[dict[str, Any]], inputs: Any) -> str:
    return "very good"


class Asking(BaseAgent):
    async def analyze(self, inputs: Any) -> list[dict[str, Any]]:
        return list((await self.ask({"q": inputs["q"]}, listed(ITEM)))["items"])


def agent(model: Any, *names: str, **fields: Any) -> BaseAgent:
    offered = tuple(f"{__name__}:{name}" for name in names)
    spec = AgentSpec("tested", __name__, "Asking.run", "macro", tools=offered, **fields)
    return Asking(spec, PromptSet(here()), model)


def wants(*calls: tuple[str, Any]) -> Reply:
    """A model that wants tools before it answers."""
    asked = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": asked}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return as_json({"id": "c", "model": "gpt-4.1-mini", "choices": [choice], "usage": dict(USAGE)})


def said(server: Loopback) -> list[Any]:
    """What tools told the model, by the last request."""
    return [
        json.loads(one["content"]) for one in server.requests[-1].json()["messages"] if one["role"] == "tool"
    ]


def test_a_model_uses_a_function_and_answers_with_what_it_gave(root: Path) -> None:
    with Loopback([wants(("lookup", {"symbol": "VIX"})), chat(GOOD)]) as server:
        assert agent(model_at(server.url), "lookup").run({"q": 1}) == [{"n": 31}]
    (offered,) = server.requests[0].json()["tools"]
    assert offered["function"]["name"] == "lookup"
    assert offered["function"]["description"] == "The level of a symbol."
    assert offered["function"]["parameters"] == {
        "type": "object",
        "properties": {"symbol": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["symbol"],
        "additionalProperties": False,
    }
    assert said(server) == [{"VIX": 31}]
    asked, answered, run = rows(root)
    assert [row["finish_reason"] for row in (asked, answered)] == ["tool_calls", "stop"]
    assert [tool["name"] for tool in asked["tools"]] == ["lookup"]
    assert "tool_calls" not in asked
    (call,) = answered["tool_calls"]
    assert (call["tool_name"], call["ok"]) == ("lookup", True)
    assert (text_of(call["arguments_sha256"]), text_of(call["result_sha256"])) == (
        '{"symbol": "VIX"}',
        '{"VIX": 31}',
    )
    assert [message["role"] for message in answered["messages"]] == ["system", "user", "assistant", "tool"]
    assert (run["tool_call_count"], run["tool_call_success_rate"], run["tokens_used"]) == (1, 1.0, 240)
    assert [(used["tool_name"], used["call_count"]) for used in run["tools_used"]] == [("lookup", 1)]


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("lookup", {"symbol": 7}, "arguments: symbol"),
        ("lookup", [], "an object is due"),
        ("delete_all", {}, "no tool 'delete_all' (there are: lookup, broken, slow, odd)"),
        ("broken", {"symbol": "VIX"}, "RuntimeError: no line to the exchange"),
        ("slow", {"symbol": "VIX"}, "no result after 0.2 s"),
        ("odd", {"symbol": "VIX"}, "no JSON"),
    ],
)
def test_what_goes_wrong_with_a_tool_is_told_to_the_model(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: Any, told: str
) -> None:
    monkeypatch.setattr(tools, "TIMEOUT_S", 0.2)
    with Loopback([wants((name, given)), chat(GOOD)]) as server:
        assert agent(model_at(server.url), "lookup", "broken", "slow", "odd").run({"q": 1}) == [{"n": 31}]
    (heard,) = said(server)
    assert told in heard["error"]
    run = rows(root, "run")[0]
    assert run["success"]
    assert run["tool_call_success_rate"] in (0.0, None)


def test_a_model_that_goes_round_in_circles_has_to_answer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "MOST_CALLS", 3)
    again = wants(("lookup", {"symbol": "VIX"}))
    with Loopback([*[again] * 8, chat(GOOD)]) as server:
        assert agent(model_at(server.url), "lookup").run({"q": 1}) == [{"n": 31}]
    assert "tools" not in server.requests[-1].json()
    assert "3 calls in one run are enough" in said(server)[-1]["error"]
    assert rows(root, "run")[0]["tool_call_count"] == 8


def test_an_offline_analyst_uses_tools_too(root: Path) -> None:
    def answer(rules: Any, payload: Any) -> dict[str, Any]:
        with pytest.raises(ToolError, match="no line"):
            call_tool("broken", symbol="VIX")
        return {"items": [{"n": call_tool("lookup", symbol="VIX")["VIX"]}]}

    model = OfflineModel(analysts={"tested": Analyst(answer, tasks=("tested",))})
    assert agent(model, "lookup", "broken").run({"q": 1}) == [{"n": 31}]
    call, run = rows(root)
    assert [one["tool_name"] for one in call["tool_calls"]] == ["broken", "lookup"]
    assert run["tool_call_success_rate"] == 0.5


def test_types_become_what_a_model_is_told() -> None:
    def every(
        a: str, b: float | None, c: list[int], d: Literal["x", "y"], e: dict[str, bool], f: Any = None
    ) -> None: ...

    assert described(every).parameters["properties"] == {
        "a": {"type": "string"},
        "b": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "c": {"type": "array", "items": {"type": "integer"}},
        "d": {"enum": ["x", "y"]},
        "e": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "f": {},
    }


def test_a_function_without_types_is_no_tool(root: Path) -> None:
    with pytest.raises(BadInput, match="tool untyped: parameter symbol must be named and have a type"):
        agent(Says({"items": []}), "untyped").run({"q": 1})
    assert rows(root, "run")[0]["error"]


def test_an_agent_tries_until_it_is_good_enough(root: Path) -> None:
    model = Says({"items": [{"n": 3}]}, {"items": [{"n": 9}]}, {"items": [{"n": 10}]})
    plan = Iterate(0.9, 3, f"{__name__}:quality")
    assert agent(model, iterate=plan).run({"q": 1}) == [{"n": 9}]
    assert json.loads(model.asked[1][1]["content"])["feedback"] == ["3 is too low"]
    (run,) = rows(root, "run")
    assert [(one["iteration"], one["quality_score"], one["outcome"]) for one in run["iterations"]] == [
        (1, 0.3, "below"),
        (2, 0.9, "met"),
    ]
    assert (run["success"], run["quality_score"], run["final_metrics"]["iterations_used"]) == (True, 0.9, 2)
    assert run["iterations"][0]["tokens_used"] == 2


def test_the_best_attempt_counts_where_none_is_good_enough(root: Path) -> None:
    model = Says({"items": [{"n": 3}]}, {"items": [{"n": 5}]}, {"items": [{"n": 4}]})
    assert agent(model, iterate=Iterate(0.9, 3, f"{__name__}:quality")).run({"q": 1}) == [{"n": 5}]
    (run,) = rows(root, "run")
    assert (run["success"], run["partial_success"], run["quality_score"]) == (False, True, 0.5)
    assert run["failure_reason"] == "below_threshold"


def test_the_same_answer_again_is_the_last_attempt(root: Path) -> None:
    agent(Says({"items": [{"n": 3}]}), iterate=Iterate(0.9, 9, f"{__name__}:quality")).run({"q": 1})
    assert len(rows(root, "run")[0]["iterations"]) == 2


def test_an_answer_that_breaks_its_schema_is_tried_again_with_what_was_wrong(root: Path) -> None:
    model = Says({"items": [{"m": 1}]}, {"items": [{"n": 1}]})
    assert agent(model, iterate=Iterate(1.0)).run({"q": 1}) == [{"n": 1}]
    assert "schema" in json.loads(model.asked[1][1]["content"])["feedback"][0]
    assert [one["outcome"] for one in rows(root, "run")[0]["iterations"]] == ["failed", "met"]


def test_who_never_comes_to_an_end_fails_as_before(root: Path) -> None:
    with pytest.raises(Exception, match="schema"):
        agent(Says({"items": [{"m": 1}]}), iterate=Iterate(1.0, 2)).run({"q": 1})
    (run,) = rows(root, "run")
    assert (run["success"], run["failure_reason"], len(run["iterations"])) == (False, "parse", 2)


def test_a_quality_that_is_none_is_the_agents_error(root: Path) -> None:
    with pytest.raises(Exception, match=r"must give a quality in 0\.\.1, not very good"):
        agent(Says({"items": [{"n": 1}]}), iterate=Iterate(1.0, 2, f"{__name__}:nonsense")).run({"q": 1})
    assert rows(root, "run")[0]["error_kind"] == "agent"
