"""What sealed days come to is what their rows come to, whatever is among them."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from meta import retirement
from telemetry import logger, retention, rollup
from telemetry.edge import cli
from telemetry.edge.files import Repo, here, working_in
from telemetry.logger import ERROR_KINDS
from telemetry.read import days, store, total
from telemetry.read.rows import Window
from tests.worlds.eventlog import event, log_path, write

TODAY = date(2026, 10, 20)


def odd_rows(seed: int, count: int = 250) -> list[bytes]:
    """Runs of all kinds: inputs that repeat within a day and over days, versions, sources, replays, failures."""
    rng = random.Random(seed)
    lines: list[bytes] = []
    for number in range(count):
        day, kind = rng.randint(13, 18), rng.choice([None] * 8 + list(ERROR_KINDS))
        row: dict[str, Any] = event(
            event_id=f"e{seed}-{number}",
            kind=rng.choice(["run", "run", "run", "llm_call"]),
            agent=rng.choice(["alpha", "beta", "o'neil", "rare" if number < 5 else "alpha"]),
            source=rng.choice(["runtime", "runtime", "replay", "shadow", "eval", "ab_test", "branch/else"]),
            ts=f"2026-10-{day:02}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:00.{rng.randint(0, 999):03}Z",
            run_id=f"r{number}",
            latency_ms=rng.choice([None, 0, rng.lognormvariate(6, 2)]),
            cost_usd=rng.choice([None, 0, rng.random() / 100]),
            reward=rng.choice([None, rng.gauss(0.2, 0.3), rng.gauss(0.2, 0.3)]),
            scoring_version=rng.choice(["1.0", "1.0", "1.1", None]),
            signal_strength=rng.choice([None, rng.random()]),
            signals=rng.choice([None, "VIX:risk_off", "a b"]),
            profit_pct=rng.choice([None, rng.random()]),
            input_hash=rng.choice([None, f"i{rng.randint(0, 400)}", f"i{rng.randint(0, 9)}"]),
            prompt_hash=rng.choice([None, "p1", "p2"]),
            as_of=rng.choice([None, None, f"2026-09-{rng.randint(1, 28):02}", "no day"]),
            error=None if kind is None else "it failed",
            error_kind=kind,
        )
        lines.append(orjson.dumps(row))
        if rng.random() < 0.02:
            lines.insert(
                rng.randrange(len(lines)), lines[-1]
            )  # the same row again, perhaps sealed apart from it
        if rng.random() < 0.02:
            lines.append(rng.choice([b"{", b"[1]", b'{"ts": 3}', orjson.dumps(row | {"reward": "much"})]))
    return lines


def seal_in_turns(lines: list[bytes]) -> None:
    """Seal a part, then the rest with rows that come late to days that are sealed; the last days stay live."""
    for part, until in (
        (lines[: len(lines) // 2], date(2026, 10, 16)),
        (lines[len(lines) // 2 :], date(2026, 10, 18)),
    ):
        left = log_path().read_bytes().splitlines() if log_path().exists() else []
        write(*left, *part)
        retention.seal(here(), until)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def told(summary: dict[str, Any]) -> dict[str, Any]:
    """Without what a clock or a sketch decides."""
    left = ("generated_at", "latency_percentiles")
    plain = {name: value for name, value in summary.items() if name not in left}
    plain["by_agent"] = {
        agent: {name: value for name, value in own.items() if not name.endswith("latency_ms")}
        for agent, own in summary["by_agent"].items()
    }
    return plain


def by_content(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(
        rows,
        key=lambda row: (
            row["agent"],
            row["day"],
            str([row[n] for n in ("scoring_version", "signals", "shadow")]),
            row["reward"] is None,
        ),
    )


@pytest.mark.parametrize(
    ("seed", "since"),
    [(0, None), (1, None), (2, datetime(2026, 10, 15, tzinfo=UTC)), (3, datetime(2026, 10, 14, tzinfo=UTC))],
)
def test_kept_sums_say_what_the_rows_say(
    seed: int, since: datetime | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = odd_rows(seed)
    if seed % 2:  # nobody repeats an input: nothing has to be looked up in the rows
        lines = [
            line.replace(b'"input_hash":"i', f'"input_hash":"u{n}-'.encode()) for n, line in enumerate(lines)
        ]
    seal_in_turns(lines)
    window = Window(0, since, kind="run")
    plain, field = rollup.summary_of(here(), window), retirement.load_events()
    monkeypatch.setattr(days, "LARGE", 1)
    first, again = (rollup.summary_of(here(), window) for _ in range(2))
    assert first["latency_percentiles"] == "approximate" and plain["latency_percentiles"] == "exact"
    assert same(told(first), told(plain)) and same(told(again), told(plain))
    assert same(by_content(retirement.load_events()), by_content(field))


def test_a_day_is_summed_up_when_it_is_sealed_and_a_damaged_one_is_left_to_its_readers(
    monkeypatch: pytest.MonkeyPatch, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(days, "LARGE", 1)
    write(orjson.dumps(event(ts="2026-10-13T12:00:00.000Z")))
    assert retention.main(["--quiet", "seal"]) == cli.OK
    made = {path.name.split(".")[0] for path in (root / days.PLACE).iterdir()}
    assert len(made) == 1 and made.pop().startswith("2026-10-13-")
    damaged = root / "telemetry/sealed/dt=2026-10-14/x.parquet"
    damaged.parent.mkdir()
    damaged.write_bytes(b"PAR1 no more PAR1")
    write(orjson.dumps(event(ts="2026-10-15T12:00:00.000Z")))
    assert retention.main(["seal"]) == cli.OK and "Sealed 1 events" in capsys.readouterr().out
    assert rollup.main(["--last-n", "0"]) == cli.BAD_INPUT


def test_latency_is_known_to_three_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "LARGE", 1)
    rng = np.random.default_rng(0)
    values = rng.lognormal(6, 1, 3000)
    write(*(orjson.dumps(event(latency_ms=float(value), event_id=f"e{n}")) for n, value in enumerate(values)))
    retention.seal(here(), TODAY)
    own = rollup.summary_of(here(), Window(kind="run"))["by_agent"]["macro_watcher"]
    for share in (50, 95, 99):
        assert own[f"p{share}_latency_ms"] == pytest.approx(np.percentile(values, share), rel=0.03)


def test_sums_follow_the_files_they_are_of_and_are_made_again_at_will(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.setattr(days, "LARGE", 1)
    seal_in_turns(odd_rows(1))
    repo, window = Repo(root), Window(kind="run")
    before = rollup.summary_of(repo, window)
    made = {path: path.read_bytes() for path in (root / days.PLACE).iterdir()}
    for path in made:
        path.unlink()
    assert same(told(rollup.summary_of(repo, window)), told(before))
    assert {path.name for path in (root / days.PLACE).iterdir()} == {path.name for path in made}
    [gone, *left] = sorted((root / "telemetry/sealed").glob("dt=*/*.parquet"))
    left[-1].write_bytes(gone.read_bytes())  # another content under the same name
    gone.unlink()
    assert rollup.summary_of(repo, window)["count"] != before["count"]
    sealed = store.by_day(store.snapshot(repo).sealed)
    kept = [path for path in (root / days.PLACE).iterdir() if not path.name.startswith("total.")]
    assert len(kept) == 5 * len(sealed)


def by_days(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The summary from what days come to."""
    monkeypatch.setattr(days, "LARGE", 1)
    return told(rollup.summary_of(Repo(root), Window(kind="run")))


