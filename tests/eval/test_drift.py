"""Drift: champions that become worse although nobody changed them, from real rows to the line a person reads."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from eval import drift, harness
from eval.drift import Kind, hit
from telemetry import logger, retention
from telemetry.edge import cli
from tests.worlds import eval_checkout, eventlog, world

NIGHTS, CASES = 30, 60
Row = dict[str, Any]


def day(ago: int) -> str:
    return (datetime.now(UTC) - timedelta(days=ago)).strftime("%Y-%m-%d")


def night(ago: int, rate: float, **fields: Any) -> list[Row]:
    """The rows of one eval of `alpha`; every fourth case is of the kind `negated`, and fails if `rate` is low."""
    rng = random.Random(f"{ago} {rate}")
    passed = [rng.random() < (rate if n % 4 == 0 else 0.9) for n in range(CASES)]
    return [
        eventlog.event(
            event_id=f"{ago:04}-{n:04}-{len(fields)}",
            ts=f"{day(ago)}T01:{n % 60:02}:00.000Z",
            kind="evaluation",
            source="eval",
            agent="alpha",
            arm="champion",
            case_id=f"alpha-{n:04}",
            case_hash="0123456789ab",
            score=float(passed[n]),
            ok=passed[n],
            model_answered="gpt-5-mini-2025",
        )
        | fields
        for n in range(CASES)
    ]


def logged(*nights: Iterable[Row]) -> None:
    eventlog.write(*(logger.encode(row).rstrip() for rows in nights for row in rows))


@pytest.fixture
def checkout(root: Path) -> Path:
    eval_checkout.make(root, ("alpha",), cases=1)
    cases = [
        eval_checkout.case("alpha", n) | {"tags": ["negated"] if n % 4 == 0 else []} for n in range(CASES)
    ]
    world.suite(root, "alpha", cases)
    return root


def run(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = drift.main(["--json", "--root", str(root)])
    told = json.loads(capsys.readouterr().out)
    assert json.loads((root / "eval/results/drift.json").read_text()) == told
    return code, told


def steady(last: int = 5) -> list[list[Row]]:
    return [night(ago, 0.9) for ago in range(NIGHTS + last, last, -1)]


def test_a_fall_names_its_night_the_model_and_the_kind_of_case(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(*steady(), *(night(ago, 0.1, model_answered="gpt-5-mini-2026") for ago in range(5, 0, -1)))
    code, told = run(checkout, capsys)
    assert code == cli.FOUND and told["drift"]
    [found] = told["agents"]["alpha"]["drifts"]
    assert found["fell"] and found["alarm"] and found["since"] == day(5)
    since = datetime.now(UTC) - timedelta(days=5)
    line = cli.finding()
    assert line.startswith("alpha: pass rate fell by ") and f" points since {since.day} {since:%b} (" in line
    assert "model_answered changed from gpt-5-mini-2025 to gpt-5-mini-2026" in line
    assert line.endswith("mostly kind `negated`")
    assert drift.main(["--tell-only", "--quiet", "--root", str(checkout)]) == cli.OK
    assert cli.finding() == line


def test_sealed_days_are_read_like_the_live_log(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged(*steady(), *(night(ago, 0.1, model_answered="gpt-5-mini-2026") for ago in range(5, 0, -1)))
    live = run(checkout, capsys)
    assert retention.main(["seal", "--quiet", "--root", str(checkout)]) == cli.OK
    assert list((checkout / "telemetry/sealed").glob("dt=*/*.parquet"))
    assert run(checkout, capsys) == live


def test_nothing_found_is_said_with_exit_code_0(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged(*steady())
    assert run(checkout, capsys)[0] == cli.OK
    assert cli.finding() == f"no drift in 1 agent, nights compared: {NIGHTS}"


def test_without_any_eval_there_is_nothing_to_compare(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(checkout, capsys) == (cli.OK, {"drift": False, "agents": {}, "shutdown": None})


def test_a_rise_is_told_and_is_no_alarm(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged(
        *(night(ago, 0.1) for ago in range(NIGHTS + 5, 5, -1)), *(night(ago, 0.9) for ago in range(5, 0, -1))
    )
    assert run(checkout, capsys)[0] == cli.OK
    assert "alpha: pass rate rose by " in cli.finding()


@pytest.mark.parametrize(
    "changed",
    [{"prompt_hash": "another"}, {"case_hash": "another"}, {"model": "gpt-6-luna"}, {"provider": "another"}],
    ids=lambda fields: next(iter(fields)),
)
def test_another_prompt_case_or_model_starts_anew(
    changed: Row, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(*steady(), *(night(ago, 0.1, **changed) for ago in range(5, 0, -1)))
    code, told = run(checkout, capsys)
    assert code == cli.OK and told["agents"]["alpha"]["drifts"] == []


@pytest.mark.parametrize(
    "foreign", [{"source": "ab_test"}, {"arm": "B"}, {"score": None, "ok": None}], ids=str
)
def test_only_scores_of_the_champions_evals_count(
    foreign: Row, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(*steady(), *(night(ago, 0.1, **foreign) for ago in range(5, 0, -1)))
    assert run(checkout, capsys)[0] == cli.OK


def test_an_old_alarm_is_kept_on_record_and_no_longer_sounded(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged(*steady(50), *(night(ago, 0.1) for ago in range(50, 0, -1)))
    code, told = run(checkout, capsys)
    assert code == cli.OK
    assert [one["alarm"] for one in told["agents"]["alpha"]["drifts"]] == [False]


def test_the_harness_logs_what_drift_reads_and_its_answers_never_drift(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        assert harness.main(["--agent", "gauge_echo", "--quiet"]) == cli.OK
    graded = world.rows(kind="evaluation")
    assert all(len(row["case_hash"]) == 12 and row["model_answered"] for row in graded)
    code, told = run(toy, capsys)
    assert code == cli.OK and told["agents"]["gauge_echo"]["cases"] == 40
    worse = [
        row | {"event_id": f"worse-{n}", "score": 0.0, "ok": False} for n, row in enumerate(graded[-40:])
    ]
    eventlog.write(*(logger.encode(row).rstrip() for row in (*world.rows(), *worse)))
    code, told = run(toy, capsys)
    assert code == cli.FOUND and [one["fell"] for one in told["agents"]["gauge_echo"]["drifts"]] == [True]


def test_a_kind_is_named_only_if_it_holds_most_of_the_change_and_more_than_its_share() -> None:
    whole = Kind("", 100, 0.9, 0.8)
    small, large, half = Kind("small", 10, 0.9, 0.1), Kind("large", 90, 0.9, 0.81), Kind("half", 20, 0.9, 0.7)
    assert hit(whole, [large, half, small]) == (small,)
    assert hit(Kind("", 100, 0.9, 0.9), [small]) == ()
