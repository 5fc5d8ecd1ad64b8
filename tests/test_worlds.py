"""Tests of the engine stand on worlds of their own, and know no example."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import CONTENT, REPOSITORY

EXAMPLE = ("agents.market", "agents.sample_market", "eval.cases", "eval.build_suites", "tests.market")
FILES = [
    file
    for file in sorted((REPOSITORY / "tests").rglob("*.py"))
    if not file.is_relative_to(REPOSITORY / "tests/market")
]


def imports(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_no_test_of_the_engine_imports_the_example() -> None:
    assert len(FILES) > 50
    found = {
        (file.name, one)
        for file in FILES
        for one in imports(file)
        if f"{one}.".startswith(tuple(f"{name}." for name in EXAMPLE))
    }
    assert not found


@pytest.mark.parametrize("path", ["agents/manifest.yaml", "agents/prompts/x.md", "meta/decisions/x.json"])
def test_reading_what_the_loop_changes_is_refused(path: str, root: Path) -> None:
    with pytest.raises(AssertionError, match="build a small world"):
        (REPOSITORY / path).read_text()
    with pytest.raises(AssertionError, match="build a small world"):
        (root / "link").symlink_to(REPOSITORY / path)
    with pytest.raises(FileNotFoundError):
        (root / path).read_text()
    assert any(f"{REPOSITORY}/{path}".startswith(one) for one in CONTENT)
