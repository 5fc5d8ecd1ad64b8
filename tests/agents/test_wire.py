"""The SDK's place in the process."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPOSITORY


def test_a_process_that_uses_the_sdk_and_duckdb_ends_without_a_word() -> None:
    both = (
        "from agents.model.sdk import sdk; from telemetry.edge.files import here; from telemetry.read import store\n"
        "store.connect(here()); sdk()"
    )
    done = subprocess.run([sys.executable, "-c", both], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
