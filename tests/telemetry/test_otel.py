"""Rows as OpenTelemetry, over the wire to a loopback endpoint: each once, under the names of one table."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from telemetry import logger, otel
from telemetry.edge import cli
from tests.worlds import runs, world
from tests.worlds.loopback import Loopback, Reply, Request


@pytest.fixture
def rows(root: Path) -> None:
    """A run of two turns, a graded run, and a run that failed."""
    runs.run("agent_0", turns=2)
    runs.run("agent_1", case=("c1", "tune"), source="eval", quality=0.75)
    logger.log_event("agent_2", "r2", 12.0, error="ValueError: no", error_kind="agent")


def said(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in attributes}


def taken(server: Loopback, signal: str) -> list[dict[str, Any]]:
    """What came in for a signal: the innermost lists, joined."""
    found: list[dict[str, Any]] = []
    for request in server.requests:
        if request.path.endswith(f"/v1/{signal}"):
            [resource] = next(iter(request.json().values()))
            [scope] = next(value for key, value in resource.items() if key.startswith("scope"))
            assert scope["schemaUrl"] == otel.CONVENTIONS
            found += next(value for value in scope.values() if isinstance(value, list))
    return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    with Loopback([Reply(200, b"{}")]) as one:
        monkeypatch.setenv(otel.ENDPOINT, one.url)
        yield one


def test_a_run_is_a_span_and_its_calls_are_its_children(rows: None, server: Loopback) -> None:
    assert otel.main(["--quiet"]) == cli.OK
    spans = taken(server, "traces")
    run = next(one for one in spans if one["name"] == "invoke_agent agent_0")
    calls = [one for one in spans if one.get("parentSpanId") == run["spanId"]]
    assert [one["name"] for one in calls] == ["chat m", "chat m"]
    assert {one["traceId"] for one in calls} == {run["traceId"]}
    assert len({one["spanId"] for one in spans}) == len(spans) == 6
    about = said(run["attributes"])
    assert (about["gen_ai.agent.name"], about["gen_ai.provider.name"]) == ("agent_0", "endpoint")
    assert (about["gen_ai.usage.input_tokens"], about["gen_ai.operation.name"]) == ("40", "invoke_agent")
    assert int(run["endTimeUnixNano"]) - int(run["startTimeUnixNano"]) == 10_000_000
    failed = next(one for one in spans if one["name"] == "invoke_agent agent_2")
    assert failed["status"] == {"code": 2, "message": "ValueError: no"}
    assert said(failed["attributes"])["error.type"] == "agent"


def test_a_grade_is_an_event_on_its_run(rows: None, server: Loopback) -> None:
    otel.main(["--quiet"])
    [grade] = taken(server, "logs")
    run = next(one for one in taken(server, "traces") if one["name"] == "invoke_agent agent_1")
    assert (grade["eventName"], grade["spanId"]) == ("gen_ai.evaluation.result", run["spanId"])
    assert said(grade["attributes"])["gen_ai.evaluation.score.label"] == "pass"


def test_metrics_count_every_call(rows: None, server: Loopback) -> None:
    otel.main(["--quiet"])
    [duration] = [
        one for one in taken(server, "metrics") if one["name"] == "gen_ai.client.operation.duration"
    ]
    [point] = duration["histogram"]["dataPoints"]
    assert (point["count"], point["sum"]) == ("3", pytest.approx(0.015))
    assert sum(map(int, point["bucketCounts"])) == 3
    assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1


def test_rows_are_sent_once_and_again_only_when_asked_for(rows: None, server: Loopback) -> None:
    otel.main(["--quiet"])
    first = taken(server, "traces")
    otel.main(["--quiet"])
    assert len(taken(server, "traces")) == len(first)
    runs.run("agent_3")
    otel.main(["--quiet"])
    assert [one["name"] for one in taken(server, "traces")[len(first) :]] == [
        "chat m",
        "invoke_agent agent_3",
    ]
    otel.main(["--quiet", "--since", "2020-01-01"])
    again = taken(server, "traces")[len(first) + 2 :]
    assert {one["spanId"] for one in again} >= {one["spanId"] for one in first}


def test_what_was_not_accepted_is_sent_by_the_next_run(rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback([Reply(503), Reply(200, b"{}")]) as server:
        monkeypatch.setenv(otel.ENDPOINT, server.url)
        assert otel.main([]) == cli.STOPPED
        assert otel.main([]) == cli.OK
        assert len(server.requests) == 4


def test_an_endpoint_that_is_away_is_exit_3_and_one_that_refuses_exit_2(
    rows: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv(otel.ENDPOINT, f"http://127.0.0.1:{free.getsockname()[1]}")
    assert otel.main([]) == cli.STOPPED
    with Loopback([Reply(401)]) as server:
        monkeypatch.setenv(otel.ENDPOINT, server.url)
        assert otel.main([]) == cli.BAD_INPUT
    assert "answered with 401" in capsys.readouterr().err


def test_headers_of_the_environment_go_along_and_no_text_does(
    rows: None, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(otel.HEADERS, "Authorization=Basic%20abc,x-project=rivers")
    otel.main(["--quiet"])
    asked: list[Request] = list(server.requests)
    assert {one.headers["authorization"] for one in asked} == {"Basic abc"}
    assert {one.headers["x-project"] for one in asked} == {"rivers"}
    assert not any(b"How high is the water" in one.body for one in asked)


@pytest.mark.parametrize(
    ("name", "value"), [(otel.ENDPOINT, ""), (otel.ENDPOINT, "localhost:4318"), (otel.HEADERS, "nonsense")]
)
def test_a_bad_setting_is_one_line(
    name: str,
    value: str,
    server: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert otel.main([]) == cli.BAD_INPUT
    told = capsys.readouterr().err
    assert name in told
    assert told.count("\n") == 1


def test_a_broken_memory_of_what_was_sent_sends_again(rows: None, server: Loopback, root: Path) -> None:
    otel.main(["--quiet"])
    count = len(taken(server, "traces"))
    world.put(root, otel.SENT, json.dumps(["nonsense"]))
    otel.main(["--quiet"])
    assert len(taken(server, "traces")) == 2 * count
