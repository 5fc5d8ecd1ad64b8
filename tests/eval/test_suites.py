"""Suites: schema-checked, split by hash, pinned, and refused by name when they changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval import suites as script
from eval.grading import suite as suites
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SUITES, here, working_in

CASE = {"id": "one-0001", "input": {"x": 1}, "expect": [{"grader": "exact", "path": "0.a", "value": 1}]}


@pytest.fixture
def root(tmp_path: Path) -> Any:
    (tmp_path / SUITES).mkdir(parents=True)
    with working_in(tmp_path):
        yield tmp_path


def write(*cases: object, name: str = "demo") -> Path:
    path = SUITES / f"{name}.jsonl"
    suites.write_suite(here(), path, cases)  # type: ignore[arg-type]
    return path


def test_a_pinned_suite_loads(root: Path) -> None:
    path = write(CASE, CASE | {"id": "one-0002", "tags": ["hard"], "threshold": 0.5})
    assert script.main(["pin", "--root", str(root)]) == cli.OK
    suite = suites.load_suite(here(), path)
    assert (suite.name, suite.pinned, len(suite.cases)) == ("demo", True, 2)
    assert (suite.cases[1].tags, suite.cases[1].threshold) == (("hard",), 0.5)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_large_suite_is_not_held_and_has_the_same_cases(
    root: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    fresh = {"split": "fresh", "since": "2026-11-18", "tags": ["new"]}
    cases = [CASE | {"id": f"one-{at:04}"} | (fresh if at % 4 == 0 else {}) for at in range(20)]
    path = write(*cases)
    lines = (root / path).read_bytes().splitlines()
    (root / path).write_bytes((end or b"\n").join(lines) + end)
    small = suites.load_suite(here(), path, allow_unpinned=True)
    monkeypatch.setattr(suites, "LARGE", 5)
    large = suites.load_suite(here(), path, allow_unpinned=True)
    assert isinstance(large.cases, suites.Lines) and large.cases[3] is not large.cases[3]
    assert [case.hash for case in large.cases] == [case.hash for case in small.cases]
    for part in ("all", "tune", "holdout", "fresh"):
        assert tuple(large.part(part)) == small.part(part)
        assert tuple(large.part(part)[1::3]) == small.part(part)[1::3]
    assert large.settled_sha256 == small.settled_sha256


def test_a_changed_suite_is_refused_by_name_until_pinned_again(root: Path, capsys: Any) -> None:
    path = write(CASE)
    other = write(CASE, name="other")
    suites.pin(here(), [path, other])
    write(CASE | {"input": {"x": 2}})
    with pytest.raises(BadInput, match=r"eval/suites/demo\.jsonl: suite demo changed since it was pinned"):
        suites.load_suite(here(), path)
    assert suites.load_suite(here(), other).pinned
    assert script.main(["check", "--root", str(root)]) == cli.FOUND
    assert "python -m eval.suites pin demo" in capsys.readouterr().out
    assert not suites.load_suite(here(), path, allow_unpinned=True).pinned
    assert suites.pin(here(), [path, other]) == ["demo"]
    assert suites.load_suite(here(), path).pinned


def test_a_suite_never_pinned_says_so(root: Path) -> None:
    with pytest.raises(BadInput, match="suite demo is not pinned"):
        suites.load_suite(here(), write(CASE))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (CASE | {"split": "tune", "since": "2026-11-18"}, "split"),
        (CASE | {"split": "fresh"}, "since"),
        (CASE | {"since": "18 Nov"}, "since"),
        (CASE | {"id": "UPPER"}, "id"),
        (CASE | {"family": ""}, "family"),
        (CASE | {"expect": []}, "expect"),
        (CASE | {"expect": [{"grader": "vibes"}]}, r"expect\.0\.grader"),
        (CASE | {"expect": [{"grader": None, "value": 1}]}, r"expect\.0\.grader"),
        (CASE | {"expect": [{"grader": ["x"], "value": 1}]}, r"expect\.0\.grader"),
        (CASE | {"expect": [{"grader": "exact"}]}, r"expect\.0"),
        (CASE | {"expect": [{"grader": "json_schema", "schema": {"type": 7}}]}, r"expect\.0\.schema"),
        (CASE | {"expect": [{"grader": "regex", "pattern": "(?<year>"}]}, r"expect\.0\.pattern"),
        (CASE | {"threshold": 0}, "threshold"),
        ({"id": "one"}, "input"),
        ("text", "object"),
    ],
)
def test_a_bad_case_names_file_line_and_field(root: Path, case: object, message: str) -> None:
    with pytest.raises(BadInput, match=rf"demo\.jsonl:2: .*{message}"):
        suites.pin(here(), [write(CASE, case)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(CASE) + "\n" + json.dumps(CASE), "demo.jsonl:2: id: 'one-0001' is used twice"),
        (json.dumps(CASE) + "\n{", "demo.jsonl:2: not JSON"),
        ("", "demo.jsonl: the suite holds no case"),
    ],
)
def test_a_bad_file_names_its_line(root: Path, text: str, message: str) -> None:
    path = SUITES / "demo.jsonl"
    (root / path).write_text(text)
    with pytest.raises(BadInput) as refused:
        suites.load_suite(here(), path, allow_unpinned=True)
    assert message in str(refused.value)


def test_a_missing_suite_and_a_broken_lock_are_bad_input(root: Path, capsys: Any) -> None:
    for command in ("pin", "check", "list"):
        assert script.main([command, "nobody", "--root", str(root)]) == cli.BAD_INPUT
        assert "eval/suites/nobody.jsonl: no such suite" in capsys.readouterr().err
    path = write(CASE)
    for broken in ("[]", '{"suites": {"x.jsonl": {"sha256": {"a": 1}}}}'):
        (root / SUITES / suites.LOCK).write_text(broken)
        with pytest.raises(BadInput, match="not a lock file"):
            suites.load_suite(here(), path)


def test_the_split_is_the_parity_of_the_first_byte_of_the_hash() -> None:
    # `printf abc | sha256sum` and so on: published test vectors, not our own output.
    assert suites.split("abc") == "tune"  # ba7816bf...: 0xba is even
    assert suites.split("hello") == "tune"  # 2cf24dba...
    assert suites.split("world") == "tune"  # 486ea462...
    assert suites.split("a") == "tune"  # ca978112...
    assert suites.split("test") == "holdout"  # 9f86d081...


@given(number=st.integers(0, 9999), family=st.text("abcdefghij0123456789-", min_size=3, max_size=12))
def test_a_family_stands_on_one_side_whatever_its_cases_are_called(number: int, family: str) -> None:
    case = suites.Case(f"case-{number}", {}, (), family=family)
    assert case.split == suites.split(family)
    alone = suites.Case(f"case-{number}", {}, ())
    assert (alone.family, alone.split) == (alone.id, suites.split(alone.id))


def test_the_list_tells_families_and_what_a_trivial_answer_passes(root: Path, capsys: Any) -> None:
    expect = [{"grader": "set_f1", "path": "*.a", "values": []}]
    families = ["test", "test", "abc"]  # holdout, holdout, tune: see below
    write(*(CASE | {"id": f"one-{at}", "family": name, "expect": expect} for at, name in enumerate(families)))
    write(CASE, name="other")
    assert script.main(["pin", "--root", str(root)]) == cli.OK
    [warning] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("demo: always")]
    assert warning.startswith("demo: always answering nothing passes 100 % of tune, 100 % of holdout: read")
    assert script.main(["list", "demo", "--root", str(root)]) == cli.OK
    told = "demo: 3 cases (1 tune of 1 families, 2 holdout of 1 families), as pinned; always nothing passes 100 %"
    assert told in capsys.readouterr().out


@given(stem=st.text("abcdefghij0123456789-", min_size=1, max_size=12))
def test_the_split_is_about_half(stem: str) -> None:
    # 400 fair coins: outside 140..260 about once in 10^9
    assert 140 <= sum(suites.split(f"{stem}-{number:04}") == "tune" for number in range(400)) <= 260


FRESH = CASE | {"id": "new-0001", "family": "new", "since": "2026-08-20", "split": "fresh"}


def test_fresh_cases_are_in_neither_half(root: Path, capsys: Any) -> None:
    suites.pin(here(), [path := write(CASE, FRESH)])
    suite = suites.load_suite(here(), path)
    assert [case.id for case in suite.part("fresh")] == ["new-0001"]
    assert [case.id for case in suite.part("all")] == ["one-0001"]
    assert script.main(["list", "--root", str(root)]) == cli.OK
    assert "1 fresh of 1 families" in capsys.readouterr().out


def test_what_comes_in_fresh_leaves_the_name_of_the_deciding_cases_alone(root: Path) -> None:
    suites.pin(here(), [path := write(CASE)])
    alone = suites.load_suite(here(), path)
    assert alone.settled_sha256 == alone.sha256
    names = set()
    for others in ([FRESH], [FRESH, FRESH | {"id": "new-0002"}]):
        suites.pin(here(), [write(CASE, *others)])
        names.add(suites.load_suite(here(), path).settled_sha256)
    assert len(names) == 1


@pytest.mark.parametrize(("today", "settled"), [("2026-11-17", False), ("2026-11-18", True)])
def test_a_fresh_case_joins_the_half_of_its_family_after_90_days(
    root: Path, today: str, settled: bool
) -> None:
    by_hand = b'{"id": "odd-spacing", "input": 1, "expect": [{"grader": "exact", "value": 1}]}\n'
    path = write(CASE, FRESH)
    (root / path).write_bytes(by_hand + (root / path).read_bytes())
    suites.pin(here(), [path])
    assert script.main(["settle", "--today", today, "--root", str(root)]) == cli.OK
    case = suites.load_suite(here(), path).cases[2]
    assert case.split == (suites.split("new") if settled else "fresh")
    assert case.since == "2026-08-20"
    assert (root / path).read_bytes().startswith(by_hand)
    before = (root / path).read_bytes()
    assert script.main(["settle", "--today", today, "--root", str(root)]) == cli.OK
    assert (root / path).read_bytes() == before


def test_a_suite_that_nobody_pinned_is_not_settled(root: Path, capsys: Any) -> None:
    suites.pin(here(), [path := write(FRESH)])
    write(FRESH, CASE)
    before = (root / path).read_bytes()
    assert script.main(["settle", "--today", "2027-01-01", "--root", str(root)]) == cli.BAD_INPUT
    assert "changed since it was pinned" in capsys.readouterr().err
    assert (root / path).read_bytes() == before
