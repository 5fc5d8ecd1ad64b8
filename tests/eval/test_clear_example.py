"""The example goes by one command, with all that is its own, and nothing else."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from agents import orchestrator
from agents.manifest import load_manifest
from eval import harness, scaffold
from eval.ledger.decisions import Decision, write_decision
from telemetry.edge import cli
from telemetry.edge.files import INPUTS, SUITES
from tests.worlds.toy_shop import ToyShop

CLEAR = ["--clear-example", "--yes", "--quiet"]


@pytest.fixture
def shop(root: Path, monkeypatch: pytest.MonkeyPatch) -> ToyShop:
    return ToyShop(root, monkeypatch)


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        return True


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line on stderr of a command that must not go through."""
    capsys.readouterr()
    assert scaffold.main(list(argv)) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_the_manifest_keeps_its_other_lines_and_their_comments(shop: ToyShop) -> None:
    assert scaffold.main(CLEAR) == cli.OK
    assert (
        shop.read("agents/manifest.yaml")
        == """# Who works here.
version: 1

# Nobody touches these.
protected_paths:
  - Makefile

retirement:
  exempt: [keeper] # both are family

critique_pairs: # [critic, target]
  - [keeper, "*"]

agents:
  # My own.
  - name: keeper
    module: agents.prompted
    callable: PromptedAgent.run
    inputs: outputs
    prompt: agents/prompts/keeper.md
    output_schema: agents/schemas/keeper.json
    eval_suite: eval/suites/keeper.jsonl
"""
    )


def test_what_is_the_examples_goes_and_nothing_else(shop: ToyShop) -> None:
    shop.write("agents/prompts/variants/seller/B.md", "Another text\n")
    shop.write("eval/baselines/seller.naive.md", "A naive text\n")
    shop.write("meta/reports/mine.json", '{"agent": "keeper"}')
    for name in ("about.json", "about.md"):
        shop.write(f"meta/reports/{name}", '{"agent": "seller"}')
    for subject in ("seller", "keeper"):
        write_decision(
            shop.repo, Decision("keep", "ab_champion", subject, "2026-03-02", None, None, None, {}, {})
        )
    shop.commit()
    before = shop.files()
    assert scaffold.main(CLEAR) == cli.OK
    assert sorted(before.keys() - shop.files().keys()) == [
        "agents/prompts/seller.md",
        "agents/prompts/variants/seller/B.md",
        "agents/schemas/seller.json",
        "agents/stock.json",
        "eval/baselines/seller.naive.md",
        "eval/suites/seller.jsonl",
        "meta/decisions/2026-03-02-ab_champion-seller.json",
        "meta/reports/about.json",
        "meta/reports/about.md",
        f"{shop.package}/__init__.py",
    ]
    changed = [path for path, data in shop.files().items() if before[path] != data]
    assert sorted(changed) == ["agents/manifest.yaml", "eval/suites/suites.lock.json"]
    assert list(json.loads(shop.read("eval/suites/suites.lock.json"))["suites"]) == ["keeper.jsonl"]


def test_a_file_that_an_agent_who_stays_uses_stays(shop: ToyShop) -> None:
    text = shop.read("agents/manifest.yaml").replace("agents/prompts/keeper.md", "agents/prompts/seller.md")
    shop.write("agents/manifest.yaml", text)
    shop.commit()
    assert scaffold.main(CLEAR) == cli.OK
    assert load_manifest(shop.repo).agent("keeper").prompt == "agents/prompts/seller.md"


