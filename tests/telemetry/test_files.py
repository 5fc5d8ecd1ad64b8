"""Files in memory: read once, and never older than the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telemetry.edge import files
from telemetry.edge.lock import let_go, only_one, only_opened


def aged(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that was last changed long ago, as far as we can tell."""
    path.write_text(text)
    monkeypatch.setattr(files, "_settled", lambda changed_ns: True)
    return path


def test_a_file_that_did_not_change_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = aged(tmp_path / "a.json", "{}", monkeypatch)
    assert files.read_again(path) == b"{}"
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read twice"))
    assert files.read_again(path) == b"{}"


def test_a_file_that_was_replaced_or_edited_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = aged(tmp_path / "a.json", "[1]", monkeypatch)
    files.read_again(path)
    files.write_atomic(path, "[2]")
    assert files.read_again(path) == b"[2]"
    path.write_text("[3]")
    os.utime(path, ns=(1, 1))
    assert files.read_again(path) == b"[3]"


def test_a_file_that_may_change_again_within_the_same_tick_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for number in range(50):
        path.write_text(f"{number:02}")
        assert files.read_again(path) == f"{number:02}".encode()


def test_a_lock_ends_with_its_block_whoever_else_has_the_file_open(tmp_path: Path) -> None:
    with only_one(files.Repo(tmp_path), "x", "test"):
        lock = next((tmp_path / files.SCRATCH).glob("*.lock"))
        own = next(
            int(one.name) for one in Path("/proc/self/fd").iterdir() if one.exists() and one.samefile(lock)
        )
        other = os.dup(own)  # as a process has it that was split off meanwhile
        assert only_opened(lock) is None
    again = only_opened(lock)
    assert again is not None
    os.close(other)
    let_go(again)
