"""The shipped example of a domain: agents that watch markets, their sources, sample, signals and offline analysts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.domain import Domain, InputKind, Source, Starter
from agents.market import arbitrage_finder, macro_watcher, worth
from agents.market.analysts import ANALYSTS
from agents.market.snapshot import CHECKS, SAMPLE, Snapshot
from telemetry.edge.errors import BadInput

_PREPARE: Final = {"macro": macro_watcher.payload, "quotes": arbitrage_finder.payload}


def open_source(mode: str, root: Path) -> Source:
    """The committed sample (`snapshot`) or the world (`live`)."""
    if mode == "snapshot":
        return Snapshot(root / SAMPLE)
    if mode == "live":
        from agents.market.live import Live

        return Live.from_env(root)
    raise BadInput(f"--source-mode {mode}: allowed are snapshot, live")


def _starters() -> Mapping[str, Starter]:
    """What a new agent starts from; only who makes one pays for loading it."""
    from agents.market.starters import STARTERS

    return STARTERS


DOMAIN: Final = Domain(
    inputs={
        kind: InputKind(check, _PREPARE[kind]) if kind in _PREPARE else InputKind(check)
        for kind, check in CHECKS.items()
    },
    open_source=open_source,
    signals=worth.SIGNALS,
    came_true=worth.came_true,
    columns=worth.COLUMNS,
    analysts=ANALYSTS,
    starters=_starters,
    agents=("macro_watcher", "geopolitical_risk", "arbitrage_finder", "vix_echo"),
    paths=(
        "agents/market",
        "agents/sample",
        "agents/sample_market.py",
        "eval/build_suites.py",
        "eval/cases",
        "telemetry/outcomes.jsonl",
    ),
)
