"""The lists of packages agree with each other, and every file in them is pinned by its hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTS = ROOT / ".github/requirements"
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*==[^\\\n]*[^\\\n ])", re.MULTILINE)


def pins(path: Path) -> set[str]:
    """Name and version; on which machines it is needed may differ from list to list."""
    return {pin.partition(" ;")[0] for pin in PINNED.findall(path.read_text("utf-8"))}


@pytest.mark.parametrize("name", ["run", "publish", "develop"])
def test_every_package_of_a_list_is_pinned_and_hashed(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (LISTS / f"{name}.txt").read_text("utf-8").strip())
    assert entries
    for entry in entries:
        assert PINNED.match(entry) and "--hash=sha256:" in entry, entry


def test_the_plain_list_is_the_one_of_the_scripts_and_ratchet_itself() -> None:
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    assert "--editable ." in lines
    assert pins(ROOT / "requirements.txt") == pins(LISTS / "run.txt")


def test_one_version_of_a_package_in_all_lists() -> None:
    assert pins(LISTS / "publish.txt") < pins(LISTS / "run.txt") < pins(LISTS / "develop.txt")


def test_no_list_names_a_registry() -> None:
    for path in (*LISTS.glob("*.txt"), ROOT / "requirements.txt"):
        assert "://" not in path.read_text("utf-8")
