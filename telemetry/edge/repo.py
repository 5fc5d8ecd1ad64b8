"""The checkout being worked on, and where everything stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# What people and pull requests change.
MANIFEST = Path("agents/manifest.yaml")
PROMPTS = Path("agents/prompts")
VARIANTS = PROMPTS / "variants"
SCHEMAS = Path("agents/schemas")
INPUTS = Path("agents/inputs")  # where no domain has a source: <kind>.json
SUITES = Path("eval/suites")
BASELINES = Path("eval/baselines")
DECISIONS = Path("meta/decisions")
REPORTS = Path("meta/reports")

# What running leaves behind; git ignores it.
EVENTS = Path("telemetry/events.jsonl")
SEALED = Path("telemetry/sealed")  # below it: dt=YYYY-MM-DD/*.parquet
SUMMARY = Path("telemetry/summary.json")
CHARTS = Path("telemetry/charts")
OUTPUTS = Path("agents/outputs")
RESULTS = Path("eval/results")  # no hidden folder: artifacts leave those out
HISTORY = Path("eval/history.jsonl")
SCRATCH = Path(".ratchet")

_here = Path()


@dataclass(frozen=True, slots=True)
class Repo:
    """One checkout; `repo / MANIFEST` is its manifest."""

    root: Path

    def __truediv__(self, path: str | Path) -> Path:
        return self.root / path


def here() -> Repo:
    """The checkout of `--root`, else the current directory: what a script hands to everything below it."""
    return Repo(_here)


@contextmanager
def working_in(root: Path) -> Iterator[Repo]:
    """Work on another checkout for the length of the block."""
    global _here
    before, _here = _here, root
    try:
        yield Repo(root)
    finally:
        _here = before
