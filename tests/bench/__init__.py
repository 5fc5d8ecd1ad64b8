"""The measured figures: one module per area, each beside a plain reference in the same run."""

from __future__ import annotations

from dataclasses import dataclass

SEED = 0  # of what is simulated: `python -m tests.bench rounds --seed 3` draws other worlds


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    measured: str
    reference: str
    ratio: str
    target: str
    ok: bool
