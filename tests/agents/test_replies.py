"""An envelope is read without trusting any of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.connection import Response
from agents.model.reply import Failure, Reply, Tally, read
from telemetry.record import pricing

KEYS = st.sampled_from(
    [
        "choices",
        "message",
        "content",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "cost",
        "model",
        "error",
        "code",
    ]
)
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


def reading(content: bytes) -> Reply | Failure:
    return read(Response(200, {}, content), model="m", base_url="http://h/v1")


@given(st.binary(max_size=100))
def test_bytes_that_are_no_completion_are_a_failure(content: bytes) -> None:
    assert isinstance(reading(content), Failure)


@given(junk)
def test_no_envelope_breaks_the_reader(envelope: Any) -> None:
    assert isinstance(reading(json.dumps(envelope).encode()), Reply | Failure)


@given(junk, junk)
def test_odd_usage_is_unknown_never_wrong(usage: Any, content: Any) -> None:
    envelope = {"choices": [{"message": {"content": content}}], "usage": usage}
    reply = reading(json.dumps(envelope).encode())
    if isinstance(reply, Failure):  # NaN and the like: not JSON
        return
    cost = Tally("gpt-4.1-mini", "openai", pricing.Override(1.0, 1.0)).add(reply)
    assert cost is None or 0 <= cost < float("inf")
    assert isinstance(reply.text, str)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3}, pricing.Usage(9, 3)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            pricing.Usage(9, 3, 4, 2),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 8}, pricing.Usage(9, 3, 8)),
        ({"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": None}, pricing.Usage(9, 3)),
        ({"prompt_tokens": True, "completion_tokens": 3.5}, pricing.Usage()),
        (None, pricing.Usage()),
        ("many", pricing.Usage()),
    ],
)
def test_usage_in_the_shapes_that_endpoints_use(usage: Any, expected: pricing.Usage) -> None:
    envelope = {"choices": [{"message": {"content": "x"}}], "usage": usage}
    reply = reading(json.dumps(envelope).encode())
    assert isinstance(reply, Reply)
    assert reply.usage == expected


def test_content_in_parts_is_one_text() -> None:
    parts = [{"type": "text", "text": '{"a"'}, {"type": "text", "text": ": 1}"}, {"type": "image"}]
    reply = reading(json.dumps({"choices": [{"message": {"content": parts}}]}).encode())
    assert isinstance(reply, Reply)
    assert reply.text == '{"a": 1}'
