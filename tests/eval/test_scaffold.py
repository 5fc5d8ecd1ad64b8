"""A new agent in one command: it loads, it runs, it is graded, and the manifest keeps its comments."""

from __future__ import annotations

import difflib
import importlib
import json
import shlex
from pathlib import Path

import pytest

from eval import scaffold
from eval.scaffolding import write
from telemetry.edge import cli
from tests.worlds.toy_shop import ToyShop


@pytest.fixture
def checkout(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree without a domain."""
    shop = ToyShop(root, monkeypatch)
    assert scaffold.main(["--clear-example", "--yes", "--quiet"]) == cli.OK
    shop.commit()
    return root


def test_every_step_it_names_works(
    checkout: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other.md"
    assert scaffold.main(["port_watch", "--json"]) == cli.OK
    steps = json.loads(capsys.readouterr().out)["next"]
    live = (checkout / "agents/prompts/port_watch.md").read_text()
    other.write_text(live.replace("above: 10", "above: 11"))
    for step in steps:
        python, flag, module, *words = shlex.split(step.replace("FILE", str(other)), comments=True)
        assert (python, flag) == ("python", "-m")
        assert importlib.import_module(module).main(words) == cli.OK, step
    told = capsys.readouterr().out
    assert ": inconclusive, " in told and "at least 30 are needed" in told


def test_the_manifest_only_gains_lines_and_keeps_its_comments(checkout: Path) -> None:
    path = checkout / "agents/manifest.yaml"
    before = path.read_text().splitlines()
    assert scaffold.main(["port_watch", "--quiet"]) == cli.OK
    changes = [line for line in difflib.ndiff(before, path.read_text().splitlines()) if line[0] in "+-"]
    assert all(line.startswith("+") for line in changes)
    assert "+   - name: port_watch" in changes


@pytest.mark.parametrize("name", ["Port", "../x", "9lives", "", "a" * 65, "keeper"])
def test_a_bad_or_taken_name_is_refused_and_nothing_is_written(
    checkout: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    assert scaffold.main([name]) == cli.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_a_file_in_the_way_is_not_overwritten(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "agents/prompts/port_watch.md").write_text("mine")
    assert scaffold.main(["port_watch"]) == cli.BAD_INPUT
    assert "agents/prompts/port_watch.md: exists already" in capsys.readouterr().err
    assert (checkout / "agents/prompts/port_watch.md").read_text() == "mine"


def test_a_failure_midway_leaves_the_checkout_as_it_was(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}

    def broken(*_: object) -> str:
        return "agents: []\n"

    monkeypatch.setattr(write, "with_agent", broken)
    assert scaffold.main(["port_watch"]) == cli.BAD_INPUT
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_a_domain_without_starters_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ToyShop(root, monkeypatch)
    assert scaffold.main(["port_watch"]) == cli.BAD_INPUT
    assert "domain: none that has a starter" in capsys.readouterr().err
