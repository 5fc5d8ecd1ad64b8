"""One night, its site and one browser for all that people look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from meta import night
from tests.worlds import night_checkout, world
from tests.worlds.browser import open_browser

SAID = "the water is over the bank"


@pytest.fixture(scope="package")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout after one night, with its branches left open."""
    root = night_checkout.make(tmp_path_factory.mktemp("lived"))
    with pytest.MonkeyPatch.context() as patch, chdir(root):
        patch.syspath_prepend(str(root))
        assert night.main(["--root", str(root), "--quiet"]) == 0
        world.put(root, "agents/outputs/watcher.json", {"output": [{"id": "gauge", "rationale": SAID}]})
        yield root


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with open_browser() as opened:
        yield opened
