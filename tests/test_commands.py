"""The page of commands says what the scripts say."""

from __future__ import annotations

import sys

import pytest

from tests import commands


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="argparse lays out its help differently elsewhere"
)
@pytest.mark.parametrize("package", commands.PACKAGES)
def test_the_page_of_commands_is_what_the_scripts_say(package: str) -> None:
    page = commands.PAGE.read_text(encoding="utf-8")  # where the example was removed, it may say more
    drifted = [part.partition("</summary>")[0] for part in commands.parts(package) if part not in page]
    assert not drifted, "a --help has changed: make docs"
