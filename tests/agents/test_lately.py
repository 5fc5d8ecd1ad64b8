"""What a reviewer is told of an agent's last nights, and of those before."""

from __future__ import annotations

from agents.run.order import BEFORE, RECENT, Standing, standings
from telemetry import logger
from telemetry.edge.files import here


def night(latency_ms: float = 10.0, agent: str = "macro_watcher", **fields: object) -> None:
    logger.log_event(agent, logger.new_run_id(), latency_ms, **{"cost_usd": 0.001} | fields)  # type: ignore[arg-type]


def test_the_last_runs_stand_against_those_before() -> None:
    for latency in [9000.0] * 5 + [100.0] * BEFORE + [700.0] * RECENT:
        night(latency)
    standing = standings(here())["macro_watcher"]
    assert standing.telemetry == {
        "count": RECENT, "error_rate": 0.0, "p95_latency_ms": 700.0, "avg_cost_usd": 0.001, "avg_reward": None,
    }  # fmt: skip
    assert standing.baseline["count"] == BEFORE
    assert standing.baseline["p95_latency_ms"] == 100.0, "what is older still has gone out of sight"


def test_without_history_there_is_nothing_to_compare() -> None:
    assert standings(here()) == {}
    night()
    assert standings(here())["macro_watcher"].baseline == Standing().baseline


def test_only_real_nights_count_and_outages_are_nobodys_fault() -> None:
    with logger.source("replay"):
        night(error="broke")
    with logger.source("eval"):
        night(error="broke")
    night(error="no answer", error_kind="provider")
    night(error="broke")
    night()
    assert standings(here())["macro_watcher"].telemetry["count"] == 2
    assert standings(here())["macro_watcher"].telemetry["error_rate"] == 0.5


def test_an_unknown_cost_is_left_out_and_scoring_versions_are_not_mixed() -> None:
    night(cost_usd=None, reward=0.5, scoring_version="1.0")
    night(cost_usd=0.004, reward=0.1, scoring_version="2.0")
    night(agent="vix_echo", reward=0.5, scoring_version="1.0")
    found = standings(here())
    assert found["macro_watcher"].telemetry["avg_cost_usd"] == 0.004
    assert found["macro_watcher"].telemetry["avg_reward"] is None
    assert found["vix_echo"].telemetry["avg_reward"] == 0.5
