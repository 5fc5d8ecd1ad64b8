"""What a new agent starts from where no domain has a starter of its own, from `starter.yaml`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from agents.domain import Starter
from telemetry.edge.records import load_yaml

_GIVEN: Final = load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())


def _cases(name: str) -> Iterable[dict[str, Any]]:
    for about, records, counting in _GIVEN["cases"]:
        items = [
            {"id": f"r{place}", "value": value, "text": text} for place, (value, text) in enumerate(records)
        ]
        wanted = [f"r{place}" for place in counting]
        yield {
            "id": f"{name}.{about}",
            "family": f"item-{about}",
            "input": {"as_of": "2026-03-02", "items": items},
            "expect": [{"grader": "set_f1", "path": "*.id", "values": wanted}],
            "tags": ["report" if wanted else "quiet"],
        }


STARTERS: Final = {"records": Starter(_GIVEN["prompt"], _GIVEN["properties"], _cases)}