def by_rows(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(days, "LARGE", 1 << 40)
    return told(rollup.summary_of(Repo(root), Window(kind="run")))


@pytest.fixture(scope="module")
def summed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with sealed days, and the total of them as it was kept."""
    root = tmp_path_factory.mktemp("summed")
    with working_in(root), pytest.MonkeyPatch.context() as patch:
        (root / "telemetry").mkdir()
        seal_in_turns(odd_rows(3))
        by_days(root, patch)
    return root


def in_order(seed: int, *, plain: bool) -> list[tuple[date, list[bytes]]]:
    """Odd rows by day; if `plain`, no agent looks back: no input, replay or version of an earlier day."""
    by_day: dict[date, list[bytes]] = {}
    for number, line in enumerate(odd_rows(seed)):
        row = orjson.loads(line) if line.startswith(b'{"') and b"event_id" in line else None
        if row is not None:
            changed = {"input_hash": f"u{number}", "as_of": None, "scoring_version": "1.0"} if plain else {}
            day = date.fromisoformat(row["ts"][:10])
            by_day.setdefault(day, []).append(orjson.dumps(row | changed))
    return sorted(by_day.items())


@pytest.mark.parametrize(("seed", "plain"), [(4, True), (6, False), (8, False)])
def test_a_day_is_added_to_the_total_of_those_before(
    seed: int, plain: bool, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    asked: list[object] = []
    really = days.field_rows
    monkeypatch.setattr(
        days, "field_rows", lambda *of, **how: asked.append(how.get("agents")) or really(*of, **how)
    )
    first: bytes | None = None
    for day, lines in in_order(seed, plain=plain):
        write(*lines)
        rows = by_rows(root, monkeypatch)
        assert same(by_days(root, monkeypatch), rows)  # the day is live
        retention.seal(here(), day + timedelta(1))
        assert same(by_days(root, monkeypatch), rows)
        first = first or (root / total.FILE).read_bytes()
        assert (root / total.FILE).read_bytes() == first  # kept once, and read since
    assert any(asked) is not plain


def test_a_total_of_many_days_ago_is_kept_anew(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(total, "FEW", 2)
    kept = []
    for day, lines in in_order(9, plain=True):
        write(*lines)
        retention.seal(here(), day + timedelta(1))
        summary = by_days(root, monkeypatch)
        kept.append((root / total.FILE).read_bytes())
    assert same(summary, by_rows(root, monkeypatch))
    assert len(kept) == 6 and len(set(kept)) == 2


@pytest.mark.parametrize(
    "harm",
    [
        lambda root: (root / total.FILE).unlink(),
        lambda root: (root / total.FILE).write_bytes((root / total.FILE).read_bytes()[:-9]),
        lambda root: (root / total.FILE).write_bytes(
            (root / total.FILE).read_bytes().replace(b"alpha", b"bravo")
        ),
        lambda root: (root / total.KEYS).unlink(),
        lambda root: (root / total.KEYS).write_bytes(b"PAR1"),
        lambda root: sorted(root.glob("telemetry/sealed/dt=*/*.parquet"))[0].unlink(),
        lambda root: os.replace(*sorted(root.glob("telemetry/sealed/dt=*/*.parquet"))[:2]),  # noqa: PTH105
    ],
    ids=["gone", "torn", "altered", "no keys", "other keys", "a day gone", "a day changed"],
)
def test_a_total_that_is_not_of_these_days_is_made_again(
    harm: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch, root: Path, summed: Path
) -> None:
    shutil.copytree(summed, root, dirs_exist_ok=True)
    harm(root)
    rows = by_rows(root, monkeypatch)
    assert same(by_days(root, monkeypatch), rows)
    assert same(by_days(root, monkeypatch), rows)


def test_a_writer_killed_between_keys_and_total_leaves_no_wrong_one(
    monkeypatch: pytest.MonkeyPatch, root: Path, summed: Path
) -> None:
    shutil.copytree(summed, root, dirs_exist_ok=True)
    logger.append(b"\n".join(odd_rows(4)) + b"\n")
    retention.seal(here(), TODAY)

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as now, pytest.raises(Killed):
        now.setattr(total, "write_atomic", killed)
        by_days(root, now)
    assert same(by_days(root, monkeypatch), by_rows(root, monkeypatch))


def test_a_sealed_row_that_is_live_too_counts_once(
    monkeypatch: pytest.MonkeyPatch, root: Path, summed: Path
) -> None:
    shutil.copytree(summed, root, dirs_exist_ok=True)
    once = by_days(root, monkeypatch)
    logger.append(b"\n".join(odd_rows(3)) + b"\n")
    assert same(by_days(root, monkeypatch) | {"malformed_lines": 0}, once | {"malformed_lines": 0})


def test_where_nothing_can_be_written_rows_are_read(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    seal_in_turns(odd_rows(2))
    plain = rollup.summary_of(Repo(root), Window(kind="run"))
    monkeypatch.setattr(days, "LARGE", 1)
    (root / days.PLACE).write_text("a file stands in the way")
    assert same(told(rollup.summary_of(Repo(root), Window(kind="run"))), told(plain))
