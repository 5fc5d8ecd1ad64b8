"""Prompt texts: the guidelines first, overrides in memory only, paths inside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.manifest import AgentSpec
from agents.texts.prompt_set import PromptSet
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo

SPEC = AgentSpec("a", "m", "f", "macro", prompt="p/own.md", shared_prompts=("p/shared.md",))


@pytest.fixture
def prompts(tmp_path: Path) -> PromptSet:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/shared.md").write_text("Be brief.\n")
    (tmp_path / "p/own.md").write_text("Watch VIX.\n")
    return PromptSet(Repo(tmp_path))


def test_the_shared_text_stands_in_front(prompts: PromptSet) -> None:
    assert prompts.system(SPEC) == "Be brief.\n\n---\n\nWatch VIX."


def test_an_override_reaches_the_system_text_and_not_the_disk(prompts: PromptSet, tmp_path: Path) -> None:
    trial = prompts.with_overrides({"p/shared.md": "Be long."})
    assert trial.system(SPEC).startswith("Be long.")
    assert trial.hash(SPEC) != prompts.hash(SPEC)
    assert (tmp_path / "p/shared.md").read_text() == "Be brief.\n"


def test_an_override_of_another_prompt_changes_nothing(prompts: PromptSet) -> None:
    assert prompts.with_overrides({"p/other.md": "x"}).hash(SPEC) == prompts.hash(SPEC)


@pytest.mark.parametrize("path", ["../x.md", "/etc/passwd", "p/none.md", "p"])
def test_a_path_that_is_no_prompt_is_bad_input(prompts: PromptSet, path: str) -> None:
    with pytest.raises(BadInput):
        prompts.text(path)


@pytest.mark.parametrize("text", ["", "  \n", "x" * 200_001])
def test_an_empty_or_oversized_prompt_is_bad_input(prompts: PromptSet, tmp_path: Path, text: str) -> None:
    (tmp_path / "p/own.md").write_text(text)
    with pytest.raises(BadInput, match=r"p/own\.md: the prompt"):
        prompts.text("p/own.md")
