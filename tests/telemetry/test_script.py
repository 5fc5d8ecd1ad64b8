"""The shared edge of every script: exit codes, one-line errors, whole files, job outputs."""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import Repo, here, write_atomic, write_json
from telemetry.logger import log_event
from tests.conftest import REPOSITORY


def run(body: str, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    @cli.entry(lambda: cli.Parser("a script", prog="a"))
    def main(args: argparse.Namespace, repo: Repo) -> int:
        if body == "bad":
            raise BadInput("agents/manifest.yaml: agents.x.timeout_s: must be > 0\nsecond line")
        if body == "stopped":
            raise Stopped("budget of $1 reached")
        if body == "unreadable":
            Path("/no/such/file").read_text()
        if body == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if body == "no room for a row":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
            log_event("unlucky", "r", 1.0)
            log_event("unlucky too", "r", 1.0)
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        if body == "interrupted":
            raise KeyboardInterrupt
        print(repo.root)
        return cli.OK

    code = main(list(argv))
    return code, "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("body", "argv", "code", "said"),
    [
        ("fine", [], 0, ""),
        ("bad", [], 2, "error: agents/manifest.yaml: agents.x.timeout_s: must be > 0 second line\n"),
        ("stopped", [], 3, "stopped early: budget of $1 reached\n"),
        ("unreadable", [], 2, "error: /no/such/file: No such file or directory\n"),
        ("full", [], 3, "stopped early: No space left on device\n"),
        ("no room for a row", [], 3, "/telemetry/events.jsonl: File too large\n"),
        ("interrupted", [], 3, "stopped early: interrupted\n"),
        ("fine", ["--nope"], 2, "a: unrecognized arguments: --nope (see --help)\n"),
        ("fine", ["--root", "/no/such/place"], 2, "error: --root /no/such/place: no such directory\n"),
        ("fine", ["--help"], 0, "usage: a "),
    ],
)
def test_exit_codes_and_one_line_errors(
    body: str, argv: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    got, output = run(body, capsys, *argv)
    assert got == code
    assert said in output


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (cli.whole(0), "0", 0),
        (cli.whole(1), "0", "0: must be a whole number >= 1"),
        (cli.whole(1), "many", "many: must be a whole number >= 1"),
        (cli.whole(1), "1.5", "1.5: must be a whole number >= 1"),
        (cli.number(zero=True), "0", 0.0),
        (cli.number(), "0", "0: must be a number > 0"),
        (cli.number(zero=True), "nan", "nan: must be a number >= 0"),
        (cli.number(zero=True), "inf", "inf: must be a number >= 0"),
        (cli.number(zero=True, most=1), "half", "half: must be a number >= 0 and <= 1"),
        (cli.number(zero=True, most=1), "1.01", "1.01: must be a number >= 0 and <= 1"),
    ],
)
def test_a_number_out_of_range_is_refused_with_what_is_allowed(
    kind: Callable[[str], float], text: str, expected: float | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(argparse.ArgumentTypeError) as refused:
            kind(text)
        assert str(refused.value) == expected
    else:
        assert kind(text) == expected


def test_root_is_the_flag_and_is_given_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = here().root
    (tmp_path / "other").mkdir()
    assert run("fine", capsys, "--root", str(tmp_path / "other")) == (0, f"{tmp_path / 'other'}\n")
    assert here().root == before


def test_a_failed_write_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.json"
    write_atomic(target, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.glob(".report*")) == []


def test_json_is_sorted_stable_and_never_nan(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": "é"})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": "é",\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text())["b"] == 1


def test_outputs_cannot_be_forged_by_their_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    set_output("promoted", "false\nEOF\nadmin=true")
    first, *value, last = (tmp_path / "out").read_text().splitlines()
    assert first == f"promoted<<{last}"
    assert value == ["false", "EOF", "admin=true"] and last not in value


def test_summary_and_outputs_are_no_ops_outside_actions() -> None:
    job_summary("# hello")
    set_output("a", "b")
    assert "GITHUB_OUTPUT" not in os.environ


SCRIPTS = sorted(
    path.relative_to(REPOSITORY)
    for package in ("telemetry", "agents", "eval", "meta")
    for path in (REPOSITORY / package).glob("*.py")
    if "@cli.entry(" in path.read_text()
)
MODULES = ("telemetry.rollup", "agents.orchestrator", "eval.harness", "meta.retirement")


# The night, the workflows and most tests start them by their module: one of each package stands for that here.
@pytest.mark.parametrize("command", [*map(str, SCRIPTS), *(f"-m {module}" for module in MODULES)])
def test_every_script_answers_help_both_ways(command: str) -> None:
    asked = [sys.executable, *command.split(), "--help"]
    done = subprocess.run(asked, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--root" in done.stdout and "--json" in done.stdout
    module = command.removeprefix("-m ").removesuffix(".py").replace("/", ".")
    assert done.stdout.startswith(f"usage: python -m {module} ")


@pytest.mark.parametrize("module", MODULES)
def test_a_package_that_is_not_installed_is_told_in_one_line(module: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    without_site_packages = [sys.executable, "-S", "-m", module]
    done = subprocess.run(without_site_packages, cwd=REPOSITORY, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (cli.BAD_INPUT, "")
    assert done.stderr.endswith(" is not installed here: run make, or activate .venv\n")
    assert done.stderr.count("\n") == 1


def test_no_module_shadows_the_standard_library() -> None:
    for package in ("telemetry", "agents", "eval", "meta"):
        names = {path.stem for path in (REPOSITORY / package).glob("*.py")}
        assert not names & sys.stdlib_module_names
