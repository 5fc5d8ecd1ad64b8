"""Isolation for every test: a root of its own, no key, no GitHub, no proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from telemetry.edge.repo import working_in

REPOSITORY = Path(__file__).resolve().parent.parent
_FOREIGN = ("OPENAI_", "GITHUB_", "RATCHET_", "TELEMETRY_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

# A busy machine is no reason to fail: nothing here is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty checkout; whatever the test logs or writes lands there."""
    for name in list(os.environ):
        if name.upper().startswith(_FOREIGN):
            monkeypatch.delenv(name)
    (tmp_path / "telemetry").mkdir()
    with working_in(tmp_path):
        yield tmp_path


@pytest.fixture
def toy(root: Path) -> Path:
    """That checkout filled: the rivers, their agents, prompts and suites."""
    from tests.worlds import world

    return world.toy(root)


@pytest.fixture
def repository() -> Path:
    """The real checkout: source files of the engine, never what people or the loop change."""
    return REPOSITORY
