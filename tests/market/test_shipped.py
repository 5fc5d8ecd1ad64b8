"""What ships works, whoever is champion and whoever is disabled: it loads, runs, is graded and can be told apart."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from agents import orchestrator
from agents.manifest import load_manifest
from agents.market import DOMAIN, live, snapshot
from eval import harness
from telemetry.edge import cli
from telemetry.edge.files import Repo
from tests.conftest import REPOSITORY
from tests.market.kit import AGENTS, rules, shipped
from tests.worlds import world
from tests.worlds.loopback import Loopback, Reply


def only(*agents: str) -> list[str]:
    return [word for name in agents for word in ("--agent", name)]


def test_the_manifest_loads_and_knows_every_agent_of_the_example() -> None:
    manifest = load_manifest(Repo(REPOSITORY))
    assert {*AGENTS, "reviewer", "meta_agent"} <= {spec.name for spec in manifest.agents}
    assert all(spec.timeout_s > 0 for spec in manifest.agents)
    targets = {target for critic, target in manifest.critique_pairs if critic == "reviewer"}
    assert targets == {spec.name for spec in manifest.agents} - {"reviewer"}
    assert {spec.inputs for spec in manifest.agents} >= {*DOMAIN.inputs, "outputs", "findings"}


def test_the_agents_run_offline_on_every_kind_of_day(root: Path) -> None:
    shipped(root, fixed=False)
    for day in ("2026-03-16", "2026-07-06", "2026-10-30"):
        assert orchestrator.main(["--as-of", day, "--quiet"]) == cli.OK
    assert not [row for row in world.rows(root, "run") if row["error"]]
    assert {row["provider"] for row in world.rows(root, "llm_call")} == {"offline"}


def test_a_replay_sees_nothing_of_the_future(root: Path) -> None:
    shipped(root)
    arguments = ["--replay", "10", "--quiet", *only("macro_watcher", "geopolitical_risk")]

    def replayed() -> dict[tuple[str, str], tuple[str, str]]:
        assert orchestrator.main(arguments) == cli.OK
        runs = world.rows(root, "run")
        return {(row["agent"], row["as_of"]): (row["input_hash"], row["signals"]) for row in runs}

    before = replayed()
    lines = (root / snapshot.SAMPLE).read_text().splitlines()
    for index in range(len(lines) - 5, len(lines)):
        day = json.loads(lines[index])
        day["macro"] = {name: 3 * (value or 1) for name, value in day["macro"].items()}
        day["headlines"] = [["09:00", "Wire", "Missiles hit oil terminal in Iran; crude loading halted"]]
        lines[index] = json.dumps(day)
    world.put(root, snapshot.SAMPLE, "\n".join(lines) + "\n")
    (root / "telemetry/events.jsonl").unlink()
    after = replayed()
    changed = {day for (agent, day) in before if before[agent, day] != after[agent, day]}
    assert changed == set(snapshot.Snapshot(REPOSITORY / snapshot.SAMPLE).days()[-5:])


class Venue:
    def __init__(self, name: str) -> None:
        self.name = name

    def load_markets(self) -> dict[str, Any]:
        return {"BTC/USD": {"taker": 0.001}}

    def fetch_order_book(self, symbol: str, limit: int) -> dict[str, Any]:
        return {"bids": [[1.0, 1.0]], "asks": [[2.0, 1.0]], "timestamp": None}


def test_a_live_feed_that_fails_costs_nobody_elses_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped(root)
    monkeypatch.setattr(live, "ccxt_exchange", lambda: Venue)
    with Loopback([Reply(500)]) as server:
        monkeypatch.setenv("RATCHET_FRED_URL", server.origin)
        arguments = ["--source-mode", "live", "--quiet", *only("arbitrage_finder", "vix_echo")]
        assert orchestrator.main(arguments) == cli.OK
    kinds = {row["agent"]: row["error_kind"] for row in world.rows(root, "run")}
    assert kinds == {"arbitrage_finder": None, "vix_echo": "source"}
    assert "HTTP 500" in json.loads((root / "agents/outputs/vix_echo.json").read_text())["error"]


def outcomes_of(root: Path, *agents: str) -> dict[str, list[Any]]:
    """Every agent's outcome, case by case, on half of its suite."""
    assert harness.main(["--quiet", "--split", "tune", *only(*agents)]) == cli.OK
    found = {name: json.loads((root / f"eval/results/{name}.json").read_text()) for name in agents}
    return {
        name: [(row["id"], row["score"], row["output"]) for row in stored["results"]]
        for name, stored in found.items()
    }


@pytest.mark.answers
def test_one_word_in_one_agents_rules_moves_that_agents_scores_and_no_others(root: Path) -> None:
    shipped(root)
    agents = ("macro_watcher", "geopolitical_risk", "arbitrage_finder")
    before = outcomes_of(root, *agents)
    text = rules("arbitrage_finder")
    assert text.count("profit_basis: net") == 1
    world.put(root, "agents/prompts/arbitrage_finder.md", text.replace("basis: net", "basis: gross"))
    after = outcomes_of(root, *agents)
    assert [name for name in agents if before[name] != after[name]] == ["arbitrage_finder"]
    graded = [sum(score for _, score, _ in found["arbitrage_finder"]) for found in (before, after)]
    assert graded[1] < graded[0]


@pytest.mark.slow
def test_the_sample_tells_useful_agents_from_the_echo(root: Path) -> None:
    """What a first night's retirement stands on: alerts that beat the base rate, and one agent not worth its keep."""
    shipped(root)
    assert orchestrator.main(["--replay", "130", "--quiet", *only(*AGENTS)]) == cli.OK
    runs = world.rows(root, "run")
    assert len(runs) == 4 * 130
    assert not [row for row in runs if row["error"]]
    outcomes = [
        json.loads(line) for line in (REPOSITORY / "telemetry/outcomes.jsonl").read_text().splitlines()
    ]
    events = {
        (row["date"], row.get("series") or row.get("region")): row["event"]
        for row in outcomes
        if "event" in row
    }
    fills = {
        (row["date"], f"{row['symbol']}:{row['buy_venue']}>{row['sell_venue']}"): row["filled"]
        for row in outcomes
        if row["kind"] == "fill"
    }

    def said(agent: str) -> set[tuple[str, str]]:
        return {
            (row["as_of"], key) for row in runs if row["agent"] == agent for key in row["signals"].split()
        }

    def reward(agent: str) -> list[float]:
        return [row["reward"] for row in runs if row["agent"] == agent]

    for agent in ("macro_watcher", "geopolitical_risk"):
        alerts = {(day, key.split(":")[0]) for day, key in said(agent)} & events.keys()
        base = [event for (_, subject), event in events.items() if subject in {name for _, name in alerts}]
        assert sum(events[alert] for alert in alerts) / len(alerts) > 1.2 * sum(base) / len(base)
    named = said("arbitrage_finder")
    assert named <= fills.keys(), "what crosses has an outcome"
    assert sum(fills[one] for one in named) / len(named) > 0.7
    for agent in ("macro_watcher", "geopolitical_risk", "arbitrage_finder"):
        assert mean(reward(agent)) > 0.05
    echo = reward("vix_echo")
    assert mean(echo) + 2 * stdev(echo) / len(echo) ** 0.5 < 0.05
