"""How challengers are proposed: what a person may set on the command line."""

from __future__ import annotations

from dataclasses import field
from datetime import date

from agents.llm_client import ModelOptions
from telemetry.edge.frozen import frozen


@frozen
class Options:
    """The defaults are those of the command line."""

    prompts: tuple[str, ...] = ()  # only these, and whether or not they are due
    candidates: int = 3  # a paid model is asked for so many
    screen_cases: int = 24  # tune cases that they are tried on
    max_prompts: int | None = None  # new challengers
    ask: ModelOptions = field(default_factory=ModelOptions)
    today: date | None = None  # the night that is simulated; None: by the clock
