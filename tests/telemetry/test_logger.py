"""The choke point: one whole, redacted, schema-valid line per event, whatever happens around it."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from telemetry import logger, rollup
from telemetry.edge import text
from telemetry.edge.text import MARK, redact, remember
from telemetry.logger import LOG_PATH, log_event, new_run_id
from telemetry.read.rows import parse
from tests.conftest import REPOSITORY

SCHEMA = jsonschema.Draft202012Validator(json.loads((REPOSITORY / "telemetry/event.schema.json").read_text()))


def rows(root: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (root / LOG_PATH).read_text().splitlines() if line]


def test_the_documented_call_leaves_one_schema_valid_line(root: Path) -> None:
    log_event(agent="macro_watcher", run_id=new_run_id(), latency_ms=12.5, cost_usd=0.001, reward=0.4)
    (row,) = rows(root)
    SCHEMA.validate(row)
    assert (row["agent"], row["kind"], row["source"], row["cost_source"]) == (
        "macro_watcher",
        "run",
        "runtime",
        "override",
    )
    assert row["scoring_version"] == "1.0"


def test_it_works_from_a_plain_script_at_the_repository_root(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "from telemetry.logger import log_event\n"
        "log_event(agent='a', run_id='r', latency_ms=1, cost_usd=0.0, reward=0.1)\n"
    )
    subprocess.run([sys.executable, "plain.py"], cwd=tmp_path, check=True)
    assert len((tmp_path / "telemetry/events.jsonl").read_text().splitlines()) == 1


def test_unknown_cost_is_null_and_says_so(root: Path) -> None:
    log_event("a", "r", 1.0)
    (row,) = rows(root)
    SCHEMA.validate(row)
    assert row["cost_usd"] is None and row["cost_source"] == "unknown"


def test_the_source_of_a_block_is_on_its_rows_and_typos_are_refused(root: Path) -> None:
    with logger.source("eval"):
        log_event("a", "r", 1.0)
    log_event("a", "r", 1.0)
    assert [row["source"] for row in rows(root)] == ["eval", "runtime"]
    with pytest.raises(ValueError, match="allowed are runtime"), logger.source("evals"):
        raise AssertionError("not reached")


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSONISH, error=st.none() | st.text())
def test_any_field_becomes_exactly_one_strict_json_line(root: Path, value: object, error: str | None) -> None:
    log = root / LOG_PATH
    log.unlink(missing_ok=True)
    log_event("a", "r", 1.0, error=error, extra=value)
    data = log.read_bytes()
    assert data.count(b"\n") == 1 and data.endswith(b"\n")

    def no_constant(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    SCHEMA.validate(json.loads(data, parse_constant=no_constant))


def test_what_json_cannot_hold_is_a_marked_string(root: Path) -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    log_event("a", "r", 1.0, thing=object(), huge=2**70, lone="\ud800", cycle=cycle, nan=float("nan"))
    (row,) = rows(root)
    assert row["thing"] == "[unserialisable object]"
    assert row["huge"] == "[integer of 71 bits]"
    assert "nested too deeply" in json.dumps(row["cycle"])
    assert row["nan"] is None


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop1234567890",
        "ghp_0123456789abcdefghij0123456789abcdef",
        "github_pat_11ABCDEFG0abcdefghijklmnop",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghij",
    ],
)
@pytest.mark.parametrize("place", ["error", "field", "nested"])
def test_keys_never_reach_the_log(root: Path, secret: str, place: str) -> None:
    text = f"Incorrect API key provided: {secret}."
    if place == "error":
        log_event("a", "r", 1.0, error=text)
    elif place == "field":
        log_event("a", "r", 1.0, note=text)
    else:
        log_event("a", "r", 1.0, note={"headers": [text]})
    line = (root / LOG_PATH).read_text()
    assert secret not in line and MARK in line


@pytest.mark.parametrize("place", ["agent", "run_id", "task_id", "note", "kind of error", "beside vouched"])
def test_a_short_secret_is_found_wherever_others_have_a_word(root: Path, place: str) -> None:
    remember("hunter-22")
    with logger.task(task_id="hunter-22" if place == "task_id" else "t"):
        log_event(
            "hunter-22" if place == "agent" else "a",
            "hunter-22" if place == "run_id" else "r",
            1.0,
            error_kind="hunter-22" if place == "kind of error" else None,
            note="hunter-22" if place == "note" else "",
            messages=[{"sha256": "0" * 64}],
            raw="hunter-22" if place == "beside vouched" else "",
            ours=frozenset({"messages"}),
        )
    line = (root / LOG_PATH).read_text()
    assert "hunter-22" not in line and MARK in line


@given(
    st.sampled_from([text._SECRET, text._BEARER, text._URL_LOGIN]).flatmap(st.from_regex),
    st.text(max_size=9),
    st.text(max_size=9),
)
def test_no_look_is_spared_that_would_find_a_secret(secret: str, before: str, after: str) -> None:
    told = f"{before}{secret}{after}"
    found = any(one.search(told) for one in (text._SECRET, text._BEARER, text._URL_LOGIN))
    assert text.may_hold_secret(told) or not found


def test_bearer_tokens_logins_in_urls_and_remembered_keys_are_redacted() -> None:
    assert redact("Authorization: Bearer abcdefgh12345678") == f"Authorization: Bearer {MARK}"
    assert redact("https://user:hunter22@host/x") == f"https://{MARK}@host/x"
    remember("plain-looking-value")
    assert redact("it is plain-looking-value!") == f"it is {MARK}!"
    assert redact("a risk-weighted signal") == "a risk-weighted signal"
    assert redact("a risk-adjusted-returns desk") == "a risk-adjusted-returns desk"


def test_an_unterminated_tail_is_closed_off_first(root: Path) -> None:
    (root / LOG_PATH).write_bytes(b'{"half": "a li')
    log_event("a", "r", 1.0)
    first, second = (root / LOG_PATH).read_bytes().splitlines()
    assert first == b'{"half": "a li' and json.loads(second)["agent"] == "a"


def test_a_tail_torn_by_another_writer_between_our_appends_is_closed_off(root: Path) -> None:
    log_event("a", "r", 1.0)
    with (root / LOG_PATH).open("ab") as other:
        other.write(b'{"torn')
    log_event("b", "r", 1.0)
    lines = (root / LOG_PATH).read_bytes().splitlines()
    assert lines[1] == b'{"torn' and json.loads(lines[2])["agent"] == "b"


def test_after_a_rename_the_next_event_goes_to_the_new_file(root: Path) -> None:
    log_event("before", "r", 1.0)
    (root / LOG_PATH).rename(root / "sealed.jsonl")
    log_event("after", "r", 1.0)
    assert [row["agent"] for row in rows(root)] == ["after"]


FULL_DISK = """
import os, resource, signal
from telemetry.logger import log_event
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log_event('first', 'r', 1.0)
size = os.path.getsize('telemetry/events.jsonl')
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
log_event('lost', 'r', 1.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log_event('next', 'r', 1.0)
"""


def test_a_full_disk_loses_only_the_last_event_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = (tmp_path / LOG_PATH).read_bytes().splitlines()
    assert json.loads(lines[0])["agent"] == "first"
    assert json.loads(lines[-1])["agent"] == "next"
    assert len(lines) == 3 and len(lines[1]) == 100
    assert "was not written" in done.stderr and "No space left on device" in done.stderr


def test_an_unwritable_log_never_raises(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / LOG_PATH).mkdir()
    log_event("unlucky", "r", 1.0)
    assert "an event of 'unlucky' was not written" in capsys.readouterr().err


STORM = """
import sys
from telemetry.logger import log_event
for i in range(int(sys.argv[2])):
    log_event(sys.argv[1], 'r', 1.0, n=i, filler='x' * (i % 300))
"""


def test_many_processes_lose_tear_and_duplicate_nothing(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", STORM, f"w{w}", "1500"], cwd=tmp_path) for w in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    seen = [(row["agent"], row["n"]) for row in rows(tmp_path)]
    assert sorted(seen) == sorted((f"w{w}", n) for w in range(4) for n in range(1500))


def test_a_killed_writer_tears_at_most_its_last_line_and_leaves_no_lock(root: Path) -> None:
    """A kill may cut a write short: the next writer closes that line off, and only that one is lost."""
    log = root / LOG_PATH
    for kill in range(5):
        before = log.stat().st_size if log.exists() else 0
        writer = subprocess.Popen([sys.executable, "-c", STORM, "killed", "1000000"], cwd=root)
        while not log.exists() or log.stat().st_size < before + 20_000:
            assert writer.poll() is None
            time.sleep(0.005)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        with log.open("r+b") as rest:
            fcntl.flock(rest, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if somebody held it
            if kill % 2:  # such a cut is rare: make sure of two
                rest.truncate(log.stat().st_size - 9)
    log_event("alive", "r", 1.0, n=0)

    *lines, end = log.read_bytes().split(b"\n")
    assert end == b""
    numbers = [row and row["n"] for row in map(parse, lines)]
    torn = numbers.count(None)
    assert 2 <= torn <= 5
    assert numbers.count(0) == 5 + 1 and numbers[-1] == 0
    for this, following in itertools.pairwise(numbers):
        assert following in ((0,) if this is None else (0, None, this + 1))
    told = rollup.rollup(0)
    assert (told["count"], told["malformed_lines"]) == (len(lines) - torn, torn)


def test_a_forked_child_takes_its_own_lock_and_its_own_ids(root: Path) -> None:
    log_event("parent", "r", 1.0)
    child = os.fork()
    if child == 0:
        log_event("child", "r", 1.0)
        os._exit(0)
    os.waitpid(child, 0)
    log_event("parent", "r", 1.0)
    ids = [row["event_id"] for row in rows(root)]
    assert len(set(ids)) == 3


def test_appending_waits_for_whoever_holds_the_lock(root: Path) -> None:
    log_event("a", "r", 1.0)
    with (root / LOG_PATH).open("rb") as sealer:
        fcntl.flock(sealer, fcntl.LOCK_EX)
        writer = subprocess.Popen([sys.executable, "-c", STORM, "late", "1"], cwd=root)
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.5)
        assert len(rows(root)) == 1
    assert writer.wait() == 0
    assert len(rows(root)) == 2
