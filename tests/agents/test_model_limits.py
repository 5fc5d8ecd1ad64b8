"""What a model may take: caps that hold for every fault, limits that a slow endpoint keeps, secrets that stay ours."""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import json
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from agents.base import BaseAgent
from agents.manifest import AgentSpec
from agents.model.budget import Budget
from agents.model.call import LLMError
from agents.model.endpoint import OpenAIModel
from agents.model.settings import ModelSettings
from agents.texts.prompt_set import PromptSet
from telemetry.edge.files import here
from telemetry.edge.text import MARK, hidden, remember
from telemetry.record.pricing import Override
from tests.worlds.loopback import USAGE, Loopback, Reply, Request, as_json, chat, error
from tests.worlds.world import rows

HELLO = [{"role": "user", "content": "Say it in JSON."}]
GOOD = '{"a": 1}'
IN_FLIGHT = 16
FAULTS = {
    "500": error(500, "out of order"),
    "cut": chat(GOOD, fault="cut"),
    "free": chat("no JSON at all", usage={**USAGE, "cost": 0}),
    "hang": Reply(fault="hang"),
}


def model_at(url: str, budget: Budget | None = None, **settings: Any) -> OpenAIModel:
    given = ModelSettings(**{"prices": Override(1.0, 2.0), "timeout_s": 10.0} | settings)
    return OpenAIModel(
        api_key="k" * 20, base_url=url, model="m", budget=budget, given=given, first_wait_s=0.001
    )


async def asked(model: OpenAIModel, calls: int, **options: Any) -> list[Any]:
    try:
        return await asyncio.gather(
            *(model.complete(HELLO, **options) for _ in range(calls)), return_exceptions=True
        )
    finally:
        await model.aclose()


def failure(server: Loopback, **settings: Any) -> LLMError:
    [problem] = asyncio.run(asked(model_at(server.url, **settings), 1))
    assert isinstance(problem, LLMError)
    return problem


@pytest.mark.parametrize("fault", FAULTS)
def test_a_cap_of_calls_counts_every_request_whatever_comes_of_it(fault: str) -> None:
    with Loopback([FAULTS[fault]]) as server:
        model = model_at(server.url, Budget(max_calls=10), timeout_s=2.0)
        found = asyncio.run(asked(model, 4 * IN_FLIGHT))
    assert (
        len(server.requests) <= model.budget.calls == 10
    )  # a busy machine may give up before it has connected
    assert found[-1].error_kind == "budget"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_cap_in_usd_books_what_may_have_been_billed_at_its_worst_case(fault: str) -> None:
    with Loopback([FAULTS[fault]]) as server:
        model = model_at(server.url, Budget(max_usd=0.01), timeout_s=2.0)
        found = asyncio.run(asked(model, 4 * IN_FLIGHT, max_tokens=400))
    worst = (len(HELLO[0]["content"]) / 3 + 16 + 400 * 2.0) / 1e6
    if fault != "free":  # that is cheap: its usage is known, and has a price whatever the endpoint says
        assert (len(server.requests) - 1) * worst * 0.9 <= 0.01
    assert 0 < model.budget.spent_usd <= 0.01
    assert found[-1].error_kind == "budget" or fault == "free"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_cap_in_seconds_ends_calls_in_flight(fault: str) -> None:
    with Loopback([FAULTS[fault]]) as server:
        model = model_at(server.url, Budget(max_seconds=0.2))
        start = time.perf_counter()
        asyncio.run(asked(model, 4 * IN_FLIGHT))
    assert time.perf_counter() - start < 8


def test_nobody_waits_for_an_attempt_past_the_end_of_the_budget() -> None:
    with Loopback([Reply(500, headers={"Retry-After": "8"})]) as server:
        start = time.perf_counter()
        [problem] = asyncio.run(asked(model_at(server.url, Budget(max_seconds=0.2)), 1))
    assert (problem.error_kind, len(server.requests)) == ("budget", 1)
    assert time.perf_counter() - start < 7


