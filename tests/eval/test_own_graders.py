"""Graders of one's own: checked and pinned with the suite, and never an agent's loss when they fail."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from eval import suites
from eval.grading import own
from eval.grading.graders import grade, passes
from eval.grading.own import GraderError
from eval.grading.suite import load_suite
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from tests.worlds import world

_NUMBERS = itertools.count()  # a module is imported once: each world has one of its own
CODE = """
import random

def polite(found, wanted):
    return ("please" in found.lower()) / wanted.get("of", 1), "manners"

def number(found, wanted):
    return 7

def moody(found, wanted):
    return random.random()

def vandal(found, wanted):
    wanted["seen"] = True
    return 1.0

def broken(found, wanted):
    raise KeyError("x")

def endless(found, wanted):
    while True:
        wanted = dict(wanted)

NOT = 3
"""


@pytest.fixture
def module(root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(root))
    name = f"own_grading_{next(_NUMBERS)}"
    world.put(root, f"{name}.py", CODE)
    return name


def case(grader: str, **wanted: Any) -> dict[str, Any]:
    return {"id": "one", "input": {}, "expect": [{"grader": grader, "path": "0.reply", **wanted}]}


def pinned(root: Path, grader: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    from eval.grading.suite import write_suite

    write_suite(Repo(root), Path("eval/suites/reply.jsonl"), [case(grader)])
    code = suites.main(["pin", "reply"])
    return code, capsys.readouterr().err


def test_it_scores_what_is_found_at_its_path(module: str) -> None:
    expect = case(f"{module}:polite", of=2)["expect"]
    found = grade(expect, [{"reply": "Please wait."}])
    assert (found.score, found.ok, found.parts[0].reason) == (0.5, False, "manners")
    assert grade(expect, []).parts[0].reason == "missing"
    assert not passes([{"grader": f"{module}:broken", "path": ""}], [])


def test_a_suite_with_one_is_pinned_with_its_source(
    root: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pinned(root, f"{module}:polite", capsys)[0] == cli.OK
    assert load_suite(Repo(root), "eval/suites/reply.jsonl").pinned
    world.put(root, f"{module}.py", CODE + "\n# another\n")
    with pytest.raises(BadInput, match=rf"its graders \({module}\) changed since it was pinned"):
        load_suite(Repo(root), "eval/suites/reply.jsonl")
    assert not load_suite(Repo(root), "eval/suites/reply.jsonl", allow_unpinned=True).pinned
    assert suites.main(["pin", "reply"]) == cli.OK
    assert load_suite(Repo(root), "eval/suites/reply.jsonl").pinned


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("number", "must return a score in 0..1, not 7"),
        ("moody", "for the same value; it must be pure"),
        ("vandal", "changes what it is given; it must be pure"),
        ("broken", "KeyError: 'x'"),
        ("none", "cannot be loaded"),
        ("NOT", "is not a function"),
    ],
)
def test_one_that_is_no_grader_is_refused_when_it_is_pinned(
    root: Path, module: str, function: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = pinned(root, f"{module}:{function}", capsys)
    assert (code, told in said) == (cli.BAD_INPUT, True), said


def test_a_misspelt_grader_is_told_what_there_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = pinned(root, "exakt", capsys)
    assert code == cli.BAD_INPUT and '"exakt" is not one of ["exact", ' in said


def test_one_that_fails_in_a_trial_says_so(module: str) -> None:
    with pytest.raises(GraderError, match="AttributeError") as caught:
        grade(case(f"{module}:polite")["expect"], [{"reply": 3}])
    assert caught.value.error_kind == "source", "the trial is inconclusive, not lost"


@pytest.mark.parametrize("wanted", [{"grader": "endless"}, {"grader": "regex", "pattern": "^(a+)+$"}])
def test_one_that_does_not_end_is_ended(
    module: str, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, str]
) -> None:
    monkeypatch.setattr(own, "LIMIT_S", 0.02)
    name = wanted["grader"] if "pattern" in wanted else f"{module}:{wanted['grader']}"
    with pytest.raises(GraderError, match=r"no score after 0\.02 s of computing"):
        grade([{**wanted, "grader": name}], "a" * 40 + "!")
