"""One view over sealed and live rows: what counts as a row, what counts as malformed, and the last N."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry import deliberations, logger, retention, rollup
from telemetry.edge.errors import BadInput
from telemetry.edge.files import here
from telemetry.read import rows, store
from telemetry.read.rows import Window
from tests.worlds.eventlog import event, line, write, write_events

MALFORMED = {
    "binary garbage": bytes(range(128, 256)).replace(b"\n", b"") + b"\x00\xff",
    "not an object": b"[1, 2]",
    "a bare number": b"42",
    "an empty object": b"{}",
    "half a line": line()[:40],
    "two events on one line": line() + line(),
    "text for a latency": line(latency_ms="fast"),
    "a number in quotes": line(latency_ms="12"),
    "a flag for a cost": line(cost_usd=True),
    "a list for a reward": line(reward=[1]),
    "NaN": line(reward=0.123456).replace(b"0.123456", b"NaN"),
    "infinity": line(reward=0.123456).replace(b"0.123456", b"1e999"),
    "no agent": line(agent=None),
    "no time": line(ts=None),
    "not a time": line(ts="yesterday, at noon or so"),
    "an impossible day": line(ts="2026-13-01T00:00:00.000Z"),
    "a time without zone": line(ts="2026-10-01T00:00:00.000"),
    "invalid UTF-8": line(model="XX").replace(b"XX", b"\xff\xfe"),
    "a lone surrogate": line(model="XX").replace(b"XX", b"\\ud800"),
    "a lone surrogate beside NaN": line(model="XX", mood=0.123456)
    .replace(b"XX", b"\\ud800")
    .replace(b"0.123456", b"NaN"),
}
WELL_FORMED = {
    "plain": line(),
    "unknown future fields": line(mood="calm", nested={"deep": [None, {"x": 1}]}),
    "a line of 1 MB": line(raw_output="y" * 1_000_000),
    "nulls": line(latency_ms=None, cost_usd=None, reward=None, tokens_in=None),
    "carriage return": line() + b"\r",
    "another kind": line(kind="routing", chosen="reviewer"),
    "tokens that are no number": line(tokens_in="many", signal_strength={}),
    "NaN in what is not summed up": line(mood=0.123456).replace(b"0.123456", b"NaN"),
    "infinity for a name": line(agent=0.123456).replace(b"0.123456", b"-Infinity"),
    "whole seconds": line(ts="2026-10-01T12:00:00Z"),
}


def counted(window: Window | None = None) -> tuple[int, int]:
    """Rows and malformed lines in the view."""
    with store.connect(here(), window) as con:
        sql = "select count(*) filter (where not malformed), count(*) filter (where malformed) from lines"
        found = con.execute(sql).fetchone()
    assert found is not None
    return found[0], found[1]


def ids(window: Window | None = None) -> list[str]:
    with store.connect(here(), window) as con:
        return [found for (found,) in con.execute("select event_id from events order by event_id").fetchall()]


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("window", [Window(), Window(last_n=10)], ids=["scan", "tail"])
def test_a_malformed_line_is_counted_and_hides_no_neighbour(bad: bytes, window: Window) -> None:
    write(line(), bad, line())
    assert counted(window) == (2, 1)
    assert rows.parse(bad) is None


@pytest.mark.parametrize("good", WELL_FORMED.values(), ids=WELL_FORMED.keys())
@pytest.mark.parametrize("window", [Window(), Window(last_n=10)], ids=["scan", "tail"])
def test_a_well_formed_line_is_a_row(good: bytes, window: Window) -> None:
    write(line(), good, line())
    assert counted(window) == (3, 0)


def test_blank_lines_are_neither_rows_nor_malformed() -> None:
    write(line(), b"", b"   ", line(), b"")
    assert counted() == (2, 0)
    assert counted(Window(last_n=10)) == (2, 0)


def test_a_log_that_begins_with_garbage_or_ends_torn_is_read() -> None:
    write(b"\x00\x01garbage", line(), line()[:25], end=b"")
    assert counted() == (1, 2)
    assert counted(Window(last_n=10)) == (1, 2)


def test_without_a_log_the_view_is_empty_and_typed() -> None:
    assert counted() == (0, 0)
    with store.connect(here(), fields=["mood"]) as con:
        assert con.execute("select ts, latency_ms, mood from events").fetchall() == []


def test_an_empty_log_is_no_rows() -> None:
    write()
    assert counted() == (0, 0)
    assert counted(Window(last_n=3)) == (0, 0)


def test_columns_come_typed_and_other_fields_as_text() -> None:
    write(line(mood="calm", note=None, nested={"k": None}))
    with store.connect(here(), fields=["mood", "note", "nested"]) as con:
        sql = "select ts, latency_ms, tokens_in, error, mood, note, nested from events"
        assert con.execute(sql).fetchall() == [
            (datetime(2026, 10, 1, 12), 820.5, 900, None, "calm", None, '{"k":null}')
        ]


def test_sealed_and_live_rows_look_alike() -> None:
    write(line(event_id="a", mood="calm"), line(event_id="b", cost_usd=None))
    with store.connect(here(), fields=["mood"]) as con:
        live = con.execute("select * from events order by event_id").fetchall()
    retention.seal(here(), date(2026, 10, 2))
    assert (here() / store.logger.LOG_PATH).read_bytes() == b""
    with store.connect(here(), fields=["mood"]) as con:
        sealed = con.execute("select * from events order by event_id").fetchall()
    assert live == sealed


def test_the_last_n_are_the_last_appended_even_if_the_clock_went_backwards() -> None:
    write(*(line(event_id=f"{n}", ts=f"2026-10-01T12:00:{59 - n:02d}.000Z") for n in range(10)))
    assert ids(Window(last_n=3)) == ["7", "8", "9"]


def test_the_last_n_count_only_what_matches() -> None:
    sources = ["runtime", "eval", "eval", "runtime", "eval"]
    write(
        *(line(event_id=f"{n}", source=source, kind="run") for n, source in enumerate(sources)),
        line(kind="llm_call"),
    )
    assert ids(Window(last_n=2, kind="run", source="eval")) == ["2", "4"]


@pytest.mark.parametrize("last_n", [1, 7, 40, 99, 100, 500])
def test_the_last_n_reach_from_the_live_log_back_into_sealed_days(last_n: int) -> None:
    written = write_events(100, days=4)
    retention.seal(here(), date(2026, 10, 4))
    expected = sorted(row["event_id"] for row in written[-last_n:])
    assert ids(Window(last_n=last_n)) == expected


def test_since_is_a_bound_on_time_in_every_tier() -> None:
    written = write_events(100, days=4)
    retention.seal(here(), date(2026, 10, 3))
    bound = datetime(2026, 10, 2, 12, tzinfo=UTC)
    expected = [row["event_id"] for row in written if row["ts"] >= "2026-10-02T12"]
    assert ids(Window(since=bound)) == expected
    assert ids(Window(since=bound, last_n=1000)) == expected


def test_rows_too_far_back_for_the_tail_are_found_by_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TAIL_PATIENCE", 10)
    written = [line(event_id=f"e{n}", source="critique", ts=f"2026-10-01T00:00:0{n}.000Z") for n in range(5)]
    write(*written, b"garbage", *(line(event_id=f"x{n}") for n in range(50)))
    assert ids(Window(last_n=3, source="critique")) == ["e2", "e3", "e4"]
    assert counted(Window(last_n=3, source="critique")) == (3, 1)


def test_the_tail_reads_only_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    write_events(20_000)
    read = 0
    real = os.pread

    def counting(descriptor: int, length: int, offset: int) -> bytes:
        nonlocal read
        data = real(descriptor, length, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    assert counted(Window(last_n=100)) == (100, 0)
    assert read <= rows.TAIL_BLOCK


def test_a_connection_is_a_snapshot_that_a_seal_does_not_disturb() -> None:
    write_events(60, days=3)
    with store.connect(here()) as con:
        retention.seal(here(), date(2026, 11, 1))
        assert con.execute("select count(*), count(distinct event_id) from events").fetchone() == (60, 60)
    assert counted() == (60, 0)


@pytest.mark.parametrize("last_n", [0, 9], ids=["scan", "tail"])
@pytest.mark.parametrize("where", ["lines", "one seal", "two seals", "seal and lines", "segments"])
def test_a_row_that_comes_again_is_the_same_row(root: Path, where: str, last_n: int) -> None:
    first, second, later = (
        line(event_id="a"),
        line(event_id="b"),
        line(event_id="c", ts="2026-10-02T12:00:00.000Z"),
    )
    write(first, first, second, b"torn", first, later)
    if where != "lines":
        retention.seal(here(), date(2026, 10, 3))
    if where in ("two seals", "seal and lines"):
        logger.append(second + b"\n" + later + b"\n")
    if where == "two seals":
        retention.seal(here(), date(2026, 10, 3))
    if where == "segments":
        for path in (root / store.SEALED).glob("dt=*/*.parquet"):
            path.with_name("again.parquet").write_bytes(path.read_bytes())
    assert ids(Window(last_n=last_n)) == ["a", "b", "c"]
    assert counted(Window(last_n=last_n)) == (3, 1)


def test_an_id_on_another_day_is_another_row_sealed_or_not() -> None:
    write(line(event_id="a"), line(event_id="a", ts="2026-10-02T12:00:00.000Z"))
    assert ids() == ["a", "a"]
    retention.seal(here(), date(2026, 10, 3))
    assert ids() == ["a", "a"]


@pytest.mark.parametrize("before", [0, 70_000], ids=["first", "later"])
def test_a_line_of_20_mb_is_malformed_before_and_after_a_seal(before: int) -> None:
    write(line(note="x" * before), line(note="x" * 20_000_000), line())
    assert counted() == (2, 1)
    assert counted(Window(last_n=5)) == (2, 1)
    retention.seal(here(), date(2026, 10, 3))
    assert counted() == (2, 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
fields = st.sampled_from(
    ["ts", "agent", "kind", "latency_ms", "cost_usd", "tokens_in", "reward", "error", "new"]
)
mutated = st.dictionaries(fields, json_values, max_size=2).map(
    lambda changes: json.dumps(event(**changes)).encode(errors="replace")
)
any_line = st.one_of(mutated, st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")))


# Few long logs: a look at one costs a tenth of a second, whatever is in it.
@settings(max_examples=12, deadline=None)
@given(st.lists(any_line, min_size=8, max_size=30))
def test_the_scan_and_the_tail_judge_every_line_alike(lines: list[bytes]) -> None:
    write(*lines)
    good = sum(rows.parse(each) is not None for each in lines)
    bad = sum(bool(each.strip()) for each in lines) - good
    assert counted(Window(last_n=100)) == (good, bad)
    assert counted() == (good, bad)


@pytest.mark.parametrize("window", [Window(), Window(last_n=10)], ids=["scan", "tail"])
@pytest.mark.parametrize("name", ["dt=2026-10-01/broken.parquet", "staging/commit.json"])
def test_sealed_data_that_cannot_be_read_is_named_in_one_line(name: str, window: Window, root: Path) -> None:
    write(line())
    path = root / store.SEALED / name
    path.parent.mkdir(parents=True)
    path.write_text("junk")
    with pytest.raises(BadInput) as refused:
        store.connect(here(), window)
    assert path.name in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("sealed", "before", "after"),
    [({"note": "abcdef"}, b'"abcdef"', b'"abc"\xffde'), ({"latency_ms": 1.5}, b"", b"")],
    ids=["bytes that are no text", "a number beyond measure"],
)
def test_a_damaged_day_ends_a_script_in_one_line(
    sealed: dict[str, object], before: bytes, after: bytes, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(line(**sealed))
    retention.seal(here(), date(2026, 12, 1))
    (path,) = (root / "telemetry/sealed").rglob("*.parquet")
    huge = "" if before else "replace (1e300 as latency_ms)"
    with duckdb.connect() as con:
        con.execute(
            f"copy (select * {huge} from '{path}') to '{path}.new' (format parquet, compression uncompressed)"
        )
    path.write_bytes(Path(f"{path}.new").read_bytes().replace(before, after))
    assert (deliberations if before else rollup).main(["--quiet"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: telemetry/sealed: cannot be read: ") and told.count("\n") == 1
    assert ("\\xff" if before else "beyond measure") in told


def test_days_sealed_before_a_column_was_added_are_read_with_it_unknown(root: Path) -> None:
    write(line(input_hash="0123456789ab"))
    retention.seal(here(), date(2026, 12, 1))
    (path,) = (root / "telemetry/sealed").rglob("*.parquet")
    with duckdb.connect() as con:
        con.execute(f"copy (select * exclude (input_hash) from '{path}') to '{path}.old' (format parquet)")
    Path(f"{path}.old").rename(path)
    with store.connect(here()) as con:
        assert con.execute("select agent, input_hash from events").fetchall() == [("macro_watcher", None)]
