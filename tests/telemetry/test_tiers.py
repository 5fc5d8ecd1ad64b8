"""Telemetry grows old: rows, then what days come to, then nothing; and what is gone is nowhere, not even in git."""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from meta.retirement import load_events
from telemetry import retention, rollup, sync
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import EXPORTS, SEALED, Repo, working_in
from telemetry.edge.git import blobs
from telemetry.read import days, store
from telemetry.read.rows import Window
from telemetry.texts import keep, line_of
from telemetry.tiers import here
from telemetry.tiers.ages import Ages, ages
from telemetry.tiers.apply import apply
from tests.worlds import data_branch
from tests.worlds.eventlog import event, write

TODAY = date(2026, 11, 18)
AGES = {"today": 0, "warm": 60, "cold": 200, "colder": 400, "gone": 800}  # by name, days ago


def day(ago: int) -> str:
    return (TODAY - timedelta(days=ago)).isoformat()


def secret(name: str) -> str:
    return f"words of the {name} day that nobody else said"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Rows of five ages, each naming a text of its day and one that all share; a batch, and settings."""
    fill(tmp_path)
    return tmp_path


def fill(root: Path, commit: bool = False) -> None:
    with working_in(root):
        rows, texts = [], []
        for at, (name, ago) in enumerate(reversed([*AGES.items()])):
            shared, own = "the system text of all", secret(name)
            names = [keep(shared), keep(own)]
            texts += [
                line_of(f"{day(ago)}T01:00:00.000Z", text)
                for text in (own, *([shared] if name == "gone" else []))
            ]
            messages = [{"role": "user", "sha256": one} for one in names]
            for number in range(4):
                about = {
                    "agent": ("river", "lake")[number % 2],
                    "reward": 0.1 * number,
                    "latency_ms": 100.0 + number,
                }
                about |= {"signals": f"S{number}:up", "input_hash": f"{at}{number}" * 6, "cost_usd": 0.01}
                ids = {"event_id": f"{at:016x}-{number:06x}", "run_id": f"run-{name}-{number}"}
                rows.append(event(**about, **ids, ts=f"{day(ago)}T12:00:0{number}.000Z", messages=messages))
        write(*(json.dumps(row).encode() for row in rows))
        (root / "telemetry/texts.jsonl").write_bytes(b"".join(texts))


def run(root: Path, **flags: Any) -> dict[str, int]:
    with working_in(root):
        return apply(Repo(root), today=TODAY, seal=retention.seal, **flags)


def held(folder: Path) -> str:
    """Everything that the files of a folder hold, Parquet decoded."""
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts):
        found.append(content(file))
    return "\n".join(found)


def content(file: Path) -> str:
    raw = file.read_bytes()
    if raw[:4] != b"PAR1":
        return raw.decode(errors="replace")
    with duckdb.connect() as con:
        return str(
            con.execute("select * from read_parquet(?, hive_partitioning=false)", [str(file)]).fetchall()
        )


def in_git(repository: Path, scratch: Path) -> str:
    """Everything that any object of a repository holds, once git has collected its garbage."""
    data_branch.git(repository, "reflog", "expire", "--expire=now", "--all")
    data_branch.git(repository, "gc", "-q", "--prune=now")
    listed = data_branch.git(repository, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    names = [name for name, kind, _ in map(str.split, listed) if kind == "blob"]
    found = []
    for raw in blobs(repository, names):
        (scratch / "blob").write_bytes(raw or b"")
        found.append(content(scratch / "blob"))
    return "\n".join(found)


def figures(root: Path) -> dict[str, Any]:
    """What a summary of everything says, but for what a sketch stands for."""
    summary = rollup.summary_of(Repo(root), Window(kind="run"))
    by_agent = {
        name: {key: value for key, value in own.items() if "latency" not in key}
        for name, own in summary["by_agent"].items()
    }
    return {"count": summary["count"], "by_agent": by_agent, "by_day": summary["by_day"]}


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int], bool]:
    """Such a checkout after `apply`; what a dry run had said, and whether that changed anything."""
    root = tmp_path_factory.mktemp("aged")
    fill(root)
    retention.seal(Repo(root), TODAY - timedelta(days=7))
    before = held(root)
    told = run(root, dry_run=True)
    same = held(root) == before
    run(root)
    return root, told, same


def test_a_dry_run_says_what_is_due_and_changes_nothing(aged: tuple[Path, dict[str, int], bool]) -> None:
    _, told, same = aged
    assert told["here: days_to_cold"] == 2 and told["here: gone"] == 1 and told["here: texts"] == 3
    assert same


def test_rows_and_texts_go_by_age_and_no_byte_of_them_is_left(
    aged: tuple[Path, dict[str, int], bool],
) -> None:
    root, *_ = aged
    left = held(root)
    told = {name: (secret(name) in left, f"run-{name}-0" in left) for name in AGES}
    kept, dropped = (True, True), (False, False)
    assert told == {"today": kept, "warm": kept, "cold": dropped, "colder": dropped, "gone": dropped}
    assert "'S1:up'" in left and day(400) not in str(load_events(repo=Repo(root))), (
        "too old to say what was said"
    )
    assert {path.name[3:] for path in (root / days.COLD).iterdir()} == {day(200), day(400)}
    assert not any(run(root, dry_run=True).values()), "once is enough"


def test_a_text_of_long_ago_stays_while_a_row_names_it(aged: tuple[Path, dict[str, int], bool]) -> None:
    sealed = held(aged[0] / SEALED / "texts")
    assert "the system text of all" in sealed


def test_summary_and_retirement_read_the_same_from_what_days_come_to(root: Path) -> None:
    shutil.rmtree(root / SEALED, ignore_errors=True)
    (root / "telemetry/events.jsonl").write_bytes(
        b"".join(line for line in (root / "telemetry/events.jsonl").open("rb") if b"run-gone" not in line)
    )
    before, earned = figures(root), load_events(repo=Repo(root), window=300)
    run(root)
    after, now = figures(root), load_events(repo=Repo(root), window=300)
    assert after["count"] == before["count"] and after["by_day"] == before["by_day"]
    young = [row for row in earned if str(row["day"]) >= day(365)]
    assert {(str(row["day"]), row["agent"], row["signals"], row["reward"]) for row in now} == {
        (str(row["day"]), row["agent"], row["signals"], row["reward"]) for row in young
    }


def test_a_kill_between_sums_and_rows_counts_no_run_twice(root: Path) -> None:
    retention.seal(Repo(root), TODAY)
    before = figures(root)["count"]
    due = here.plan(Repo(root), Ages(), TODAY)
    for one, files in due.freeze.items():
        here.freeze(root / days.COLD, one, files, day(365))  # and then the power fails
    assert figures(root)["count"] == before
    run(root)
    assert figures(root)["count"] == before - 4, "those of the day that is gone"


def test_a_batch_loses_its_texts_with_its_rows_and_then_itself(tmp_path: Path) -> None:
    root = tmp_path
    for name, ago in (("young", 10), ("old", 120), ("ancient", 900)):
        folder = root / EXPORTS / name
        folder.mkdir(parents=True)
        manifest = {"time_range": {"from": f"{day(ago + 5)}T00:00:00Z", "to": f"{day(ago)}T00:00:00Z"}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        (folder / "sft.jsonl").write_text("{}\n")
        (folder / "ledger.jsonl").write_text("{}\n")
    run(root)
    left = sorted(str(path.relative_to(root / EXPORTS)) for path in (root / EXPORTS).glob("*/*"))
    assert left == [
        *("old/ledger.jsonl", "old/manifest.json"),
        *("young/ledger.jsonl", "young/manifest.json", "young/sft.jsonl"),
    ]


def test_the_data_branch_forgets_too_and_a_new_machine_reads_the_same_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = data_branch.remote(tmp_path)
    first = data_branch.clone(tmp_path, "writer")
    fill(first)
    with working_in(first):
        sync.push(Repo(first))
        assert secret("cold") in in_git(bare, tmp_path)
        told = run(first)
        assert told["data branch: days_to_cold"] == 2
    for repository in (bare, first):
        left = in_git(repository, tmp_path)
        assert [name for name in AGES if secret(name) in left] == ["today", "warm"]
        assert "run-cold-1" not in left and "run-warm-1" in left
    other = data_branch.clone(tmp_path, "reader")
    with working_in(other):
        sync.pull(Repo(other), 1000)
        assert figures(other) == figures(first)
        assert sync.pull(Repo(other), 1000) == 0
        sync.push(Repo(other))
        assert secret("cold") not in in_git(bare, tmp_path), "nor does anybody bring it back"
    with store.connect(Repo(other)) as con:
        assert con.execute("select count(*) from events").fetchone() == (8,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("warm: 0", "warm: must be a whole number of days, not 0"),
        ("tepid: 3", "no field tepid; there are hot, warm, cold, gone"),
        ("warm: 400", "must not fall"),
        ("[]", "no mapping"),
    ],
)
def test_ages_that_make_no_sense_are_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "telemetry").mkdir(exist_ok=True)
    (tmp_path / "telemetry/retention.yaml").write_text(text)
    with pytest.raises(BadInput, match=told):
        ages(Repo(tmp_path))


def test_the_shipped_ages_are_the_usual_ones_and_apply_is_a_command(root: Path) -> None:
    from tests.conftest import REPOSITORY

    assert ages(Repo(REPOSITORY)) == Ages()
    assert retention.main(["apply", "--dry-run", "--here", "--root", str(root), "--quiet"]) == cli.OK
