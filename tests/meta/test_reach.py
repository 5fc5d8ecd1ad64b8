"""The guard refuses by what code can reach; plain computing passes."""

from __future__ import annotations

import pytest

from meta.publish.boundaries import check_python
from meta.publish.contents import REGULAR, Change
from tests.worlds.hostile_code import HARMLESS, HOSTILE, refusals


@pytest.mark.parametrize("line", HOSTILE)
def test_a_way_out_is_refused(line: str) -> None:
    found = refusals(line)
    assert found and not found[0].startswith("is not Python")


@pytest.mark.parametrize("line", HARMLESS)
def test_plain_computing_passes(line: str) -> None:
    assert refusals(line) == []


def test_what_was_there_before_may_stay_but_not_lead_further() -> None:
    before = b"from telemetry.edge.records import is_number\nimport xml.sax\n"
    more = before + b"from telemetry.edge.git import git\nimport xml.dom\n"
    same = Change("agents/level.py", REGULAR, REGULAR, before, before + b"x = 1\n", 1)
    further = Change("agents/level.py", REGULAR, REGULAR, before, more, 2)
    assert list(check_python(same)) == []
    assert [said.partition(":")[0] for said in check_python(further)] == [
        "newly uses telemetry.edge.git.git",
        "newly uses xml.dom",
    ]


@pytest.mark.parametrize(
    "first", ["# coding: utf-7", "\n# vim: set fileencoding=raw_unicode_escape :", "\ufeff"]
)
def test_what_a_person_reads_is_what_python_runs(first: str) -> None:
    after = f"{first}\nx = 1  # +AAo-x = 2 or \\u000ax = 2\n".encode()
    found = list(check_python(Change("agents/level.py", REGULAR, REGULAR, b"x = 1\n", after, 2)))
    assert found and "a person would read another text" in found[0]
