"""Retirement: evidence, not a low mean; joined on the manifest's names; the tree touched only when asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.manifest import MANIFEST, load_manifest
from agents.sources.outcomes import load_outcomes
from eval.ledger.refusals import Refusal, record
from meta import retirement
from meta.publish.contents import check_body
from meta.pulls.closed import prompt_of
from meta.worth import assessment, evidence
from meta.worth.assessment import Graded
from meta.worth.evidence import Known
from meta.worth.record import Agent, Hits, Listed, Measured, Report, Rule, Unique
from meta.worth.report import FORM, REVIVAL, markdown, spark
from telemetry import rollup
from telemetry.edge.errors import BadInput
from telemetry.edge.files import here, write_atomic
from telemetry.edge.records import made, plain
from telemetry.logger import log_event
from tests.worlds import toy as rivers
from tests.worlds.eventlog import day, event, line, write

pytestmark = pytest.mark.usefixtures("toy")


def switch_off(agent: str) -> None:
    """What a person does in an editor."""
    write_atomic(here() / MANIFEST, retirement.switch(here(), [agent], enabled=False))


def runs(agent: str, rewards: Sequence[float | None], **fields: Any) -> Iterator[dict[str, Any]]:
    """One run a day."""
    for number, value in enumerate(rewards):
        yield {
            "agent": agent,
            "ts": f"{day(number)}T06:00:00.000Z",
            "source": "runtime",
            "reward": value,
            "scoring_version": "1.0",
            "cost_usd": 0.0,
            "signal_strength": value,
            "error_kind": None,
            "signals": "",
            **fields,
        }


def states(events: Sequence[Mapping[str, Any]], *given: Any, **limits: Any) -> dict[str, str]:
    manifest = load_manifest(here())
    return {row.agent: row.state for row in retirement.assess(manifest, events, *given, **limits)}


@pytest.mark.parametrize(
    ("rewards", "state"),
    [
        ([0.0] * 100, "candidate"),
        ([0.0] * 99, "too_few_runs"),
        ([0.04] * 200, "probation"),  # the mean is low, but 200 days do not yet prove it
        ([0.0] * 97 + [1.0] * 3, "probation"),
        ([0.3] * 150, "active"),
        ([0.3] * 95 + [0.0] * 100, "candidate"),  # it was good once
    ],
)
def test_a_candidate_needs_days_and_evidence_against_the_floor(rewards: list[float], state: str) -> None:
    assert states(list(runs("gauge_echo", rewards)))["gauge_echo"] == state


def test_four_runs_of_a_day_are_one_observation() -> None:
    once, often = list(runs("gauge_echo", [0.0, 0.2] * 30)), list(runs("gauge_echo", [0.0, 0.2] * 30)) * 4
    for events, count in ((once, 60), (often, 240)):
        measured = retirement.rolling_metrics(events, floor=0.5)["gauge_echo"]
        assert (measured["n"], measured["runs"]) == (60, count)
        assert measured["odds"] == pytest.approx(
            retirement.rolling_metrics(once, floor=0.5)["gauge_echo"]["odds"]
        )


def test_a_hundred_copies_of_one_run_are_one_run(toy: Path) -> None:
    for number in range(100):
        same = {"input_hash": "0123456789ab", "prompt_hash": "ba9876543210", "as_of": day(number)}
        log_event("gauge_echo", "r", 1.0, cost_usd=0.0, reward=0.0, **same)
    (row,) = retirement.load_events()
    assert row["runs"] == 1
    assert states(retirement.load_events())["gauge_echo"] == "too_few_runs"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from([None, "a", "b"]),
            st.sampled_from([0.0, 0.25, 1.0]),
            st.booleans(),
        ),
        min_size=1,
        max_size=30,
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_loaded_is_what_the_rows_themselves_say(
    toy: Path, drawn: list[tuple[int, str | None, float, bool]]
) -> None:
    rows = [
        event(
            agent="gauge_echo",
            ts=f"2026-10-01T00:00:{at:02d}.000Z",
            as_of=day(number),
            input_hash=hashed,
            reward=None if failed else reward,
            signal_strength=reward,
            error_kind="parse" if failed else None,
            scoring_version=None if failed else "1.0",
        )
        for at, (number, hashed, reward, failed) in enumerate(drawn)
    ]
    write(*(line(**row) for row in rows))
    loaded = retirement.rolling_metrics(retirement.load_events())["gauge_echo"]
    plainly = retirement.rolling_metrics(rows)["gauge_echo"]
    for name in ("n", "runs", "own_failures", "useful_runs", "longest_silence"):
        assert loaded[name] == plainly[name], name
    assert loaded["rewards"] == pytest.approx(plainly["rewards"])


def test_the_summary_and_the_report_tell_one_reward(toy: Path) -> None:
    for number in range(40):
        for reward in (0.1, 0.5, 0.6)[: 1 + number % 3]:
            log_event("gauge_echo", "r", 1.0, cost_usd=0.0, reward=reward, as_of=day(number), source="replay")
        log_event("gauge_echo", "r", 1.0, cost_usd=0.0, reward=0.9, source="eval")
    for _ in range(200):
        log_event("flood_watch", "r", 1.0, cost_usd=0.0, reward=0.9, source="ab_test")
    log_event("gauge_echo", "r", 1.0, cost_usd=0.0, error="x", error_kind="timeout")
    log_event("gauge_echo", "r", 1.0, cost_usd=0.0, error="x", error_kind="parse", as_of=day(3))
    retirement.main(["--quiet"])
    (row,) = [row for row in FORM.read(here()).agents if row.agent == "gauge_echo"]
    for last_n in (0, 260):  # the second leaves out most of its runs, but for the trials of another
        summary = rollup.rollup(last_n)
        assert summary["by_agent"]["gauge_echo"]["avg_reward"] == pytest.approx(row.rolling_avg_reward)


def alarms(reward: float, days: int, signals: str = "Elm:rising") -> list[dict[str, Any]]:
    return list(runs("gauge_echo", [reward] * days, signals=signals, signal_strength=reward))


def floods(days: int, when: Callable[[int], bool]) -> list[dict[str, Any]]:
    return [{"date": day(number), "gauge": "Elm", "flood": when(number)} for number in range(days)]


def test_who_cries_wolf_every_day_is_loud() -> None:
    assert states(alarms(0.9, 120))["gauge_echo"] == "active", "nothing is known yet"
    assert states(alarms(0.9, 120), floods(120, lambda number: number % 5 == 0))["gauge_echo"] == "loud"
    assert states(alarms(0.9, 120), floods(50, lambda number: number % 5 == 0))["gauge_echo"] == "active"


def test_settled_reward_decides_once_half_the_runs_are_settled() -> None:
    """It speaks one day in four, and is always wrong."""
    events = [
        run if number % 4 else {**run, "signals": "Elm:rising", "reward": 0.9, "signal_strength": 0.9}
        for number, run in enumerate(runs("gauge_echo", [0.0] * 140))
    ]
    dry = floods(140, lambda number: number % 4 == 1)
    assert states(events)["gauge_echo"] == "active"
    assert states(events, dry[:69])["gauge_echo"] == "active"
    manifest = load_manifest(here())
    (row,) = [row for row in retirement.assess(manifest, events, dry) if row.agent == "gauge_echo"]
    assert row.measured is not None and row.measured.settled_reward is not None
    assert (row.state, row.measured.basis) == ("candidate", "settled_reward")
    assert row.measured.settled_reward < 0 < (row.rolling_avg_reward or 0)


@pytest.mark.parametrize(
    ("graded", "state", "basis"),
    [
        (None, "candidate", "reward"),
        (Graded(58, 100, 0.58), "candidate", "reward_and_pass_rate"),
        (Graded(90, 100, 0.58), "probation", "reward_and_pass_rate"),
    ],
)
def test_without_outcomes_a_suite_passed_by_more_than_silence_vouches_for_an_agent(
    graded: Graded | None, state: str, basis: str
) -> None:
    events, manifest = list(runs("gauge_echo", [0.0] * 120)), load_manifest(here())
    rows = retirement.assess(manifest, events, grades=lambda agent: graded)
    (row,) = [row for row in rows if row.agent == "gauge_echo"]
    assert row.measured is not None and (row.state, row.measured.basis) == (state, basis)


def test_the_longest_silence_is_counted_in_days_on_which_the_agent_ran() -> None:
    measured = retirement.rolling_metrics(runs("a", [0.5, 0.1, 0.0, 0.5, 0.0, 0.1, 0.0, 0.5]))["a"]
    assert measured["longest_silence"] == 3


@given(st.lists(st.floats(0.05, 1.0), max_size=300))
def test_an_agent_that_earns_the_floor_every_day_meets_no_evidence(days: list[float]) -> None:
    assert evidence.against(days, 0.05).odds <= 1.0 + 1e-9


def test_who_speaks_in_spells_is_given_more_time() -> None:
    story = ([1.0] * 3 + [0.0] * 27) * 4
    alone = [1.0 if number in (0, 10, 20) else 0.0 for number in range(30)] * 4
    spelled, single = (evidence.against([*before, *[0.0] * 100], 0.05) for before in (story, alone))
    assert spelled.spell > 2 > single.spell and spelled.odds < evidence.CONVINCED < single.odds


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
    hit = Known.of(outcomes, rivers.came_true).hits(alerts)
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
    before = list(runs("gauge_echo", [0.6, 0.7] * 60))
    assert states(before)["gauge_echo"] == "retired", "what it did before it was switched off is no recovery"


def test_a_recovered_agent_is_switched_on_by_a_decision_with_its_evidence(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    switch_off("gauge_echo")
    assert retirement.main(["--revive"]) == 0
    assert "No retired agent" in capsys.readouterr().out and not (toy / REVIVAL.path).exists()
    for number in range(120):
        told = {"as_of": day(number), "source": "shadow"}
        log_event("gauge_echo", "r", 1.0, cost_usd=0.0, reward=0.6 + 0.1 * (number % 2), **told)
    assert retirement.main(["--quiet"]) == 0
    body = (toy / FORM.markdown).read_text()
    assert "Worth reviving:** `gauge_echo`" in body and "Nothing to decide" not in body
    assert retirement.main(["--revive", "--quiet"]) == 0
    assert load_manifest(here()).agent("gauge_echo").enabled
    assert "Bring `gauge_echo` back?" in (toy / REVIVAL.markdown).read_text()
    (path,) = (toy / "meta/decisions").glob("*-revival-gauge_echo.json")
    decision = json.loads(path.read_text())
    assert decision["decision"] == "revive" and decision["verdict"]["lower_bound"] > 0.05


def test_disable_changes_one_line_and_keeps_every_comment(toy: Path) -> None:
    before = (toy / "agents/manifest.yaml").read_text().splitlines()
    switch_off("gauge_echo")
    after = (toy / "agents/manifest.yaml").read_text().splitlines()
    added = [line for line in after if line not in before]
    assert [line.strip() for line in added] == ["enabled: false"]
    assert [line for line in after if line != added[0]] == before
    assert not load_manifest(here()).agent("gauge_echo").enabled


def log_silence(agent: str, n: int) -> None:
    for number in range(n):
        told = {"provider": "offline", "signals": "", "as_of": day(number)}
        log_event(agent, "r", 1.0, cost_usd=0.0, reward=0.0, **told)


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


def test_an_agent_that_a_person_would_not_have_disabled_is_left_on_until_its_prompt_changes(
    toy: Path,
) -> None:
    log_silence("gauge_echo", 120)
    live = prompt_of(here(), "gauge_echo")
    record(
        here(), [Refusal("retirement_disable", "gauge_echo", "", live, "https://github.example/o/r/pull/7")]
    )
    assert retirement.main(["--disable", "--quiet"]) == 0
    assert load_manifest(here()).agent("gauge_echo").enabled
    prompt = toy / "agents/prompts/gauge_echo.md"
    prompt.write_text(prompt.read_text() + "\nBe brief.\n")
    assert retirement.main(["--disable", "--quiet"]) == 0
    assert not load_manifest(here()).agent("gauge_echo").enabled


def test_eval_rows_do_not_count_unless_asked(toy: Path) -> None:
    for number in range(120):
        log_event("gauge_echo", "r", 1.0, cost_usd=0.0, reward=0.0, source="eval", as_of=day(number))
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
        load_outcomes(here())


def test_a_hostile_agent_name_in_the_telemetry_stays_text() -> None:
    manifest = load_manifest(here())
    rows = retirement.assess(manifest, list(runs("@everyone <script>|x", [0.1] * 3)))
    body = markdown(report(rows))
    assert "@everyone" not in body and "<script>" not in body


@pytest.mark.parametrize(("failed", "asked"), [(20, False), (80, True)])
def test_a_reader_is_told_where_most_runs_came_to_nothing(failed: int, asked: bool) -> None:
    broken, silent = ({"error_kind": "parse", "reward": 0.0}, {"error_kind": None})
    events = [
        row | (broken if at < failed else silent) for at, row in enumerate(runs("gauge_echo", [0.0] * 100))
    ]
    rows = retirement.assess(load_manifest(here()), events)
    body = markdown(report(rows))
    assert f"cannot be read, an error of its code): {failed} of 100 runs." in body
    assert ("**Most runs failed: `gauge_echo`.**" in body) == asked


def report(rows: Sequence[Agent], disable: bool = False) -> Report:
    candidates = tuple(row for row in rows if row.state == "candidate")
    rule = Rule(100, 0.05, 200, ("runtime",), 0.2, 40.0)
    disabled = tuple(row.agent for row in candidates) if disable else ()
    return Report("2026-11-16T04:13:00Z", rule, candidates, tuple(rows), disabled, False)


def crowd(candidates: int, agents: int) -> list[Agent]:
    """So many agents, as much said about each as can be."""
    judged = (250, "reward_and_pass_rate", 0.1, -0.1, 0.5, 0.4, 99.0, "2026-10-01", 77)
    measured = Measured(*judged, -0.123, None, "1.0", 3, 4, 1.5, 2, 40, None)
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
    assert "A day is one observation" in body and "And 350 more agents" in body


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