def test_what_a_broken_off_call_took_of_the_cap_stands_on_its_row() -> None:
    with Loopback([Reply(fault="hang")]) as server:
        asyncio.run(asked(model_at(server.url, Budget(max_usd=1), timeout_s=0.1), 1))
    [row] = [row for row in rows() if row["kind"] == "llm_call"]
    assert row["cost_usd"] is None and row["booked_usd"] > 0


def one_at_a_time(seconds: float) -> Callable[[Request], Reply]:
    """An endpoint with one slot: each answer takes so long after the one before it."""
    free = 0.0

    def answer(_: Request) -> Reply:
        nonlocal free
        now = time.monotonic()
        free = max(free, now) + seconds
        return chat(GOOD, delay_s=free - now)

    return answer


def test_calls_that_an_endpoint_queues_do_not_run_out_of_time() -> None:
    with Loopback(one_at_a_time(0.25)) as server:
        found = asyncio.run(asked(model_at(server.url, timeout_s=2.0), 12))
    assert [one.data for one in found] == [{"a": 1}] * 12
    assert len(server.requests) == 12


def test_a_hung_call_is_given_up_though_later_ones_are_answered() -> None:
    numbers = itertools.count()
    with Loopback(lambda _: Reply(fault="hang") if next(numbers) == 0 else chat(GOOD)) as server:

        async def work() -> Any:
            model = model_at(server.url, timeout_s=0.5)
            hung = asyncio.create_task(model.complete(HELLO))
            while not server.requests:
                await asyncio.sleep(0.01)
            while not hung.done():
                await model.complete(HELLO)
            return hung.exception()

        problem = asyncio.run(asyncio.wait_for(work(), 20))
    assert problem.error_kind == "timeout" and "timeout_s" in str(problem)


def test_an_endpoint_that_refuses_for_load_gets_fewer_calls_at_once() -> None:
    late = time.monotonic() + 0.3

    def busy(_: Request) -> Reply:
        return error(429, "slow down") if time.monotonic() < late else chat(GOOD)

    with Loopback(busy) as server:
        model = model_at(server.url)

        async def work() -> int:
            await asyncio.gather(*(model.complete(HELLO) for _ in range(8)), return_exceptions=True)
            [wire] = model._wires.values()
            return wire.pace("m", IN_FLIGHT).limit

        assert asyncio.run(work()) < IN_FLIGHT


class Thinking(BaseAgent):
    async def analyze(self, inputs: Any) -> list[Any]:
        await self.ask({}, {"type": "object"})
        await self.ask({}, {"type": "object"})
        return []


def test_an_agents_own_limit_stands_still_while_a_model_is_asked() -> None:
    with Loopback([chat(GOOD, delay_s=0.7)]) as server:
        spec = AgentSpec("slow", __name__, "Thinking.run", "records", timeout_s=1.0)
        agent = Thinking(spec, PromptSet(here()), model_at(server.url))
        assert agent.run({}) == []


