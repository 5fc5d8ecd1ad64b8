"""Texts: each once, by its hash, without secrets, found again wherever it stands; nothing of it is taken on trust."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from telemetry import retention, sync, texts
from telemetry.branch import compact, segments
from telemetry.edge import cli
from telemetry.edge.files import TEXTS, Repo, working_in
from telemetry.read import sealed_texts
from telemetry.texts import keep, name_of, text_of, texts_of
from tests.worlds.data_branch import clone, git, remote

TOMORROW = datetime.now(UTC).date() + timedelta(days=1)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    with working_in(tmp_path) as here:
        yield here


def lines(repo: Repo) -> list[str]:
    return (repo / TEXTS).read_text().splitlines() if (repo / TEXTS).exists() else []


def another_process() -> None:
    """What one process remembers another does not."""
    texts._last = None


def test_a_text_is_written_once_and_found_by_its_hash(repo: Repo) -> None:
    name = keep("Is the market calm?\nÄ")
    assert keep("Is the market calm?\nÄ") == name == name_of("Is the market calm?\nÄ")
    another_process()
    assert keep("Is the market calm?\nÄ") == name
    assert len(lines(repo)) == 1
    assert text_of(name) == "Is the market calm?\nÄ"
    assert text_of("0" * 64) is None
    assert text_of("no hash") is None


def test_a_sealed_text_is_found_and_not_sealed_again(repo: Repo) -> None:
    names = [keep(text) for text in ("one", "two")]
    retention.seal(repo, TOMORROW)
    assert lines(repo) == []
    another_process()
    assert keep("one") == names[0]
    names.append(keep("three"))
    retention.seal(repo, TOMORROW)
    assert texts_of(names) == dict(zip(names, ("one", "two", "three"), strict=True))
    assert sum(1 for _ in sealed_texts.rows(sealed_texts.files(repo))) == 3


def test_texts_of_today_stay_in_their_log(repo: Repo) -> None:
    keep("today")
    retention.seal(repo, TOMORROW - timedelta(days=1))
    assert len(lines(repo)) == 1


def test_a_seal_that_was_killed_on_the_way_loses_nothing(repo: Repo) -> None:
    name = keep("under way")
    (repo / sealed_texts.LEAVING).parent.mkdir(parents=True)
    (repo / TEXTS).rename(repo / sealed_texts.LEAVING)
    later = keep("meanwhile")
    assert texts_of([name, later]) == {name: "under way", later: "meanwhile"}
    retention.seal(repo, TOMORROW)
    assert texts_of([name, later]) == {name: "under way", later: "meanwhile"}


def test_secrets_are_gone_before_a_text_is_named(repo: Repo) -> None:
    name = keep("use key sk-abcdefghijklmnopqrstuvwx please")
    assert "abcdefghijklmnop" not in (repo / TEXTS).read_text()
    assert text_of(name) == "use key [redacted] please"


def test_hashes_alone_are_kept_where_the_switch_says_so(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(texts.SWITCH, "0")
    assert keep("private") == name_of("private")
    assert lines(repo) == []


def test_half_a_character_and_a_huge_text_stop_nobody(repo: Repo) -> None:
    assert text_of(keep("half \ud800 character")) == "half ? character"
    huge = "x" * (texts.MAX_TEXT + 1)
    assert text_of(keep(huge)) is None


def test_a_torn_line_and_a_false_name_give_no_text(repo: Repo) -> None:
    false, true = name_of("said"), keep("true")
    with (repo / TEXTS).open("ab") as log:
        log.write(
            json.dumps({"sha256": false, "ts": "2026-01-01T00:00:00.000Z", "text": "not said"}).encode()
            + b"\n"
        )
        log.write(b'{"sha256":"' + false.encode() + b'","ts":"2026')
    assert texts_of([false, true]) == {true: "true"}
    keep("after the tear")
    retention.seal(repo, TOMORROW)
    assert texts_of([false, true, name_of("after the tear")]).keys() == {true, name_of("after the tear")}


def _write(root: Path, first: int) -> None:
    with working_in(root):
        for number in range(first, first + 200):
            keep(f"text {number}")


def test_many_processes_may_keep_at_once(repo: Repo) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(repo.root, first)) for first in (0, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    retention.seal(repo, TOMORROW)
    assert len(texts_of(name_of(f"text {number}") for number in range(300))) == 300


def test_what_one_machine_keeps_another_reads(tmp_path: Path) -> None:
    remote(tmp_path)
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    for root, said in ((one, "of one"), (two, "of two"), (one, "of one again")):
        another_process()
        with working_in(root):
            keep(said), keep("of both")
        sync.push(Repo(root))
    sync.pull(Repo(two))
    assert texts_of(map(name_of, ("of one", "of two", "of both", "of one again")), Repo(two)).keys() == {
        name_of(said) for said in ("of one", "of two", "of both", "of one again")
    }
    assert sync.push(Repo(two)) == []


def test_a_month_that_is_over_becomes_one_file(tmp_path: Path) -> None:
    home = remote(tmp_path)
    one, two = clone(tmp_path, "one"), clone(tmp_path, "two")
    for root, said in ((one, "a"), (two, "b")):
        another_process()
        with working_in(root):
            keep(said), keep("of both")
        sync.push(Repo(root))
    today = date.today()
    months_later = (today.replace(day=1) + timedelta(days=70)).replace(day=1)
    for _ in range(2):
        compact.compact(one, months_later)
    kept = [
        path
        for path in git(home, "ls-tree", "-r", "--name-only", "telemetry-data").split()
        if "texts/" in path
    ]
    assert len(kept) == 1
    late = clone(tmp_path, "late")
    sync.pull(Repo(late))
    assert len(texts_of(map(name_of, ("a", "b", "of both")), Repo(late))) == 3


def test_a_handed_over_text_that_is_not_what_its_name_says_is_refused() -> None:
    good, bad = (
        texts.line_of("2026-01-01T00:00:00.000Z", "said"),
        texts.line_of("2026-01-01T00:00:00.000Z", "x", "0" * 64),
    )
    found = segments.checked("texts", good + bad + b"{}\n" + good)
    assert (found.data, found.taken, found.refused) == (good, 1, {"malformed": 2, "repeated": 1})


def test_the_script_shows_a_text_by_the_start_of_its_hash(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    name = keep("Show me")
    assert texts.main([name[:16], "--root", str(repo.root)]) == cli.OK
    assert capsys.readouterr().out == "Show me\n"
    assert texts.main(["0" * 64, "--root", str(repo.root)]) == cli.BAD_INPUT
    assert texts.main(["xyz", "--root", str(repo.root)]) == cli.BAD_INPUT
