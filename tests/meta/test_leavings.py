"""What an earlier workflow of the night did is taken from it; what it did not, is done, once."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meta import handover
from meta.publish import leavings
from telemetry import logger
from telemetry.edge.files import LEAVINGS, Repo
from tests.worlds import proposal_repo as repo

RUNS = "ran.txt"  # the stub scripts of these tests sign here
STUB = "import pathlib, sys\nwith open({ran!r}, 'a') as f: f.write({name!r} + ' ' + ' '.join(sys.argv[1:]) + '\\n')\n"
SCRIPTS = {
    "agents/orchestrator": "agents/outputs/macro_watcher.json",
    "eval/harness": "eval/results/macro_watcher.json",
    "telemetry/rollup": "telemetry/summary.json",
    "meta/critique_loops": "meta/reports/cross_critiques.json",
    "meta/propose": "meta/reports/proposals.json",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = repo.make(tmp_path / "checkout")
    for script, made in SCRIPTS.items():
        leave = (
            f"p = pathlib.Path({made!r})\np.parent.mkdir(parents=True, exist_ok=True)\np.write_text('{{}}')\n"
        )
        text = STUB.format(ran=str(root / ".git" / RUNS), name=script) + leave.replace("{{}}", "{}")
        repo.write(root, f"{script}.py", text)
    repo.write(root, "telemetry/__init__.py", "")
    repo.git(root, "add", "-A")
    repo.git(root, "commit", "-q", "-m", "stubs")
    return root


def run(root: Path, kind: str) -> list[str]:
    """Produce a change of that kind; the scripts that ran for it, with their flags."""
    ran = root / ".git" / RUNS
    ran.write_text("")
    assert handover.main(["produce", "--kind", kind, "--root", str(root), "--quiet"]) == 0
    return [line.strip() for line in ran.read_text().splitlines()]


def another_machine(root: Path) -> None:
    """Only what git holds, and what the data branch brought."""
    repo.git(root, "clean", "-qfdx", "-e", str(LEAVINGS))
    repo.git(root, "checkout", "-q", ".")


def test_a_later_link_repeats_nothing_and_days_are_replayed_for_who_is_new(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_new_here", lambda _: ["late", "later"])
    first = run(checkout, "proposals")
    assert first == [
        "agents/orchestrator --replay 130 --agent late --agent later",
        "agents/orchestrator",
        "eval/harness --split tune",
        "telemetry/rollup",
        "meta/critique_loops",
        "meta/propose",
    ]
    another_machine(checkout)
    assert run(checkout, "proposals") == ["telemetry/rollup", "meta/propose"]
    assert (checkout / "eval/results/macro_watcher.json").read_text() == "{}"
    assert (checkout / "meta/reports/cross_critiques.json").exists()


def test_what_was_made_with_other_prompts_or_last_night_is_made_again(checkout: Path) -> None:
    run(checkout, "proposals")
    another_machine(checkout)
    repo.write(checkout, "agents/prompts/macro_watcher.md", "Merged in between.\n")
    assert "eval/harness --split tune" in run(checkout, "proposals")
    tomorrow = datetime.now(UTC) + timedelta(hours=20)
    assert leavings.take(Repo(checkout), tomorrow) == {}


def hostile(root: Path, step: str, files: object, packed: bytes | None = None) -> None:
    raw = packed if packed is not None else gzip.compress(json.dumps(files).encode())
    row = {
        "ts": logger.utc_now(),
        "run_type": "leaving",
        "step": step,
        "texts": leavings.made_with(Repo(root)),
    }
    text = json.dumps({**row, "packed": base64.b64encode(raw).decode()})
    (root / LEAVINGS).write_text(text + "\n" + '{"torn": \n[]\n"x"\n')


@pytest.mark.parametrize(
    "files",
    [
        {"agents/outputs/../../.github/workflows/ci.yml": "on: push"},
        {"agents/manifest.yaml": "agents: []"},
        {"eval/results/a.json": "{}"},  # another step's
        {"agents/outputs/a.json": 7},
        {"agents/outputs/a.json\n": "{}"},
        ["agents/outputs/a.json"],
        {f"agents/outputs/{number}.json": "{}" for number in range(leavings.MAX_FILES + 1)},
        {"agents/outputs/a.json": "x" * leavings.MAX_BYTES},
    ],
    ids=range(8),
)
def test_a_hostile_line_writes_nothing(checkout: Path, files: object) -> None:
    before = repo.git(checkout, "status", "--porcelain", "--ignored")
    hostile(checkout, "agents.orchestrator", files)
    assert leavings.take(Repo(checkout)) == {}
    (checkout / LEAVINGS).unlink()
    assert repo.git(checkout, "status", "--porcelain", "--ignored") == before


def test_a_line_of_an_unknown_step_or_of_no_archive_is_none(checkout: Path) -> None:
    hostile(checkout, "os.system", {"agents/outputs/a.json": "{}"})
    assert leavings.take(Repo(checkout)) == {}
    hostile(checkout, "agents.orchestrator", None, b"no archive")
    assert leavings.take(Repo(checkout)) == {}