OVERFLOWS = [
    error(400, "This model's maximum context length is 4096 tokens", code="context_length_exceeded"),
    as_json({"error": {"code": 400, "message": "the request exceeds the available context size",
                       "type": "exceed_context_size_error", "n_ctx": 256}}, 400),
    as_json({"error": {"code": 500, "message": "context too small", "type": "exceed_context_size_error"}}, 500),
    error(400, "This model's maximum context length is 512 tokens. However, you requested 900 tokens"),
    error(400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    error(400, "the input length exceeds the context length"),
    error(400, "prompt too long; exceeded max context length by 77 tokens"),
    error(500, "Requested tokens (2285) exceed context window of 2048"),
]  # fmt: skip


@pytest.mark.parametrize("said", OVERFLOWS)
def test_a_prompt_that_does_not_fit_is_the_agents_trouble_and_asked_once(said: Reply) -> None:
    with Loopback([said]) as server:
        problem = failure(server)
    assert problem.error_kind == "agent" and len(server.requests) == 1
    assert "context_tokens" in str(problem)


def test_a_prompt_that_cannot_fit_is_never_sent_and_an_answer_gets_what_is_left() -> None:
    with Loopback([chat(GOOD)]) as server:
        problem = failure(server, context_tokens=50)
        assert problem.error_kind == "agent" and not server.requests
        asyncio.run(asked(model_at(server.url, context_tokens=500), 1))
    assert 64 <= server.requests[0].json()["max_tokens"] < 500


def test_a_model_that_reasons_is_asked_its_way_from_the_start() -> None:
    usage = {**USAGE, "completion_tokens_details": {"reasoning_tokens": 9}}
    with Loopback([chat(GOOD, usage=usage), chat("", finish_reason="length", usage=usage)]) as server:
        model = OpenAIModel(api_key="k" * 20, base_url=server.url)
        first, second = asyncio.run(_twice(model))
    sent = server.requests[0].json()
    assert sent["model"] == "gpt-6-luna" and sent["max_completion_tokens"] > 1800
    assert not {"temperature", "max_tokens"} & sent.keys()
    assert first.tokens_thinking == 9 and first.temperature is None
    assert "9 of them spent on reasoning" in str(second) and len(server.requests) == 2


async def _twice(model: OpenAIModel) -> Any:
    first = await model.complete(HELLO)
    [second] = await asyncio.gather(model.complete(HELLO), return_exceptions=True)
    return first, second


def test_a_token_in_the_address_is_sent_and_never_shown() -> None:
    with Loopback([chat(GOOD), error(500, "no")]) as server:
        address = server.url.replace("http://", "http://user:top-secret-1@") + "?key=top-secret-2"
        model = model_at(address)
        first, second = asyncio.run(_twice(model))
    assert first.data == {"a": 1}
    asked = server.requests[0]
    assert asked.path.endswith("/chat/completions?key=top-secret-2")
    assert asked.headers["authorization"] == "Basic " + base64.b64encode(b"user:top-secret-1").decode()
    told = f"{model.base_url} {model.provider} {second} {json.dumps(rows())}"
    assert "top-secret" not in told and base64.b64encode(b"user:top-secret-1").decode() not in told


@pytest.mark.parametrize(
    "spelt",
    [
        lambda key: key,
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(f"Bearer {key}!".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode(),
        lambda key: urllib.parse.quote(key, safe=""),
    ],
)
def test_a_key_that_the_model_echoes_reaches_nobody(spelt: Callable[[str], str]) -> None:
    key = "hush/hush+0123456789=?"
    with Loopback([chat(json.dumps({"said": spelt(key)}))]) as server:
        model = OpenAIModel(api_key=f" {key}\n", base_url=server.url)
        [found] = asyncio.run(asked(model, 1))
    assert server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert MARK in found.data["said"] and "hush" not in json.dumps(rows())
    assert MARK in rows()[-1]["raw_output"]


def test_what_merely_looks_like_a_secret_stays_in_an_answer() -> None:
    remember("a-real-secret")
    assert hidden("sk-abcdefghijklmnop and a-real-secret") == f"sk-abcdefghijklmnop and {MARK}"


def test_a_body_is_limited_after_unpacking() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    with Loopback([Reply(body=bomb, headers={"Content-Encoding": "gzip"})]) as server:
        problem = failure(server)
    assert "larger than 2000000 bytes" in str(problem)


def test_an_answer_packed_against_our_wish_is_read_all_the_same() -> None:
    packed = Reply(body=gzip.compress(chat(GOOD).body), headers={"Content-Encoding": "gzip"})
    with Loopback([packed]) as server:
        [found] = asyncio.run(asked(model_at(server.url), 1))
    assert found.data == {"a": 1}


def test_a_real_model_does_not_see_what_only_the_offline_model_needs() -> None:
    rules = "```rules\nanalyst: threshold\nlist: rows\nid_field: id\nabove: 3\n```"
    system = {"role": "system", "content": f"# A\n\nSee JSON rows; a list: [x].\n\n{rules}\n"}
    with Loopback([chat(GOOD)]) as server:
        asyncio.run(model_at(server.url).complete([system, *HELLO]))
    sent = server.requests[0].json()["messages"][0]["content"]
    assert sent == "# A\n\nSee JSON rows; a list: [x].\n\n```rules\nabove: 3\n```"
