"""An agent of which nobody says what a signal is: judged by its suite and its cost, never by a constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.domain import signals_of, subject_and_event
from agents.manifest import AgentSpec, Feed, Manifest, Signal
from agents.sources.outcomes import load_outcomes
from meta.worth.assessment import Graded, assess
from meta.worth.evidence import Known
from meta.worth.record import Agent
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.reward import Signals, signal_strength
from tests.worlds import world

OUTPUT = [{"id": "T-1", "label": "billing", "urgency": 4}]


def ran(number: int, cost: float = 0.0, **fields: Any) -> dict[str, Any]:
    """A run that came through and has no reward."""
    day = f"2026-{1 + number // 28:02}-{1 + number % 28:02}"
    return {
        "agent": "triage",
        "as_of": day,
        "cost_usd": cost,
        "latency_ms": 40.0,
        "error_kind": None,
    } | fields


def judged(passed: int | None, empty: float = 0.0, days: int = 200, **fields: Any) -> Agent:
    spec = AgentSpec("triage", "m", "f", "file:data/tickets.csv", feed=Feed(file="data/tickets.csv"))
    graded = None if passed is None else Graded(passed, 150, empty)
    events = [ran(number, **fields) for number in range(days)]
    (row,) = assess(Manifest((spec,), {}), events, grades=lambda agent: graded)
    return row


def test_who_passes_every_case_is_active_whatever_its_output_looks_like() -> None:
    row = judged(150)
    assert (row.state, row.rolling_avg_reward) == ("active", None)
    assert row.measured and (row.measured.basis, row.measured.useful_runs) == ("pass_rate", None)


def test_who_passes_a_third_earns_its_keep_too() -> None:
    assert judged(50).state == "active"


def test_who_passes_no_more_than_silence_is_a_candidate() -> None:
    assert judged(0).state == "candidate"
    assert judged(75, empty=0.6).state == "candidate"


def test_who_costs_more_than_it_passes_is_a_candidate() -> None:
    assert judged(150, cost=1.0).state == "candidate"


def test_runs_that_it_broke_itself_are_worth_nothing() -> None:
    assert judged(0, error_kind="agent", error="x").state == "candidate"


def test_without_a_graded_suite_nobody_is_judged() -> None:
    assert judged(None).state == "ungraded"


@pytest.mark.parametrize(
    ("signal", "output", "strength"),
    [
        (Signal("urgency", 5.0), OUTPUT, 0.8),
        (Signal("urgency", 5.0), [], 0.0),
        (Signal("urgency", 5.0), [{"id": "T-1", "signal": "up"}], 0.0),
        (Signal("|change|", 2.0), [{"change": -1.0}], 0.5),
        (Signal(call="tests.meta.test_worth:share"), OUTPUT * 3, 0.3),
        (None, OUTPUT, None),
        (None, [], None),
        (None, [{"signal": "up"}], None),
        (None, [{"risk_score": 40}], 0.4),
    ],
)
def test_a_signal_is_what_the_manifest_says(
    signal: Signal | None, output: list[Any], strength: float | None
) -> None:
    spec = AgentSpec("triage", "m", "f", "records", signal=signal)
    assert signals_of(spec).strength(output) == strength


def share(items: list[Any]) -> float:
    return len(items) / 10


def test_signals_of_another_kind_are_another_scoring_version() -> None:
    ways = (Signal("urgency", 5.0), Signal("urgency", 4.0), Signal(call="tests.meta.test_worth:share"))
    versions = {signals_of(AgentSpec("a", "m", "f", "records", signal=one)).version() for one in ways}
    assert len(versions | {Signals().version()}) == 4


def test_a_domain_weighs_what_it_knows_and_nothing_else() -> None:
    assert Signals().strength([{"risk_score": 40}]) == 0.4
    assert Signals().strength([]) == 0.0
    assert Signals().strength(OUTPUT) is None
    assert Signals().strength([{"subject": "VIX", "signal": "up"}]) == 0.1, "it has a name for that"
    assert signal_strength("triage", OUTPUT) == 0.1, "what a caller gets who must have a number"


def test_an_item_is_about_its_subject() -> None:
    spec = AgentSpec("triage", "m", "f", "records", signal=Signal("urgency", 5.0, subject="label"))
    assert signals_of(spec).keys(OUTPUT) == "billing:urgency"


def outcomes() -> list[dict[str, Any]]:
    return [{"date": "2026-03-02T09:00:00Z", "subject": "billing", "event": True}]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("data/true.csv", "date,subject,event\n2026-03-02,billing,yes\n"),
        ("data/true.jsonl", '{"date": "2026-03-02", "subject": "billing", "event": true}\n'),
    ],
)
def test_what_came_true_stands_in_a_file_of_ones_own(root: Path, path: str, text: str) -> None:
    world.put(root, path, text)
    found = [{"date": "2026-03-02", "subject": "billing", "event": True}]
    assert load_outcomes(Repo(root), None, Feed(file=path)) == found
    assert load_outcomes(Repo(root), None, Feed(call="tests.meta.test_worth:outcomes")) == found


def test_a_mistake_in_outcomes_names_row_and_field(root: Path) -> None:
    world.put(root, "data/true.csv", "date,subject,event\n2026-03-02,billing,maybe\n")
    with pytest.raises(
        BadInput, match=r"outcomes: data/true\.csv: row 1: event: must be true or false, not 'maybe'"
    ):
        load_outcomes(Repo(root), None, Feed(file="data/true.csv"))


def test_claims_about_things_that_come_once_are_bets_at_the_rate_of_all_of_them() -> None:
    """Each ticket is one of its own: alone, its base rate would be what became of it, and no claim worth anything."""
    rows = [{"date": "2026-03-02", "subject": f"T-{n}", "event": n < 5} for n in range(20)]
    assert set(Known.of(rows, subject_and_event).base.values()) == {0.25}
