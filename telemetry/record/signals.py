"""What a run said, in a form that it can be weighed by, and that two agents' runs can be compared by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from telemetry.reward import SIGNALS

MOST = 50  # signals kept per row: a row stays small whatever an agent returns
LONGEST = 80  # characters of one of them

Item = Mapping[Any, Any]


def subject_and_signal(item: Item) -> str:
    """`subject:signal` of an item that has both, else its signal."""
    subject, signal = item.get("subject"), item.get("signal")
    return f"{subject}:{signal}" if subject and signal else str(signal or "")


@dataclass(frozen=True, slots=True)
class Signals:
    """How the outputs of a domain are read."""

    # field -> the value that is as strong as a signal gets
    full: Mapping[str, float] = field(default_factory=lambda: SIGNALS)
    key: Callable[[Item], str] = subject_and_signal  # names what an item says, "" for nothing
    figures: Callable[[list[Item]], Mapping[str, Any]] = lambda items: {}  # further fields of the row

    def keys(self, output: object) -> str:
        """The distinct signals of an output, parted by spaces, in order: `VIX:risk_off europe:conflict`."""
        keys = dict.fromkeys("_".join(self.key(item).split())[:LONGEST] for item in items(output))
        return " ".join([key for key in keys if key][:MOST])


def items(output: object) -> list[Item]:
    """The items of an output that can say anything."""
    given = output if isinstance(output, list | tuple) else (output,)
    return [item for item in given if isinstance(item, Mapping)]
