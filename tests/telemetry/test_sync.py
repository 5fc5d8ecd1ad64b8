"""The data branch: real git with a bare remote, machines that share no disk, kills at any step, nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pytest

from telemetry import retention, sync
from telemetry.branch import compact, local
from telemetry.branch.remote import BRANCH, DataBranch, login
from telemetry.branch.segments import Segment
from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from telemetry.edge.files import SEALED, Repo, write_atomic
from telemetry.edge.lock import only_one
from tests.worlds import data_branch as world
from tests.worlds.data_branch import agents, clone, git, killed_at, measure, segments
from tests.worlds.eventlog import event

STRIDE = 7  # of the steps at which a sync is killed


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return world.remote(tmp_path)


def push(root: Path) -> list[str]:
    return sync.push(Repo(root))


def pull(root: Path) -> int:
    return sync.pull(Repo(root))


def test_what_one_run_pushed_the_next_one_pulls_once(tmp_path: Path, remote: Path) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    assert pull(one) == 0
    measure(one, "a", "b")
    assert len(push(one)) == 2
    assert push(one) == []
    assert pull(two) == 2
    assert pull(two) == 0
    assert agents(two) == ["a", "b"]
    measure(two, "c")
    push(two)
    pull(one)
    assert agents(one) == ["a", "b", "c"]
    assert world.told(one) == world.told(two) == [["a", "b"], ["c"]]


def test_the_data_branch_never_touches_the_persons_own(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    measure(one, "a")
    before = git(one, "rev-parse", "origin/main")
    push(one)
    assert git(remote, "rev-parse", "main") == before
    assert all(Segment.of(path) for path in segments(remote))
    assert git(one, "branch", "--list", BRANCH) == ""
    assert git(one, "status", "--porcelain", "--untracked-files=no") == ""


def test_own_rows_are_no_obstacle_to_a_pull(tmp_path: Path, remote: Path) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    measure(one, "a")
    push(one)
    measure(two, "b")
    pull(two)
    assert agents(two) == ["a", "b"]
    assert world.told(two) == [["a"], ["b"]]
    push(two)
    pull(one)
    assert agents(one) == ["a", "b"]
    late = clone(tmp_path, "late")
    pull(late)
    assert agents(late) == ["a", "b"]


def test_sealed_days_travel(tmp_path: Path, remote: Path) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    measure(one, "a")
    measure(one, "old", ts="2026-10-01T00:00:00.000Z")
    retention.seal(Repo(one), date(2026, 10, 3))
    assert {Path(path).suffix for path in push(one)} == {".parquet", ".jsonl"}
    measure(one, "b")
    push(one)
    days = datetime.now(UTC).date() - date(2026, 10, 1)
    sync.pull(Repo(two), days=days.days + 400)
    assert agents(two) == ["a", "b", "old"]


def test_rows_to_come_stay_where_they_are(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    measure(one, "a")
    measure(one, "late", ts="2099-01-01T00:00:00.000Z")
    push(one)
    assert not [path for path in segments(remote) if "2099" in path]
    late = clone(tmp_path, "late")
    pull(late)
    assert agents(late) == ["a"]


def test_a_push_that_lost_the_race_is_tried_again(
    tmp_path: Path, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    measure(one, "a")
    measure(two, "b")
    honest, raced = DataBranch._commit, []

    def slow(self: DataBranch, *args: object, **more: object) -> str:
        commit = honest(self, *args, **more)  # type: ignore[arg-type]
        if not raced:
            raced.append(True)
            push(two)
        return commit

    monkeypatch.setattr(DataBranch, "_commit", slow)
    push(one)
    late = clone(tmp_path, "late")
    pull(late)
    assert agents(late) == ["a", "b"]


def test_a_pull_killed_anywhere_and_run_again_brings_every_row_once(tmp_path: Path, remote: Path) -> None:
    """What was pulled by halves was once taken for the machine's own, and pushed a second time."""
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    for day in ("2026-11-01", "2026-11-02", "2026-11-03"):
        measure(one, f"a{day}", ts=f"{day}T00:00:00.000Z")
        push(one)
    measure(two, "own")
    step = 1
    while killed_at(step, lambda: pull(two)):
        step += STRIDE
    assert step > 2 * STRIDE
    expected = ["a2026-11-01", "a2026-11-02", "a2026-11-03", "own"]
    assert agents(two) == expected
    push(two)
    late = clone(tmp_path, "late")
    pull(late)
    assert agents(late) == expected and len(world.told(late)) == 4
    assert rows_on(remote, tmp_path) == expected


