"""Every script of eval/ keeps the common promises: one JSON document, silence when asked for it, any checkout."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.edge import cli
from tests.conftest import REPOSITORY
from tests.worlds import world

COMMANDS = {
    "harness": ["--agent", "gauge_echo"],
    "ab_testing": ["--prompt", "agents/prompts/gauge_echo.md"],
    "suites": ["list"],
    "replay": ["eval/results/gauge_echo.json"],
    "drift": [],
    "scaffold": ["port_watch"],
    "scores_table": [],
}


@pytest.fixture
def checkout(root: Path) -> Path:
    """A checkout that is not the current directory, with one challenger, one result and baselines for one agent."""
    there = world.toy(root / "there")
    text = (there / "agents/prompts/gauge_echo.md").read_text()
    world.challenger(there, "agents/prompts/gauge_echo.md", text + "\nBe brief.\n")
    for arm in ("naive", "best"):
        world.put(there, f"eval/baselines/gauge_echo.{arm}.md", text)
    return there


def run(name: str, there: Path, *flags: str) -> int:
    if name == "replay":
        assert run("harness", there, "--quiet") == cli.OK
    code: int = importlib.import_module(f"eval.{name}").main([*COMMANDS[name], "--root", str(there), *flags])
    return code


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flags", [["--json"], ["--json", "--quiet"]], ids=" ".join)
def test_json_is_one_document_also_when_quiet(
    name: str, flags: list[str], checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(name, checkout, *flags) == cli.OK
    told = capsys.readouterr()
    assert isinstance(json.loads(told.out), dict)
    assert not told.err or "--quiet" not in flags


@pytest.mark.parametrize("name", COMMANDS)
def test_quiet_is_silent_and_without_it_something_is_said(
    name: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(name, checkout, "--quiet") == cli.OK
    told = capsys.readouterr()
    assert not told.out and not told.err
    if name != "scaffold":  # which cannot be done twice
        assert run(name, checkout) == cli.OK
        assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_only_the_checkout_that_was_named_is_written(name: str, checkout: Path, root: Path) -> None:
    assert run(name, checkout, "--quiet") == cli.OK
    assert not [path for path in root.rglob("*") if path.is_file() and checkout not in path.parents]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_root_that_is_no_checkout_is_bad_input_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"eval.{name}")
    for place in (tmp_path / "nowhere", tmp_path):
        code = module.main([*COMMANDS[name], "--root", str(place)])
        told = capsys.readouterr()
        if name == "suites" and place == tmp_path:
            continue  # no suites yet is no fault
        assert code == cli.BAD_INPUT
        assert told.err.startswith("error: ") and told.err.count("\n") == 1 and not told.out


def test_the_three_functions_work_from_a_plain_script(checkout: Path, tmp_path: Path) -> None:
    """As promised: callable with nothing but their arguments, on the current directory."""
    code = """
import json
from eval.ab_testing import ab_test_prompts
from eval.harness import run_suite
from eval.ab.sequential import paired_test

report = ab_test_prompts(["agents/prompts/gauge_echo.md"], min_trials=1, promote_if_delta=0.01)
results = run_suite("agents.prompted", "PromptedAgent.run", "eval/suites/gauge_echo.jsonl", "out.json")
verdict = paired_test([1.0] * 20, alpha=0.05, min_effect=0.01, weights=None)
stored = json.load(open("out.json"))
print(json.dumps([report["tests"], results, verdict.verdict, verdict.n_used, sorted(stored)]))
"""
    file = tmp_path / "plain.py"
    file.write_text(code)
    found = {**os.environ, "PYTHONPATH": str(REPOSITORY)}  # the toy's package is no part of the installation
    done = subprocess.run(
        [sys.executable, str(file)], cwd=checkout, env=found, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    [test], results, verdict, used, parts = json.loads(done.stdout)
    wanted = {"prompt", "score_A", "score_B", "delta_B_minus_A", "winner", "detail_A", "detail_B"}
    assert wanted <= test.keys()
    for detail in (test["detail_A"], test["detail_B"]):
        assert {"total", "passed", "success_rate"} <= detail["gauge_echo"].keys()
    assert len(results) == 40
    assert {"id", "ok", "score", "output_preview", "latency_ms", "error"} <= results[0].keys()
    assert (verdict, parts) == ("promote", ["metadata", "results", "summary"]) and used <= 20
