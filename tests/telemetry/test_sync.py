"""The data branch: real git with a bare remote, two runs at once, hostile rows, nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry import sync
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import working_in
from telemetry.logger import LOG_PATH, log_event


def git(root: Path, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *identity, *args], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    first = clone(tmp_path, "first")
    (first / "README.md").write_text("hello\n")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "start")
    git(first, "push", "-q", "origin", "HEAD:main")
    return tmp_path / "remote.git"


def clone(home: Path, name: str) -> Path:
    git(home, "clone", "-q", "remote.git", name)
    return home / name


def run(root: Path, *agents: str) -> None:
    """A run on a machine of its own logs one row per agent."""
    with working_in(root):
        for agent in agents:
            log_event(agent, "r", 1.0, cost_usd=0.0)


def agents(root: Path) -> list[str]:
    path = root / LOG_PATH
    return [json.loads(line)["agent"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(autouse=True)
def numbered_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1000))
    monkeypatch.setattr(sync, "_run_name", lambda: f"night-{next(numbers)}")


def test_what_one_run_pushed_the_next_one_pulls_once(tmp_path: Path, remote: Path) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    assert sync.pull(one) == 0
    run(one, "a", "b")
    assert len(sync.push(one)) == 1
    assert sync.push(one) == []
    assert sync.pull(two) == 1
    assert sync.pull(two) == 0
    assert agents(two) == ["a", "b"]
    run(two, "c")
    sync.push(two)
    assert sync.pull(one) == 1
    assert agents(one) == ["a", "b", "c"]


def test_the_data_branch_never_touches_main(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    run(one, "a")
    before = git(one, "rev-parse", "origin/main")
    sync.push(one)
    assert git(remote, "rev-parse", "main") == before
    (segment,) = git(remote, "ls-tree", "-r", "--name-only", sync.BRANCH).split()
    assert sync.SEGMENT.fullmatch(segment)
    assert git(one, "branch", "--list", sync.BRANCH) == ""


def test_a_push_that_lost_the_race_is_tried_again(
    tmp_path: Path, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    run(one, "a")
    run(two, "b")
    honest = sync._commit
    raced = []

    def slow(*args: object) -> str:
        commit = honest(*args)  # type: ignore[arg-type]
        if not raced:
            raced.append(True)
            sync.push(two)
        return commit

    monkeypatch.setattr(sync, "_commit", slow)
    sync.push(one)
    assert len(git(remote, "ls-tree", "-r", "--name-only", sync.BRANCH).split()) == 2
    late = clone(tmp_path, "late")
    sync.pull(late)
    assert sorted(agents(late)) == ["a", "b"]


def test_a_packed_hand_over_is_checked_before_it_is_pushed(
    tmp_path: Path, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = clone(tmp_path, "one")
    run(one, "a")
    with (one / LOG_PATH).open("a") as log:
        log.write('{"agent": "no event"}\nnot json\n')
    (one / "eval").mkdir()
    (one / "eval/history.jsonl").write_text('{"run_type": "ab_test"}\n[1]\n')
    assert sync.pack(one, tmp_path / "data") > 0
    trusted = clone(tmp_path, "trusted")
    assert len(sync.push(trusted, tmp_path / "data")) == 2
    assert "events.jsonl: 2 malformed lines left behind" in capsys.readouterr().err
    late = clone(tmp_path, "late")
    sync.pull(late)
    assert agents(late) == ["a"]
    assert (late / "eval/history.jsonl").read_text() == '{"run_type": "ab_test"}\n'


def test_an_oversized_or_linked_hand_over_is_refused(
    tmp_path: Path, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "MAX_BYTES", 1000)
    one = clone(tmp_path, "one")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/events.jsonl").write_bytes(b"x" * 2000)
    with pytest.raises(BadInput, match="at most 1000 are taken"):
        sync.push(one, tmp_path / "data")
    (tmp_path / "data/events.jsonl").unlink()
    (tmp_path / "data/events.jsonl").symlink_to("/etc/hostname")
    assert sync.push(one, tmp_path / "data") == []


def test_rows_never_pushed_are_not_mixed_with_pulled_ones(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    run(one, "a")
    with pytest.raises(BadInput, match="never pushed"):
        sync.pull(one)


def test_a_log_that_shrank_is_not_taken_for_one_without_news(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    run(one, "a", "b")
    sync.push(one)
    (one / LOG_PATH).write_text("")
    with pytest.raises(BadInput, match="shorter than after the last pull"):
        sync.push(one)


def test_a_dead_remote_stops_with_gits_own_words(
    tmp_path: Path, remote: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = clone(tmp_path, "one")
    git(one, "remote", "set-url", "origin", str(tmp_path / "nowhere"))
    assert sync.main(["pull", "--root", str(one)]) == cli.STOPPED
    assert "nowhere" in capsys.readouterr().err


def test_the_token_reaches_git_through_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNC_TOKEN", "ghs_secretsecretsecretsecret")
    login = sync._login()
    assert login["GIT_CONFIG_KEY_0"] == "http.https://github.com/.extraheader"
    assert "ghs_" not in login["GIT_CONFIG_VALUE_0"]


def test_it_runs_as_a_script(tmp_path: Path, remote: Path) -> None:
    one = clone(tmp_path, "one")
    done = subprocess.run(
        [sys.executable, "-m", "telemetry.sync", "pull", "--root", str(one), "--json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and json.loads(done.stdout) == {"action": "pull", "new_segments": 0}
