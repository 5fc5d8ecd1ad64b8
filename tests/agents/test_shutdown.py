"""Models that are about to go: asked for once a day, told in every summary, never in the way."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.llm_client import model_from_env, shutdown_warning
from agents.model import shutdown
from agents.model.shutdown import told
from telemetry.edge import cli
from telemetry.edge.cli import job_summary
from tests.worlds.loopback import Loopback, Reply, Request, as_json, error

KEY = "a-key-that-nobody-may-see"
TODAY = date(2026, 11, 17)


def in_days(days: int) -> str:
    return str(datetime.now(UTC).date() + timedelta(days=days))


def listed(shutdown_date: Any) -> Reply:
    """A model as OpenAI lists it."""
    about = {"id": "gpt-6-luna", "object": "model", "created": 1, "owned_by": "system"}
    return as_json(about | {"shutdown_date": shutdown_date})


@pytest.fixture(autouse=True)
def _no_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_notes", {})


def ask(server: Loopback, patch: pytest.MonkeyPatch, *models: str) -> str:
    patch.setenv("OPENAI_BASE_URL", server.url)
    patch.setenv("OPENAI_API_KEY", KEY)
    return shutdown_warning(models)


def test_a_model_that_goes_soon_is_named_with_its_day(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback([listed(in_days(58))]) as server:
        warning = ask(server, monkeypatch)
    assert warning.startswith(f"Warning: gpt-6-luna will be shut down on {in_days(58)}, in 58 days.")
    [request] = server.requests
    assert (request.method, request.path) == ("GET", "/v1/models/gpt-6-luna")
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_every_summary_ends_with_the_warning_and_asks_once_a_day(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(root / "summary"))
    with Loopback([listed(in_days(30))]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        model_from_env()
        assert server.requests == []
        job_summary("### Eval")
        job_summary("### A/B test")
        assert len(server.requests) == 1
        kept = root / shutdown.CACHE
        kept.write_text(kept.read_text().replace(in_days(0), in_days(-1)))
        job_summary("### One night")
        assert len(server.requests) == 2
    first, second, third, rest = (root / "summary").read_text().split("will be shut down on")
    assert (first.count("### Eval"), second.count("### A/B test"), third.count("### One night")) == (1, 1, 1)
    assert f"{in_days(30)}, in 30 days" in rest and rest.endswith("\n\n")


def test_the_models_of_agents_are_asked_beside_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(request: Request) -> Reply:
        return listed(in_days(10) if request.path.endswith("gpt-x") else None)

    with Loopback(reply) as server:
        assert "gpt-x will be shut down" in ask(server, monkeypatch, "gpt-x", "gpt-x")
        assert sorted(request.path for request in server.requests) == [
            "/v1/models/gpt-6-luna",
            "/v1/models/gpt-x",
        ]


@pytest.mark.parametrize(
    "reply",
    [
        listed(None),
        listed(in_days(400)),
        listed("next spring"),
        listed(17),
        as_json(["no", "model"]),
        Reply(body=b"no JSON"),
        error(401, f"Incorrect API key provided: {KEY}"),
        error(404, "no such route"),
        Reply(302, headers={"Location": "http://127.0.0.1:9/"}),
        Reply(fault="reset"),
        Reply(fault="hang"),
        Reply(body=b"{" + b" " * 200, fault="drip"),
        Reply(body=b"[" * 3_000_000),
    ],
    ids=[
        "none",
        "far",
        "words",
        "number",
        "list",
        "text",
        "401",
        "404",
        "redirect",
        "reset",
        "hang",
        "drip",
        "huge",
    ],
)
def test_what_cannot_be_learnt_is_no_warning_no_failure_and_not_asked_again(
    reply: Reply, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], root: Path
) -> None:
    monkeypatch.setattr(shutdown, "LIMIT_S", 0.5)
    with Loopback([reply]) as server:
        assert ask(server, monkeypatch) == ""
        asked = len(server.requests)
        assert ask(server, monkeypatch) == ""
        assert len(server.requests) == asked
    assert KEY not in "".join(capfd.readouterr())
    assert KEY not in (root / shutdown.CACHE).read_text()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"a": 1}', '{"a": {"asked": null}}', '{"a": {"asked": "x", "shutdown_date": "x"}}']
)
def test_a_broken_cache_is_asked_anew(content: str, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    (root / shutdown.CACHE).parent.mkdir()
    (root / shutdown.CACHE).write_text(content)
    with Loopback([listed(in_days(5))]) as server:
        assert "in 5 days" in ask(server, monkeypatch)
    assert list(json.loads((root / shutdown.CACHE).read_text()).values()) == [
        {"asked": in_days(0), "shutdown_date": in_days(5)}
    ]


@pytest.mark.parametrize("environment", [{}, {"OPENAI_BASE_URL": "nonsense"}], ids=["offline", "bad address"])
def test_without_an_endpoint_nobody_is_asked(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert shutdown_warning() == ""
    assert not (root / shutdown.CACHE).exists()


def test_the_soonest_comes_first_and_what_is_past_reads_so() -> None:
    dates = {
        "far": "2027-03-01",
        "gone": "2026-11-16",
        "unknown": None,
        "soon": "2027-01-14",
        "edge": "2027-02-15",
    }
    line = told(dates, TODAY)
    assert line.startswith(
        "Warning: gone was to be shut down on 2026-11-16; soon will be shut down on 2027-01-14, in 58 days;"
        " edge will be shut down on 2027-02-15, in 90 days."
    )
    assert told({"far": "2027-02-16"}, TODAY) == ""
