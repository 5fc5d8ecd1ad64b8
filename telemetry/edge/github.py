"""What a script tells GitHub Actions; outside Actions nothing happens."""

from __future__ import annotations

import os
from pathlib import Path

MAX_SUMMARY = 900_000  # characters; GitHub drops a summary over 1 MiB whole


def job_summary(markdown: str) -> None:
    """Add to the job summary."""
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(markdown[:MAX_SUMMARY].rstrip() + "\n\n")


def set_output(name: str, value: str) -> None:
    """Set a step output. The delimiter is random: values may be hostile."""
    target = os.environ.get("GITHUB_OUTPUT")
    if target:
        fence = f"ratchet-{os.urandom(8).hex()}"
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(f"{name}<<{fence}\n{value}\n{fence}\n")
