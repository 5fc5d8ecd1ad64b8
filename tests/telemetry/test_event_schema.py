"""Every line that a night writes fits telemetry/event.schema.json, whatever goes wrong in that night."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents import orchestrator
from eval import harness
from meta import critique_loops
from telemetry import logger, rollup
from telemetry.edge import cli
from tests.conftest import REPOSITORY
from tests.worlds import toy as rivers
from tests.worlds import world
from tests.worlds.loopback import Loopback, Reply, chat, error

CHECK = Draft202012Validator(json.loads((REPOSITORY / "telemetry/event.schema.json").read_text()))


def checked(root: Path) -> Counter[tuple[str, str]]:
    """How many rows of which kind and source there are; every one of them has been held to the schema."""
    seen: Counter[tuple[str, str]] = Counter()
    for line in (root / logger.LOG_PATH).read_bytes().splitlines():
        row: dict[str, Any] = json.loads(line)
        CHECK.validate(row)
        seen[row["kind"], row["source"]] += 1
    assert rollup.rollup(0)["malformed_lines"] == 0
    return seen


def test_an_offline_night(toy: Path) -> None:
    world.change(toy, "gauge_echo", enabled=False)
    assert orchestrator.main(["--quiet", "--replay", "2"]) == cli.OK
    assert orchestrator.main(["--quiet"]) == cli.OK
    assert orchestrator.main(["--quiet", "--shadow"]) == cli.OK
    assert harness.main(["--quiet", "--agent", "meta_agent", "--max-calls", "20"]) in (
        cli.OK,
        cli.STOPPED,
    )
    assert critique_loops.main(["--quiet"]) == cli.OK
    seen = checked(toy)
    assert {source for _, source in seen} == {"replay", "runtime", "shadow", "eval", "critique"}
    assert {kind for kind, _ in seen} == {"run", "llm_call", "evaluation"}


@pytest.mark.parametrize(
    "reply",
    [
        chat("no JSON at all"),
        chat('{"items": []}', usage=None),
        chat("x" * 9000),
        error(401, "wrong key"),
        error(400, "x" * 5000),
        Reply(fault="reset"),
        Reply(fault="hang"),
    ],
    ids=["prose", "no usage", "long", "wrong key", "long error", "reset", "hang"],
)
def test_a_night_with_an_endpoint_that_fails(
    reply: Reply, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Loopback([reply]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        orchestrator.main(["--quiet", "--timeout-s", "0.5"])
    assert checked(toy)["llm_call", "runtime"] >= 2


def test_a_night_without_its_source(toy: Path) -> None:
    (toy / rivers.SAMPLE).unlink()
    assert orchestrator.main(["--quiet"]) == cli.STOPPED
    assert checked(toy)["run", "runtime"] == 3, "two error rows, and a meta agent with nothing to do"


def test_a_cut_error_is_marked(root: Path) -> None:
    logger.log_event("flood_watch", "r1", 1.0, error="x" * 5000)
    (line,) = (root / logger.LOG_PATH).read_bytes().splitlines()
    row = json.loads(line)
    assert (len(row["error"]), row["error_truncated"]) == (1000, True)
    CHECK.validate(row)