def test_it_shows_what_will_go_and_asks(
    shop: ToyShop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shop.files()
    for answer in ("n\n", "\n", ""):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        assert scaffold.main(["--clear-example"]) == cli.OK
        said = capsys.readouterr()
        assert "seller" in said.err and "eval/suites/seller.jsonl" in said.err
        assert said.out == "Nothing was removed.\n"
        assert shop.files() == before
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert scaffold.main(["--clear-example"]) == cli.OK
    assert "removed eval/suites/seller.jsonl" in capsys.readouterr().out
    assert [spec.name for spec in load_manifest(shop.repo).agents] == ["keeper"]


def test_without_a_terminal_it_takes_a_yes(
    shop: ToyShop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    before = shop.files()
    assert "add --yes" in refused(capsys, "--clear-example")
    assert shop.files() == before


@pytest.mark.parametrize("path", ["agents/prompts/seller.md", "notes.txt"])
def test_uncommitted_changes_are_refused(
    shop: ToyShop, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    shop.write(path, "Not yet committed\n")
    before = shop.files()
    assert f"uncommitted changes ({path}" in refused(capsys, *CLEAR)
    assert shop.files() == before


def test_where_git_cannot_bring_it_back_it_is_refused(
    shop: ToyShop, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop.root / ".git").rename(shop.root / ".not-git")
    assert "only in a git checkout" in refused(capsys, *CLEAR)
    assert (shop.root / "agents/prompts/seller.md").exists()


def test_an_agent_whose_code_needs_the_example_is_named(
    shop: ToyShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("meta/helping.py", f"from {shop.package} import DOMAIN\n")
    shop.commit()
    assert f"meta/helping.py imports {shop.package}.DOMAIN" in refused(capsys, *CLEAR)
    shop.write("meta/helping.py", "")
    shop.write(f"{shop.package}/agent.py", "def run(inputs):\n    return []\n")
    text = shop.read("agents/manifest.yaml").rpartition(
        "module: agents.prompted\n    callable: PromptedAgent.run"
    )
    shop.write("agents/manifest.yaml", f"{text[0]}module: {shop.package}.agent\n    callable: run{text[2]}")
    shop.commit()
    before = shop.files()
    assert "keeper still needs the example" in refused(capsys, *CLEAR)
    assert shop.files() == before


def test_an_agent_that_read_the_examples_inputs_goes_on_from_a_file(
    shop: ToyShop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.add_agent("buyer", "orders")
    shop.commit()
    assert scaffold.main(["--clear-example", "--yes"]) == cli.OK
    [told] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("buyer ")]
    assert "agents/inputs/orders.json" in told and "`analyst: counting`" in told
    assert json.loads(shop.read("agents/inputs/orders.json")) == {"items": []}
    assert orchestrator.main(["--agent", "buyer", "--quiet"]) == cli.OK
    assert harness.main(["--agent", "buyer", "--quiet"]) == cli.OK


def test_once_it_is_gone_there_is_nothing_to_do(shop: ToyShop, capsys: pytest.CaptureFixture[str]) -> None:
    assert scaffold.main(CLEAR) == cli.OK
    shop.commit()
    before = shop.files()
    assert scaffold.main(["--clear-example"]) == cli.OK
    assert capsys.readouterr().out == "There is no example here.\n"
    assert shop.files() == before


def test_a_new_agent_starts_where_the_example_was(shop: ToyShop) -> None:
    assert scaffold.main(CLEAR) == cli.OK
    assert scaffold.main(["port_watch", "--quiet"]) == cli.OK
    assert (shop.root / INPUTS / "records.json").exists() and (
        shop.root / SUITES / "port_watch.jsonl"
    ).exists()
    assert orchestrator.main(["--agent", "port_watch", "--quiet"]) == cli.OK
    assert json.loads(shop.read("agents/outputs/port_watch.json"))["output"][0]["id"] == "r0"
    assert harness.main(["--quiet", "--agent", "port_watch"]) == cli.OK
    summary = json.loads(shop.read("eval/results/port_watch.json"))["summary"]
    assert (summary["counted"], summary["passed"]) == (10, 9)


@pytest.mark.parametrize("argv", [[], ["port_watch", "--clear-example"]])
def test_it_takes_a_name_or_the_flag(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "either the NAME" in refused(capsys, *argv)