def test_a_push_killed_anywhere_and_run_again_adds_every_row_once(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    step, expected = 1, []
    while True:
        measure(one, f"a{step:03}")
        expected.append(f"a{step:03}")
        if not killed_at(step, lambda: push(one)):
            break
        step += STRIDE
    assert step > 2 * STRIDE
    assert agents(one) == expected
    assert rows_on(remote, tmp_path) == expected


def rows_on(remote: Path, home: Path) -> list[str]:
    """The agents of all rows on the branch, segment by segment: a row that lies there twice is seen twice."""
    reader = clone(home, f"reader{time.monotonic_ns()}")
    branch = DataBranch(reader)
    branch.fetch()
    found = []
    for number, one in enumerate(branch.segments()):
        if one.log == "events":
            apart = Repo(reader / f"apart{number}")
            local.merge(apart, branch, [one])
            found += agents(apart.root)
    return sorted(found)


@pytest.mark.parametrize(
    "kept", ["[", '{"pushed": "x", "other": []}', '{"pushed": ["\\ud800"]}', '{"segments": 3}']
)
def test_a_broken_memory_of_earlier_syncs_is_none(tmp_path: Path, remote: Path, kept: str) -> None:
    one = clone(tmp_path, "one")
    write_atomic(one / local.STATE, kept)
    assert local.state(Repo(one)) == local.State()
    pull(one)


def test_two_syncs_at_once_do_not_mix(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    with only_one(Repo(one), "sync", "sync"), pytest.raises(Stopped, match="another sync is at work"):
        pull(one)
    pull(one)


def test_a_lock_of_a_killed_git_is_recognised_and_one_at_work_respected(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    measure(one, "a")
    push(one)
    lock = one / ".git/refs/ratchet" / f"{BRANCH}.lock"
    lock.touch()
    (one / ".git/shallow.lock").touch()
    measure(one, "b")
    assert push(one)
    lock.touch()
    at_work = subprocess.Popen(["git", "cat-file", "--batch"], cwd=one, stdin=subprocess.PIPE)
    try:
        two = clone(tmp_path, "two")
        measure(two, "c")
        push(two)
        with pytest.raises(Stopped, match=f"process {at_work.pid}"):
            pull(one)
        assert lock.exists()
    finally:
        at_work.communicate()
    pull(one)
    assert agents(one) == ["a", "b", "c"]


def test_a_lost_memory_of_what_was_pulled_costs_nothing_but_time(tmp_path: Path, remote: Path) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    measure(one, "a")
    push(one)
    pull(two)
    measure(two, "b")
    for broken in ("", "{", '{"sizes": {}}', '{"segments": 5}', "[1]"):
        (two / local.STATE).write_text(broken)
        pull(two)
        push(two)
        assert agents(two) == ["a", "b"]
    assert rows_on(remote, tmp_path) == ["a", "b"]


def test_what_is_no_parquet_of_its_day_is_left_out(
    tmp_path: Path, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    measure(one, "a")
    push(one)
    today = datetime.now(UTC).date().isoformat()
    file = next((one / SEALED).glob("dt=*/*.parquet"))
    huge = tmp_path / "huge.parquet"
    with duckdb.connect() as con:
        con.execute(f"copy (select * replace (1e300 as reward) from '{file}') to '{huge}' (format parquet)")
    hostile = {
        f"events/dt={today}/bad.parquet": b"PAR1 no",
        f"events/dt={today}/huge.parquet": huge.read_bytes(),
        "events/dt=2026-01-01/other.parquet": file.read_bytes(),
    }
    DataBranch(one).publish(hostile, "hostile")
    pull(two)
    assert agents(two) == ["a"]
    assert capsys.readouterr().err.count("left out") == 3


def test_months_that_are_over_become_one_file_a_day_and_one_commit(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    branch, rows = DataBranch(one), []
    for number in range(6):
        day = f"2026-0{1 + number // 2}-0{1 + number % 2}"
        rows.append(event(event_id=f"e{number}", ts=f"{day}T00:00:00.000Z", agent=f"a{number:02}"))
        lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows[-2:])  # some of them twice
        history = json.dumps(
            {"ts": f"{day}T00:00:00.000Z", "run_type": "eval", "summary": {"of": [number]}}
        ).encode()
        branch.publish(
            {
                f"events/dt={day}/run-{number}.jsonl": lines,
                f"history/dt={day}/run-{number}.jsonl": history + b"\n",
            },
            "x",
        )
    done = compact.compact(one, date(2026, 3, 15))
    assert (done.before, done.after) == (8, 4 + 2)
    assert git(remote, "rev-list", "--count", BRANCH) == "1"
    assert len([path for path in segments(remote) if path.endswith(".parquet")]) == 4
    expected = [f"a{number:02}" for number in range(6)]
    two = clone(tmp_path, "two")
    sync.pull(Repo(two), days=10_000)
    assert agents(two) == expected and len(world.told(two)) == 6
    assert compact.compact(one, date(2026, 3, 15)).before == 6
    assert compact.compact(one, date(2026, 4, 1)).after == 6 + 3
    sync.pull(Repo(two), days=10_000)  # the same rows in other files are no new rows
    assert agents(two) == expected and len(world.told(two)) == 6


def test_a_compaction_does_not_lose_what_another_run_pushes_meanwhile(
    tmp_path: Path, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    for number in range(2):
        row = event(event_id=f"e{number}", ts="2026-01-01T00:00:00.000Z", agent=f"a{number}")
        DataBranch(one).publish({f"events/dt=2026-01-01/{number}.jsonl": json.dumps(row).encode()}, "x")
    measure(two, "late")
    honest, raced = DataBranch.replace, []

    def slow(self: DataBranch, *args: object) -> None:
        if not raced:
            raced.append(True)
            push(two)
        honest(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(DataBranch, "replace", slow)
    compact.compact(one, date(2026, 3, 15))
    late = clone(tmp_path, "late")
    sync.pull(Repo(late), days=10_000)
    assert agents(late) == ["a0", "a1", "late"]


def test_a_dead_remote_stops_with_gits_own_words(
    tmp_path: Path, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = clone(tmp_path, "one")
    git(one, "remote", "set-url", "origin", str(tmp_path / "nowhere"))
    assert sync.main(["pull", "--root", str(one)]) == cli.STOPPED
    assert "nowhere" in capsys.readouterr().err


def test_the_token_reaches_git_through_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNC_TOKEN", "ghs_secretsecretsecretsecret")
    told = login()
    assert told["GIT_CONFIG_KEY_0"] == "http.https://github.com/.extraheader"
    assert "ghs_" not in told["GIT_CONFIG_VALUE_0"]


def test_what_is_packed_is_what_was_measured_here(tmp_path: Path, remote: Path) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    measure(one, "a")
    push(one)
    pull(two)
    measure(two, "old", ts="2026-10-01T00:00:00.000Z")
    retention.seal(Repo(two), date(2026, 10, 3))
    measure(two, "b")
    assert sync.pack(Repo(two), tmp_path / "data") > 0
    packed = [json.loads(line) for line in (tmp_path / "data/events.jsonl").read_text().splitlines()]
    assert [row["agent"] for row in packed] == ["old", "b"]
    assert packed[0]["ts"] == "2026-10-01T00:00:00.000Z" and packed[0]["latency_ms"] == 1.0
    assert len((tmp_path / "data/history.jsonl").read_text().splitlines()) == 2


def test_it_runs_as_a_script(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    done = subprocess.run(
        [sys.executable, "-m", "telemetry.sync", "pull", "--root", str(one), "--json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and json.loads(done.stdout) == {"action": "pull", "new_segments": 0}
