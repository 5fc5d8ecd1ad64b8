"""What a run hands over for the data branch is held against what it can have measured; nothing is taken on trust."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meta import record
from meta.publish.kinds import KINDS
from telemetry import sync
from telemetry.branch import segments
from telemetry.branch.remote import BRANCH
from telemetry.edge import cli
from telemetry.edge.files import HISTORY, Repo
from telemetry.logger import SOURCES
from telemetry.read import rows, store
from tests.worlds import data_branch, world
from tests.worlds.data_branch import agents, clone
from tests.worlds.eventlog import event

NOW = datetime.now(UTC)
STARTED = (NOW - timedelta(minutes=5)).isoformat()


def at(minutes: float) -> str:
    return rows.in_utc(NOW + timedelta(minutes=minutes)) + "Z"


def row(**fields: Any) -> dict[str, Any]:
    return event(**{"ts": at(-1), "agent": "flood_watch", "source": "runtime"} | fields)


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """A checkout of the default branch with the rivers, and its remote."""
    data_branch.remote(tmp_path)
    return world.toy(clone(tmp_path, "trusted"))


@pytest.fixture
def recorded(trusted: Path, tmp_path: Path) -> Callable[..., int]:
    def run(*given: dict[str, Any] | str, history: str = "", kind: str = "critiques", **flags: str) -> int:
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        lines = [one if isinstance(one, str) else json.dumps(one) for one in given]
        (folder / "events.jsonl").write_text("\n".join(lines))
        (folder / "history.jsonl").write_text(history)
        told = {"started": STARTED, "kind": kind, "default_branch": "main", "ref": "refs/heads/main"} | flags
        more = [f"--{name.replace('_', '-')}={value}" for name, value in told.items()]
        return record.main([str(folder), *more, "--root", str(trusted)])

    return run


def test_what_the_run_measured_arrives(
    recorded: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKFLOW", "Cross-agent critiques")
    monkeypatch.setenv("GITHUB_RUN_ID", "77")
    line = json.dumps({"ts": at(0), "run_type": "eval", "summary": {"of": []}})
    assert recorded(row(event_id="1"), row(event_id="2", source="eval"), history=line) == cli.OK
    names = data_branch.segments(tmp_path / "remote.git")
    assert all("cross-agent-critiques-77-1-" in name for name in names) and len(names) == 2
    late = clone(tmp_path, "late")
    assert sync.pull(Repo(late)) == 2
    assert agents(late) == ["flood_watch"] * 2
    assert (late / HISTORY).read_text() == line + "\n"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"ts": "2099-01-01T00:00:00.000Z"}, "outside the time of the run"),
        ({"ts": at(60)}, "outside the time of the run"),
        ({"ts": at(-60)}, "outside the time of the run"),
        ({"as_of": "2099-01-01"}, "as of a day to come"),
        ({"source": "replay", "as_of": "2099-01-01"}, "as of a day to come"),
        ({"agent": "somebody_else"}, "of agents that are not in the manifest"),
        ({"source": "ab_test"}, "of sources that such a run does not write"),
        ({"source": "branch/main"}, "of sources that such a run does not write"),
        ({"reward": "high"}, "malformed"),
        ({"error": ["a list"]}, "malformed"),
        ({"event_id": "good"}, "repeated"),
    ],
)
def test_a_row_that_the_run_cannot_have_measured_is_refused_and_counted(
    fields: dict[str, Any],
    why: str,
    recorded: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert recorded(row(event_id="good"), row(**{"event_id": "bad"} | fields)) == cli.OK
    assert f"events.jsonl: 1 rows refused: {why}" in capsys.readouterr().out
    late = clone(tmp_path, "late")
    sync.pull(Repo(late))
    assert agents(late) == ["flood_watch"]


@pytest.mark.parametrize("rows", [(), ("not json", "[]"), (row(ts="2099-01-01T00:00:00.000Z"),)])
def test_a_hand_over_of_which_nothing_is_left_fails_and_says_so(
    rows: tuple[Any, ...], recorded: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert recorded(*rows) == cli.FOUND
    assert "Nothing was recorded" in (tmp_path / "summary").read_text()


def test_a_failure_writes_a_summary(
    recorded: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert recorded(row(), started="yesterday") == cli.BAD_INPUT
    data_branch.git(trusted, "remote", "set-url", "origin", str(tmp_path / "nowhere"))
    assert recorded(row()) == cli.STOPPED
    assert (tmp_path / "summary").read_text().count("Nothing was recorded") == 2


def test_pushing_the_same_twice_changes_nothing_and_more_under_one_run_id_overwrites_nothing(
    recorded: Callable[..., int], tmp_path: Path
) -> None:
    remote = tmp_path / "remote.git"
    recorded(row(event_id="1"))
    first = data_branch.git(remote, "rev-parse", "telemetry-data")
    recorded(row(event_id="1"))
    assert data_branch.git(remote, "rev-parse", "telemetry-data") == first
    recorded(row(event_id="2"))
    assert len(data_branch.segments(remote)) == 2
    late = clone(tmp_path, "late")
    sync.pull(Repo(late))
    assert agents(late) == ["flood_watch"] * 2


def test_a_run_from_another_branch_is_recorded_and_decides_nothing(
    recorded: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps({"ts": at(0), "run_type": "ab_test", "summary": {}})
    assert recorded(row(), history=line, ref="refs/heads/try;it") == cli.OK
    assert "history.jsonl: 1 rows refused: from another branch" in capsys.readouterr().out
    late = clone(tmp_path, "late")
    sync.pull(Repo(late))
    assert agents(late) == []
    assert not (late / HISTORY).exists()
    with store.connect(Repo(late), rows.Window(source="branch/try_it")) as con:
        assert con.execute("select agent from events").fetchall() == [("flood_watch",)]


def test_the_default_branch_is_whatever_the_repository_says() -> None:
    assert record.foreign_branch("refs/heads/trunk", "trunk") == ""
    assert record.foreign_branch("refs/heads/main", "trunk") == "main"
    assert record.foreign_branch("", "trunk") == ""


def test_an_oversized_or_linked_hand_over_is_refused(
    recorded: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: Path
) -> None:
    monkeypatch.setattr(segments, "MAX_BYTES", 100)
    assert recorded(row()) == cli.BAD_INPUT
    (tmp_path / "data/events.jsonl").unlink()
    (tmp_path / "data/events.jsonl").symlink_to("/etc/hostname")
    told = ["--kind=critiques", f"--started={STARTED}", "--root", str(trusted)]
    assert record.main([str(tmp_path / "data"), *told]) == cli.FOUND


def test_every_kind_says_which_sources_its_run_writes() -> None:
    for kind in KINDS.values():
        measures = kind.name != "new_cases"  # that one only looks at what others have measured
        assert set(kind.sources) <= set(SOURCES) and bool(kind.sources) is measures, kind.name


def test_a_row_is_recorded_as_it_was_checked_though_another_reader_would_see_another(
    recorded: Callable[..., int], tmp_path: Path
) -> None:
    forged = json.dumps(row()).replace("{", '{"agent": "victim", "source": "ab_test", ', 1)
    assert recorded(forged) == cli.OK
    [name] = data_branch.segments(tmp_path / "remote.git")
    kept = data_branch.git(tmp_path / "remote.git", "show", f"{BRANCH}:{name}")
    assert kept.count('"agent"') == kept.count('"source"') == 1 and "victim" not in kept
