"""Every script of eval/ keeps the common promises: one JSON document, silence when asked for it, any checkout."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.edge import cli

COMMANDS = {
    "harness": ["--agent", "vix_echo"],
    "ab_testing": ["--prompt", "agents/prompts/vix_echo.md"],
    "suites": ["list"],
    "replay": ["eval/results/vix_echo.json"],
    "scaffold": ["port_watch"],
    "build_suites": ["vix_echo"],
    "scores_table": [],
}


@pytest.fixture
def checkout(root: Path, repository: Path) -> Path:
    """A checkout that is not the current directory, with one challenger and one result."""
    there = root / "there"
    for folder in ("agents/prompts", "agents/schemas", "eval/suites"):
        shutil.copytree(repository / folder, there / folder)
    shutil.copytree(repository / "eval/baselines", there / "eval/baselines", ignore=_all_but_vix)
    shutil.copy(repository / "agents/manifest.yaml", there / "agents/manifest.yaml")
    folder = there / "agents/prompts/variants/vix_echo"
    folder.mkdir(parents=True, exist_ok=True)
    text = (there / "agents/prompts/vix_echo.md").read_text()
    (folder / "champion.md").write_text(text)
    (folder / "B.md").write_text(text + "\nBe brief.\n")
    return there


def _all_but_vix(_: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("vix_echo")]


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
        if name in ("suites", "build_suites") and place == tmp_path:
            continue  # no suites yet is no fault; a rebuild writes them
        assert code == cli.BAD_INPUT
        assert told.err.startswith("error: ") and told.err.count("\n") == 1 and not told.out


def test_the_three_functions_work_from_a_plain_script(checkout: Path, tmp_path: Path) -> None:
    """As promised: callable with nothing but their arguments, on the current directory."""
    code = """
import json
from eval.ab_testing import ab_test_prompts
from eval.harness import run_suite
from eval.ab.sequential import paired_test

report = ab_test_prompts(["agents/prompts/vix_echo.md"], min_trials=1, promote_if_delta=0.01)
results = run_suite("agents.prompted", "PromptedAgent.run", "eval/suites/vix_echo.jsonl", "out.json")
verdict = paired_test([1.0] * 20, alpha=0.05, min_effect=0.01, weights=None)
stored = json.load(open("out.json"))
print(json.dumps([report["tests"], results, verdict.verdict, verdict.n_used, sorted(stored)]))
"""
    file = tmp_path / "plain.py"
    file.write_text(code)
    done = subprocess.run([sys.executable, str(file)], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [test], results, verdict, used, parts = json.loads(done.stdout)
    wanted = {"prompt", "score_A", "score_B", "delta_B_minus_A", "winner", "detail_A", "detail_B"}
    assert wanted <= test.keys()
    for detail in (test["detail_A"], test["detail_B"]):
        assert {"total", "passed", "success_rate"} <= detail["vix_echo"].keys()
    assert len(results) == 28
    assert {"id", "ok", "score", "output_preview", "latency_ms", "error"} <= results[0].keys()
    assert (verdict, parts) == ("promote", ["metadata", "results", "summary"]) and used <= 20
