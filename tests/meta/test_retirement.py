"""Retirement: evidence, not a low mean; joined on the manifest's names; the tree touched only when asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.manifest import MANIFEST, load_manifest
from meta import retirement
from meta.publish.contents import check_body
from meta.worth import assessment
from meta.worth.report import FORM, Agent, Hits, Listed, Measured, Report, Rule, Unique, markdown, spark
from telemetry.edge.errors import BadInput
from telemetry.edge.files import here, write_atomic
from telemetry.edge.records import made, plain
from telemetry.logger import log_event
from tests.worlds import toy as rivers

pytestmark = pytest.mark.usefixtures("toy")


def switch_off(agent: str) -> None:
    """What a person does in an editor."""
    write_atomic(here() / MANIFEST, retirement.switch(here(), [agent], enabled=False))


def runs(agent: str, rewards: list[float | None], **fields: Any) -> Iterator[dict[str, Any]]:
    for day, value in enumerate(rewards):
        yield {
            "agent": agent,
            "ts": f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T06:00:00.000Z",
            "source": "runtime",
            "reward": value,
            "scoring_version": "1.0",
            "cost_usd": 0.0,
            "signal_strength": value,
            "error_kind": None,
            "signals": "",
            **fields,
        }


def states(events: list[dict[str, Any]], **limits: Any) -> dict[str, str]:
    manifest = load_manifest(here())
    return {row.agent: row.state for row in retirement.assess(manifest, events, **limits)}


@pytest.mark.parametrize(
    ("rewards", "state"),
    [
        ([0.0] * 100, "candidate"),
        ([0.0] * 99, "too_few_runs"),
        ([0.04] * 200, "probation"),  # the mean is low, but 200 runs do not yet prove it
        ([0.0] * 97 + [1.0] * 3, "probation"),
        ([0.3] * 150, "active"),
    ],
)
def test_a_candidate_needs_runs_and_a_bound_below_the_floor(rewards: list[float], state: str) -> None:
    assert states(list(runs("gauge_echo", rewards)))["gauge_echo"] == state


def test_silent_agents_and_unknown_names_are_reported_never_skipped() -> None:
    told = states(list(runs("GaugeEcho", [0.0] * 120)))
    assert told["GaugeEcho"] == "not_in_manifest"
    assert told["gauge_echo"] == "no_telemetry"
    assert set(told) > {"flood_watch", "gauge_echo", "reviewer", "meta_agent"}


def test_infrastructure_failures_are_not_held_against_an_agent() -> None:
    outage = list(runs("gauge_echo", [None] * 300, error_kind="provider"))
    assert states(outage)["gauge_echo"] == "no_telemetry"
    own = list(runs("gauge_echo", [None] * 120, error_kind="parse"))
    assert states(own)["gauge_echo"] == "candidate"


def test_scoring_versions_are_never_averaged_together() -> None:
    old = list(runs("gauge_echo", [0.9] * 120, scoring_version="0.9"))
    new = list(runs("gauge_echo", [0.0] * 110))
    measured = retirement.rolling_metrics(old + new, window=500)["gauge_echo"]
    assert (measured["n"], measured["rolling_avg_reward"], measured["scoring_version"]) == (110, 0.0, "1.0")
    assert measured["other_version_runs"] == 120


def test_only_the_last_window_counts() -> None:
    measured = retirement.rolling_metrics(runs("a", [1.0] * 50 + [0.0] * 30), window=30)["a"]
    assert (measured["n"], measured["rolling_avg_reward"]) == (30, 0.0)


def test_unique_share_leaves_one_out_by_day() -> None:
    def said(agent: str, day: str, *keys: str) -> dict[str, Any]:
        return {"agent": agent, "ts": f"{day}T06:00:00.000Z", "signals": " ".join(keys)}

    shares = assessment.unique_shares(
        [
            said("watch", "2026-03-02", "Elm:rising", "Oak:rising"),
            said("echo", "2026-03-02", "Elm:rising"),
            said("echo", "2026-03-03", "Elm:rising"),
            {
                "agent": "watch",
                "ts": "2026-11-16T00:00:00Z",
                "as_of": "2026-03-03",
                "signals": "Elm:rising",
            },
        ]
    )
    assert shares["echo"] == Unique(2, 0, 0.0)
    assert shares["watch"].unique_signals == 1


def test_hit_rate_and_lift_by_hand() -> None:
    outcomes: list[dict[str, Any]] = [
        {"date": f"2026-03-{day:02d}", "gauge": "Elm", "flood": day in (2, 3)} for day in range(2, 12)
    ]
    outcomes.append({"date": "2026-03-02", "gauge": "Elm"})  # nothing that could come true
    alerts = [
        {"agent": "m", "ts": f"2026-03-{day:02d}T06:00:00Z", "signals": "Elm:rising Oak:rising"}
        for day in (2, 3, 4, 5)
    ]
    hit = assessment.hits(alerts, outcomes, rivers.came_true)
    assert hit is not None
    assert (hit.alerts, hit.hit_rate, hit.base_rate) == (4, 0.5, 0.2)
    assert hit.lift == pytest.approx(2.5)
    assert hit.hit_rate_interval == pytest.approx([0.15, 0.85], abs=0.01)


def test_the_report_has_the_columns_of_the_domain_and_no_others(toy: Path) -> None:
    log_silence("gauge_echo", 7)
    assert retirement.main(["--quiet"]) == 0
    body = (toy / "meta/reports/retirement_report.md").read_text()
    assert "quiet days" in body and "fill rate" not in body
    report = json.loads((toy / "meta/reports/retirement_report.json").read_text())
    (row,) = [row for row in report["agents"] if row["agent"] == "gauge_echo"]
    assert row["quiet"] == {"quiet_days": 7}


def test_a_retired_agent_that_recovered_in_shadow_is_proposed_for_revival(toy: Path) -> None:
    switch_off("gauge_echo")
    manifest = load_manifest(here())
    rows = retirement.assess(manifest, list(runs("gauge_echo", [0.6, 0.7] * 60, source="shadow")))
    assert {row.agent: row.state for row in rows}["gauge_echo"] == "revival"
    assert retirement.assess(manifest, [])[-1].state in {"retired", "no_telemetry"}


def test_disable_changes_one_line_and_keeps_every_comment(toy: Path) -> None:
    before = (toy / "agents/manifest.yaml").read_text().splitlines()
    switch_off("gauge_echo")
    after = (toy / "agents/manifest.yaml").read_text().splitlines()
    added = [line for line in after if line not in before]
    assert [line.strip() for line in added] == ["enabled: false"]
    assert [line for line in after if line != added[0]] == before
    assert not load_manifest(here()).agent("gauge_echo").enabled


def log_silence(agent: str, n: int) -> None:
    for _ in range(n):
        log_event(agent, "r", 1.0, cost_usd=0.0, reward=0.0, provider="offline", signals="")


def test_report_only_by_default_and_disable_writes_a_decision(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_silence("gauge_echo", 120)
    log_silence("flood_watch", 120)
    manifest = (toy / "agents/manifest.yaml").read_text()
    assert retirement.main([]) == 0
    assert (toy / "agents/manifest.yaml").read_text() == manifest
    report = json.loads((toy / "meta/reports/retirement_report.json").read_text())
    assert {row["agent"] for row in report["candidates"]} == {"gauge_echo", "flood_watch"}
    assert {"agent", "module", "rolling_avg_reward", "n"} <= report["candidates"][0].keys()
    body = (toy / "meta/reports/retirement_report.md").read_text()
    assert "offline model" in body.splitlines()[2] and "▁" in body
    capsys.readouterr()

    assert retirement.main(["--disable", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["disabled"] == ["gauge_echo"]
    assert load_manifest(here()).agent("flood_watch").enabled  # execution_sensitive
    assert not load_manifest(here()).agent("gauge_echo").enabled
    (decision,) = (toy / "meta/decisions").glob("*-retirement-gauge_echo.json")
    assert json.loads(decision.read_text())["decision"] == "disable"
    assert [row["agent"] for row in retirement.retire_candidates()] == ["flood_watch"]


def test_eval_rows_do_not_count_unless_asked(toy: Path) -> None:
    for _ in range(120):
        log_event("gauge_echo", "r", 1.0, cost_usd=0.0, reward=0.0, source="eval")
    assert retirement.retire_candidates() == []
    retirement.main(["--source", "eval", "--quiet"])
    report = json.loads((toy / "meta/reports/retirement_report.json").read_text())
    assert [row["agent"] for row in report["candidates"]] == ["gauge_echo"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--min-n", "0"], "--min-n 0: must be at least 1"),
        (["--source", "evals"], "--source evals: allowed are runtime"),
        (["--outcomes", "nowhere.jsonl"], "--outcomes nowhere.jsonl: no such file"),
    ],
)
def test_bad_flags_are_one_line(
    toy: Path, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert retirement.main(argv) == 2
    assert said in capsys.readouterr().err


def test_a_broken_outcomes_line_is_named(root: Path) -> None:
    (root / "telemetry/outcomes.jsonl").write_text('{"date": "2026-03-02"}\n{"date": 3}\n')
    with pytest.raises(BadInput, match="line 2: date: must be a string"):
        assessment.load_outcomes(here())


def test_a_hostile_agent_name_in_the_telemetry_stays_text() -> None:
    manifest = load_manifest(here())
    rows = retirement.assess(manifest, list(runs("@everyone <script>|x", [0.1] * 3)))
    body = markdown(report(rows))
    assert "@everyone" not in body and "<script>" not in body


def report(rows: Sequence[Agent], disable: bool = False) -> Report:
    candidates = tuple(row for row in rows if row.state == "candidate")
    rule = Rule(100, 0.05, 200, ("runtime",), 0.2)
    disabled = tuple(row.agent for row in candidates) if disable else ()
    return Report("2026-11-16T04:13:00Z", rule, candidates, tuple(rows), disabled, False)


def crowd(candidates: int, agents: int) -> list[Agent]:
    """So many agents, as much said about each as can be."""
    measured = Measured(-0.123, "1.0", 3, 4, 1.5, 2, 40, None)
    listed = Listed(True, Hits(200, 0.5, (0.4, 0.6), 0.2, 2.5, (2.0, 3.0)))
    state = ["candidate"] * candidates + ["not_in_manifest"] * (agents - candidates)
    return [
        Agent(
            f"{number:04}-{'x' * 55}",
            "m",
            where,
            200,
            -0.2,
            (0.1,) * 40,
            measured,
            listed,
            Unique(9, 3, 1 / 3),
            {},
        )
        for number, where in enumerate(state)
    ]


@pytest.mark.parametrize(
    ("candidates", "disable"), [(55, False), (100, False), (100, True), (500, True), (0, False)]
)
def test_a_body_about_hundreds_of_agents_is_one_that_may_be_published(candidates: int, disable: bool) -> None:
    body = markdown(report(crowd(candidates, 500), disable), rivers.DOMAIN.columns)
    assert list(check_body(body.encode())) == []
    assert "the upper 95 % bound of its mean reward" in body and "And 350 more agents" in body


def test_a_report_survives_its_file_and_the_same_goes_in_by_write_report(toy: Path) -> None:
    rows = [
        *crowd(2, 3),
        Agent("silent", "m", "no_telemetry", 0, None, (), None, Listed(False, None), Unique(), {}),
    ]
    whole = report([*rows, Agent("stranger", None, "not_in_manifest", 3, 0.1, (0.1,), rows[0].measured)])
    retirement.write_report(plain(whole))
    assert FORM.read(here()) == made(Report, plain(whole))
    silent, stranger = json.loads((toy / FORM.path).read_text())["agents"][-2:]
    assert "upper_bound" not in silent and silent["signals"] == 0
    assert "signals" not in stranger and stranger["useful_runs"] == 40
    retirement.write_report(plain(whole), toy / "elsewhere.json")
    assert (toy / "elsewhere.md").read_bytes() == (toy / FORM.markdown).read_bytes()


def test_sparklines_are_zero_based() -> None:
    assert spark([0.0, 0.5, 1.0]) == "▁▄█"
    assert spark([0.0, 0.01]) == "▁▁"
