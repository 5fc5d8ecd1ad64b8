"""A job that ran model-driven code may hand over anything: each that takes it up refuses it, and does nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval.trials.shards import read_shards
from meta import guard, pull_requests, record
from meta.publish.kinds import KINDS
from meta.pulls import review
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from tests.meta.pulls.place import Place, as_in_a_workflow
from tests.worlds import proposal_repo as repo

FILES = ("change.patch", "meta.json", "report.json", "events.jsonl", "history.jsonl", "shard-1-of-2.jsonl")
FORM = KINDS["ab_champion"]
OUTSIDE = """\
diff --git a/../outside b/../outside
new file mode 100644
--- /dev/null
+++ b/../outside
@@ -0,0 +1 @@
+pwned
"""
CONTENTS: dict[str, bytes | Callable[[Path], object]] = {
    "nothing in it": b"",
    "no text": b"\x00\xff\xfe" * 1000,
    "nested without end": b'{"tests":' * 50_000,
    "no finite number": b'{"tests": [NaN, Infinity, 1e999]}',
    "a number without end": b'{"started": ' + b"9" * 5000 + b"}",
    "the wrong shape": b'{"tests": [{"prompt": ["x"], "arms": {"promoted": true}}], "about": []}',
    "a list": json.dumps([{"agent": "macro_watcher"}]).encode(),
    "words for the runner": b"::set-env name=PATH::/evil\n::add-mask::x\n",
    "a way out of the tree": OUTSIDE.encode(),
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a folder": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("/nowhere/at/all"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, repository_schema: str) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("hostile"))
    repo.write(made.tree, FORM.schema, repository_schema)
    repo.git(made.tree, "add", "-A")
    repo.git(made.tree, "commit", "-qm", "with its schema")
    made.propose()
    yield made
    made.hub.close_down()


@pytest.fixture(scope="module")
def repository_schema() -> str:
    return (Path(__file__).parents[3] / FORM.schema).read_text()


@pytest.fixture
def handover(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    folder, content = tmp_path / "handover", CONTENTS[request.param]
    folder.mkdir()
    for name in FILES:
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            content(folder / name)
    return folder


@pytest.mark.parametrize("handover", CONTENTS, indirect=True)
def test_whoever_takes_up_a_hostile_hand_over_refuses_it_and_changes_nothing(
    place: Place, handover: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    as_in_a_workflow(place.hub, monkeypatch)
    tree, kind, refs = str(place.tree), "--kind=ab_champion", repo.git(place.bare, "show-ref")
    started = f"--started={datetime.now(UTC).isoformat()}"

    assert guard.main(["apply", str(handover), kind, "--root", tree]) in (cli.FOUND, cli.BAD_INPUT)
    assert record.main([str(handover), kind, started, "--root", tree]) in (cli.FOUND, cli.BAD_INPUT)
    settled = pull_requests.main(["settle", kind, "--handover", str(handover), "--root", tree])
    assert settled in (cli.OK, cli.BAD_INPUT)  # no report at all is none that says otherwise
    with pytest.raises(BadInput):
        review.checked(place.repo, FORM, handover)
    with pytest.raises(BadInput):
        read_shards(place.repo, handover)

    assert repo.git(place.tree, "status", "--porcelain") == ""
    assert not (place.tree.parent / "outside").exists()
    assert repo.git(place.bare, "show-ref") == refs
    pull = place.hub.open(FORM.branch)
    assert pull is not None and place.hub.said(pull["number"]) == []
    told = "".join(capfd.readouterr())
    assert "root:" not in told and "Traceback" not in told
    assert not any(line.lstrip().startswith("::") for line in told.splitlines())
