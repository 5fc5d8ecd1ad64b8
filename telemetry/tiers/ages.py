"""The ages at which telemetry moves on: `telemetry/retention.yaml`, the one place where they are set."""

from __future__ import annotations

from dataclasses import fields
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_yaml

CONFIG: Final = Path("telemetry/retention.yaml")
LONGEST: Final = 36_500  # days; a calendar has an end


@frozen
class Ages:
    """In days; each the last on which something is still there."""

    hot: int = 7
    warm: int = 90
    cold: int = 365
    gone: int = 730

    def first(self, tier: str, today: date) -> str:
        """The oldest day that is still in a tier."""
        return (today - timedelta(days=getattr(self, tier))).isoformat()


def ages(repo: Repo) -> Ages:
    """As the checkout says; where it says nothing, the usual ones."""
    file = repo / CONFIG
    if not file.exists():
        return Ages()
    given = load_yaml(file.read_bytes())
    names = [one.name for one in fields(Ages)]
    if not isinstance(given, dict) or (unknown := given.keys() - set(names)):
        said = f"no field {', '.join(sorted(map(str, unknown)))}" if isinstance(given, dict) else "no mapping"
        raise BadInput(f"{CONFIG}: {said}; there are {', '.join(names)}")
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LONGEST:
            raise BadInput(f"{CONFIG}: {name}: must be a whole number of days, not {value!r}")
    found = Ages(**given)
    if not found.hot <= found.warm <= found.cold <= found.gone:
        raise BadInput(f"{CONFIG}: hot, warm, cold and gone must not fall: {found}")
    return found
