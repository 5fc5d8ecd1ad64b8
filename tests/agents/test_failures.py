"""How long to wait, and whom to blame, from what an endpoint says."""

from __future__ import annotations

import email.utils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.model.endpoint import provider_of
from agents.model.reply import MAX_WAIT_S, Failure, of_status, retry_after, said, wait_s

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": email.utils.formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": email.utils.formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-5"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.integers(0, 60), st.floats(0, 1), st.none() | st.floats(0, 1000))
def test_waits_are_bounded_and_never_shorter_than_asked(
    retries: int, chance: float, asked: float | None
) -> None:
    wait = wait_s(Failure("x", "rate_limit", True, asked), retries, 0.5, chance)
    if asked is None:
        assert 0.25 <= wait <= MAX_WAIT_S
    else:
        assert asked <= wait <= asked + 0.5


@pytest.mark.parametrize(
    ("status", "kind", "retry"),
    [
        (400, "provider", False),
        (401, "provider", False),
        (408, "timeout", True),
        (429, "rate_limit", True),
        (500, "provider", True),
        (501, "provider", False),
        (503, "provider", True),
        (504, "timeout", True),
        (529, "provider", True),
    ],
)
def test_a_status_has_a_kind_and_may_be_worth_another_attempt(status: int, kind: str, retry: bool) -> None:
    failure = of_status(status, None, {}, model="m", base_url="http://h/v1")
    assert (failure.kind, failure.retry) == (kind, retry)


def test_an_endpoint_may_forbid_another_attempt() -> None:
    assert not of_status(500, None, {"x-should-retry": "false"}, model="m", base_url="http://h/v1").retry


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": {"message": "no\n such  thing"}}, "no such thing"),
        ({"message": "inner part"}, "inner part"),
        ({"detail": "from FastAPI"}, "from FastAPI"),
        ({"error": "just text"}, "just text"),
        ("<html>", "<html>"),
        (None, ""),
        ("x" * 1000, "x" * 300),
    ],
)
def test_the_endpoints_own_words_are_found(answer: object, words: str) -> None:
    assert said(answer) == words


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("http://localhost:8000/v1", "localhost"),
        ("http://127.0.0.1:1/v1", "127.0.0.1"),
        ("http://[::1]:1/v1", "::1"),
    ],
)
def test_a_provider_goes_by_a_short_name(url: str, provider: str) -> None:
    assert provider_of(url) == provider
