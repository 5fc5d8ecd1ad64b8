"""Sources that the manifest names: rows with their types, days, and trouble that names row and field."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents import orchestrator
from agents.manifest import Feed, load_manifest
from agents.run.replay import newcomers
from agents.sources.named import open_feed
from agents.sources.source import SourceError
from eval.scaffolding.tables import read_rows
from telemetry.edge import cli
from telemetry.edge.files import Repo
from tests.worlds import world
from tests.worlds.eventlog import line
from tests.worlds.loopback import Loopback, Reply, as_json

CSV = """id,created_at,urgency,text
T-1,2026-03-01T09:00:00Z,5,"down, again"
T-2,2026-03-01,1,hello
T-3,2026-03-02 08:30:00,3,0042
"""
LOADER = """
def load(day):
    return [{"id": "T-1", "day": day}]

def days():
    return ["2026-03-02", "2026-03-01"]

def one(day):
    return {"open": 3}

def wrong(day):
    return [{"id": 1}, "T-2"]

def broken():
    raise ConnectionError("no route")
"""


def feed(root: Path, text: str = CSV, path: str = "data/tickets.csv", **fields: Any) -> Feed:
    world.put(root, path, text)
    return Feed(file=path, **fields)


def loaded(root: Path, feed: Feed, day: str | None = None) -> Any:
    return open_feed(feed, root).load("", day)


def refused(root: Path, feed: Feed) -> str:
    with pytest.raises(SourceError) as caught:
        source = open_feed(feed, root)
        source.days()
        source.load("", None)
    return str(caught.value)


def test_a_csv_becomes_rows_and_a_column_of_numbers_numbers(root: Path) -> None:
    first, *_, last = loaded(root, feed(root))["items"]
    assert first == {
        "id": "T-1",
        "created_at": "2026-03-01T09:00:00Z",
        "urgency": 5,
        "text": "down, again",
    }
    assert last["text"] == "0042", "a text is no number for looking like one"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("data/tickets.jsonl", '{"id": "T-1", "urgency": 5}\n\n{"id": "T-2", "urgency": 1}\n'),
        ("data/tickets.json", '[{"id": "T-1", "urgency": 5}, {"id": "T-2", "urgency": 1}]'),
        ("data/tickets.csv", "\ufeffid,urgency\r\nT-1,5\r\nT-2,1\r\n"),
    ],
)
def test_the_same_rows_come_out_of_every_kind_of_file(root: Path, path: str, text: str) -> None:
    assert loaded(root, feed(root, text, path)) == {
        "items": [{"id": "T-1", "urgency": 5}, {"id": "T-2", "urgency": 1}]
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("data/tickets.csv", "id,text\nT-1,one{0}two\n"),
        ("data/tickets.jsonl", '{{"id": "T-1", "text": "one{0}two"}}\n'),
    ],
)
@pytest.mark.parametrize(
    "mark", ["\u2028", "\u0085", "\x1c"], ids=["line separator", "next line", "file separator"]
)
def test_only_a_line_feed_ends_a_row(root: Path, path: str, text: str, mark: str) -> None:
    written = json.dumps(mark)[1:-1] if mark < " " and path.endswith("l") else mark
    want = [{"id": "T-1", "text": f"one{mark}two"}]
    assert loaded(root, feed(root, text.format(written), path)) == {"items": want}
    assert [row for _, row in read_rows(root / path)] == want


def test_a_folder_is_a_row_per_file_in_order_of_their_names(root: Path) -> None:
    for name in ("b", "a"):
        world.put(root, f"data/tickets/{name}.json", {"id": name})
    world.put(root, "data/tickets/notes.txt", "not a ticket")
    assert loaded(root, Feed(file="data/tickets")) == {"items": [{"id": "a"}, {"id": "b"}]}


def test_a_file_of_one_object_is_what_the_agent_gets(root: Path) -> None:
    assert loaded(root, feed(root, '{"open": 3}', "data/state.json")) == {"open": 3}


def test_by_day_an_agent_gets_the_rows_of_one_day(root: Path) -> None:
    tickets = feed(root, by_day="created_at")
    assert list(open_feed(tickets, root).days()) == ["2026-03-01", "2026-03-02"]
    assert [row["id"] for row in loaded(root, tickets)["items"]] == ["T-3"]
    earlier = loaded(root, tickets, "2026-03-01")
    assert earlier["as_of"] == "2026-03-01"
    assert [row["id"] for row in earlier["items"]] == ["T-1", "T-2"]
    with pytest.raises(SourceError, match=r"file:data/tickets\.csv: no rows of 2026-02-01"):
        loaded(root, tickets, "2026-02-01")


def test_fields_make_types_of_a_csvs_text(root: Path) -> None:
    text = "id,open,score,seen\n7,true,1,\n8,FALSE,2.5,2026-03-01\n"
    types = {"id": "string", "open": "boolean", "score": "number", "seen": "date?"}
    assert loaded(root, feed(root, text, fields=types))["items"] == [
        {"id": "7", "open": True, "score": 1.0, "seen": ""},
        {"id": "8", "open": False, "score": 2.5, "seen": "2026-03-01"},
    ]


@pytest.mark.parametrize(
    ("text", "fields", "told"),
    [
        ("id,n\na,1\nb,high\n", {"fields": {"n": "integer"}}, "row 2: n: must be an integer, not 'high'"),
        ("id,n\na,1\nb,\n", {"fields": {"n": "integer"}}, "row 2: n: missing, must be an integer"),
        ("id,n\na,1.5\n", {"fields": {"n": "integer"}}, "row 1: n: must be an integer, not '1.5'"),
        ("id\na\n", {"fields": {"n": "string"}}, "row 1: n: missing, must be a text"),
        ("id,at\na,2026-03-01\nb,soon\n", {"by_day": "at"}, "row 2: at: must be a date such as 2026-03-02"),
        ("id,at\na,2026-02-30\n", {"by_day": "at"}, "row 1: at: must be a date such as 2026-03-02"),
        ("id\na\n", {"by_day": "at"}, "row 1: at: must be a date such as 2026-03-02, not None"),
        ("id,n\na,1,2\n", {}, "row 1: 3 cells, the first line names 2"),
        ("id,id\na,1\n", {}, "the first line must name every column once"),
        ('id\n"open\n', {}, "not CSV"),
        ("", {}, "the first line must name every column once"),
        ("id,at\n", {"by_day": "at"}, "no rows"),
    ],
)
def test_trouble_names_the_row_and_the_field(
    root: Path, text: str, fields: Mapping[str, Any], told: str
) -> None:
    message = refused(root, feed(root, text, **fields))
    assert told in message
    assert "data/tickets.csv: " in message


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("data/t.jsonl", '{"id": 1}\n{"id":\n', "data/t.jsonl: line 2: not JSON"),
        ("data/t.jsonl", '{"id": 1}\n[2]\n', "data/t.jsonl: row 2: must be an object, not [2]"),
        ("data/t.json", '"hello"', "data/t.json: must be a list of objects, not 'hello'"),
        ("data/t.xlsx", "x", "data/t.xlsx: must be .csv, .jsonl, .json or a folder of JSON files"),
        ("data/t.csv", b"id\n\xff\n", "data/t.csv: not UTF-8"),
    ],
)
def test_trouble_of_other_files_names_the_place(root: Path, path: str, text: str, told: str) -> None:
    assert told in refused(root, feed(root, text, path))


def test_a_missing_file_is_named(root: Path) -> None:
    assert refused(root, Feed(file="data/none.csv")) == "data/none.csv: No such file or directory"


def test_a_function_is_given_the_day(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root))
    world.put(root, "loading_tickets.py", LOADER)
    rows = Feed(call="loading_tickets:load", days="loading_tickets:days")
    assert open_feed(rows, root).days() == ["2026-03-01", "2026-03-02"]
    assert loaded(root, rows, "2026-03-01") == {
        "as_of": "2026-03-01",
        "items": [{"id": "T-1", "day": "2026-03-01"}],
    }
    assert loaded(root, Feed(call="loading_tickets:one"), "2026-03-01") == {"as_of": "2026-03-01", "open": 3}
    told = refused(root, Feed(call="loading_tickets:load", days="loading_tickets:broken"))
    assert told == "loading_tickets:broken: ConnectionError: no route"
    told = refused(root, Feed(call="loading_tickets:broken"))
    assert told.startswith("loading_tickets:broken: TypeError: broken() takes 0 positional arguments")
    told = refused(root, Feed(call="loading_tickets:wrong"))
    assert told == "call:loading_tickets:wrong: row 2: must be an object, not 'T-2'"


def test_an_address_is_asked_once_a_day_and_its_rows_are_at_the_path(root: Path) -> None:
    with Loopback([as_json({"data": {"rows": [{"id": "T-1"}]}})]) as server:
        tickets = Feed(http=f"{server.url}/tickets", json_path="$.data.rows")
        assert loaded(root, tickets) == loaded(root, tickets) == {"items": [{"id": "T-1"}]}
        assert len(server.requests) == 1
        for file in (root / ".ratchet/cache").iterdir():
            os.utime(file, (0, 0))  # a new day
        loaded(root, tickets)
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (as_json({"data": []}), "json_path data.rows: nothing at 'rows'"),
        (as_json({"data": {"rows": [1]}}), "data.rows: row 1: must be an object, not 1"),
        (Reply(404), "HTTP 404"),
        (Reply(200, b"<html></html>"), "an HTML page instead of JSON"),
        (Reply(200, b"{"), "not JSON"),
        (Reply(302, headers={"Location": "http://example.com/x"}), "redirects to another host (http://example.com)"),
        (Reply(200, b"[" + b" " * 4_000_000 + b"]"), "more than 4,000,000 bytes"),
    ],
)  # fmt: skip
def test_an_address_that_gives_nothing_usable_is_named(root: Path, reply: Reply, told: str) -> None:
    with Loopback([reply]) as server:
        message = refused(root, Feed(http=f"{server.url}/tickets?key=s3cret", json_path="data.rows"))
        assert told in message
        assert "s3cret" not in message
        refused(root, Feed(http=f"{server.url}/tickets?key=s3cret", json_path="data.rows"))
        assert len(server.requests) > 1, "an error is not remembered"


def test_a_redirect_on_the_same_host_is_followed(root: Path) -> None:
    with Loopback([Reply(302, headers={"Location": "/there"}), as_json([{"id": 1}])]) as server:
        assert loaded(root, Feed(http=f"{server.url}/here")) == {"items": [{"id": 1}]}


def watcher(root: Path, **inputs: Any) -> None:
    """A world of one agent without code, told to report urgent tickets."""
    prompt = "# Urgent\n\n```rules\nanalyst: threshold\nfield: urgency\nabove: 3\n```\n"
    schema = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "urgency": {"type": "number"}},
    }
    world.put(root, "agents/prompts/urgent.md", prompt)
    world.put(root, "agents/schemas/urgent.json", schema)
    case = {"id": "one", "input": {"items": []}, "expect": [{"grader": "absent"}]}
    world.suite(root, "urgent", [case])
    world.manifest(root, [world.prompted("urgent", inputs=inputs)])


def test_an_agent_runs_on_a_file_and_is_replayed_over_its_days(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put(root, "data/tickets.csv", CSV)
    watcher(root, file="data/tickets.csv", by_day="created_at")
    assert orchestrator.main(["--quiet"]) == cli.OK
    output = json.loads((root / "agents/outputs/urgent.json").read_text())
    assert (output["as_of"], output["source_mode"]) == ("2026-03-02", "snapshot")
    assert [item["id"] for item in output["output"]] == ["T-3"]
    assert orchestrator.main(["--replay", "9", "--quiet", "--json"]) == cli.OK
    assert json.loads(capsys.readouterr().out)["days"] == ["2026-03-01", "2026-03-02"]
    assert orchestrator.main(["--as-of", "2026-01-01"]) == cli.BAD_INPUT
    assert "no day of the sample (2026-03-01 to 2026-03-02)" in capsys.readouterr().err


def test_a_source_in_trouble_is_told_on_the_row_of_its_agent(root: Path) -> None:
    watcher(root, file="data/tickets.csv")
    assert orchestrator.main(["--quiet"]) == cli.STOPPED
    (row,) = world.rows(root)
    assert (row["error_kind"], "data/tickets.csv: No such file" in row["error"]) == ("source", True)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"fil": "data/t.csv"}, "agents.urgent.inputs.fil: unknown field (did you mean file? allowed: file, call"),
        ({}, "agents.urgent.inputs: must be a mapping with just one of file, call, http"),
        ({"file": "a.csv", "http": "https://example.com"}, "must be a mapping with just one of file, call, http"),
        ({"file": "../a.csv"}, "agents.urgent.inputs.file: must be a path inside the repository"),
        ({"file": "a.csv", "json_path": "x"}, "agents.urgent.inputs.json_path: only beside http"),
        ({"file": "a.csv", "fields": {"n": "int"}}, "inputs.fields.n: must be string, integer, number, boolean or"),
        ({"call": "agents.prompted:load"}, "agents.urgent.inputs.call: no 'load' in agents.prompted"),
        ({"http": "ftp://example.com"}, "agents.urgent.inputs.http: must be an address that answers with JSON"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_manifest_says_what_is_allowed(
    root: Path, capsys: pytest.CaptureFixture[str], inputs: dict[str, Any], told: str
) -> None:
    watcher(root, **inputs)
    assert orchestrator.main([]) == cli.BAD_INPUT
    assert told in capsys.readouterr().err


def test_a_script_finds_the_checkout_from_any_folder_inside_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from telemetry.edge.files import working_in

    world.put(root, "loading_more/tickets.py", LOADER)
    watcher(root, call="loading_more.tickets:load")
    inside = root / "data/deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    with working_in(Path()):
        assert orchestrator.main(["--quiet"]) == cli.OK
    assert (root / "agents/outputs/urgent.json").exists()
    assert not (inside / "agents").exists()


def replayed(capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """How many runs a replay made, and how many it found done."""
    assert orchestrator.main(["--replay", "9", "--quiet", "--json"]) == cli.OK
    told = json.loads(capsys.readouterr().out)
    return told["runs"], told["skipped"]


def test_a_newcomer_is_one_with_days_that_nobody_has_replayed_and_that_is_not_here_for_a_week(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def new() -> list[str]:
        return newcomers(Repo(root), load_manifest(Repo(root)))

    watcher(root, file="data/tickets.csv", by_day="created_at")
    assert new() == [], "its source is in trouble: tonight's run tells"
    world.put(root, "data/tickets.csv", CSV)
    assert new() == ["urgent"]
    assert orchestrator.main(["--quiet"]) == cli.OK
    assert new() == ["urgent"], "whoever was tried by hand once is still new"
    assert replayed(capsys) == (2, 0)
    assert new() == []
    earlier = datetime.now(UTC) - timedelta(days=10)
    (root / "telemetry/events.jsonl").write_bytes(
        line(agent="urgent", ts=f"{earlier:%Y-%m-%dT%H:%M:%S}.000Z")
    )
    assert new() == [], "it has days of its own"
    watcher(root, file="data/tickets.csv")
    (root / "telemetry/events.jsonl").unlink()
    assert new() == [], "no days in these rows"


def test_a_day_whose_inputs_changed_is_replayed_anew_and_no_other(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.put(root, "data/tickets.csv", CSV)
    watcher(root, file="data/tickets.csv", by_day="created_at")
    assert replayed(capsys) == (2, 0)
    assert replayed(capsys) == (0, 2)
    world.put(root, "data/tickets.csv", CSV.replace("hello", "hello again"))
    assert replayed(capsys) == (1, 1)


def test_changed_code_and_days_that_the_agent_broke_are_replayed_anew(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "import json, sys\nitems = json.load(sys.stdin)['inputs']['items']\n"
    world.put(root, "watch.py", body + "assert len(items) == 1\nprint('[]')\n")
    world.put(root, "data/tickets.csv", CSV)
    watcher(root, file="data/tickets.csv", by_day="created_at")
    command = {"command": f"{sys.executable} watch.py", "module": None, "callable": None}
    world.change(root, "urgent", **command)
    assert replayed(capsys) == (2, 0)
    assert replayed(capsys) == (1, 1), "the first day had two tickets: it failed, and is tried again"
    world.put(root, "watch.py", body + "print('[]')\n")
    assert replayed(capsys) == (2, 0)
    assert replayed(capsys) == (0, 2)
