"""A toy domain: agents that watch the gauges of three rivers. What tests of the engine run on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.domain import Analyst, Column, Domain, InputKind, Payload, Signals, Source, SourceError, Starter
from agents.offline.analysts import KEYS, threshold
from agents.offline.rules import Key
from telemetry.edge.errors import BadInput

SAMPLE: Final = "agents/sample/rivers.jsonl"  # one line a day
LIVE: Final = "agents/live"  # stands for the world: one file a kind

Row = Mapping[str, Any]


def measured(inputs: Row) -> dict[str, Any]:
    """The level of each gauge and its change since the day before, as a fraction."""
    gauges = []
    for gauge in inputs["gauges"]:
        values = [point["value"] for point in gauge["history"]]
        change = round(values[-1] / values[-2] - 1, 6) if len(values) > 1 else None
        gauges.append({"gauge": gauge["id"], "value": values[-1], "daily_change": change})
    return {"as_of": inputs["as_of"], "gauges": gauges}


class Snapshot:
    """The sample: a day's levels with all earlier ones, and that day's notes."""

    mode = "snapshot"

    def __init__(self, path: Path) -> None:
        self.path = path

    def _lines(self) -> list[dict[str, Any]]:
        try:
            lines = [json.loads(line) for line in self.path.read_text().splitlines()]
            return sorted(lines, key=lambda line: str(line["date"]))
        except OSError as problem:
            raise SourceError(f"{self.path}: {problem.strerror}") from None
        except (ValueError, KeyError, TypeError) as problem:
            raise SourceError(f"{self.path}: not a sample of rivers: {problem!r}") from problem

    def days(self) -> Sequence[str]:
        return [line["date"] for line in self._lines()]

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        lines = self._lines()
        day = as_of or lines[-1]["date"]
        known = [line for line in lines if line["date"] <= day]
        if kind == "notes":
            return {"as_of": day, "notes": known[-1]["notes"]}
        gauges = [
            {"id": name, "history": [{"date": line["date"], "value": line["levels"][name]} for line in known]}
            for name in known[-1]["levels"]
        ]
        return {"as_of": day, "gauges": gauges}


class Live:
    """The world: whatever file of that kind is there now."""

    mode = "live"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def days(self) -> Sequence[str]:
        return ()

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        try:
            payload: Payload = json.loads((self.folder / f"{kind}.json").read_text())
        except OSError as problem:
            raise SourceError(f"{kind}: the world does not answer: {problem.strerror}") from None
        return payload


def open_source(mode: str, root: Path) -> Source:
    if mode not in ("snapshot", "live"):
        raise BadInput(f"--source-mode {mode}: allowed are snapshot, live")
    return Snapshot(root / SAMPLE) if mode == "snapshot" else Live(root / LIVE)


def signal_key(item: Row) -> str:
    """`Elm:rising`"""
    return f"{item['gauge']}:{item['signal']}" if item.get("gauge") and item.get("signal") else ""


def came_true(outcome: Row) -> tuple[str, bool] | None:
    return (str(outcome["gauge"]), bool(outcome["flood"])) if "flood" in outcome else None


def quiet_days(runs: Sequence[Row], outcomes: Sequence[Row]) -> dict[str, Any] | None:
    quiet = sum(not run.get("signals") for run in runs)
    return {"quiet_days": quiet} if quiet else None


def _has(key: str) -> InputKind:
    def check(payload: Payload) -> None:
        if not isinstance(payload.get(key), list):
            raise SourceError(f"{key}: must be a list")

    return InputKind(check, measured) if key == "gauges" else InputKind(check)


def _cases(agent: str) -> Iterator[dict[str, Any]]:
    for number in range(10):
        change = number / 20
        history = [{"date": "2026-03-01", "value": 1.0}, {"date": "2026-03-02", "value": 1.0 + change}]
        yield {
            "id": f"{agent}-{number:02}",
            "input": {"as_of": "2026-03-02", "gauges": [{"id": "Elm", "history": history}]},
            "expect": [{"grader": "set_f1", "path": "*.gauge", "values": ["Elm"] if change >= 0.15 else []}],
        }


PROMPT: Final = """# {title}

Report a gauge that rises fast, with a `rationale`.

```rules
analyst: flood
above: 0.2
```
"""

ANALYSTS: Final = {
    "flood": Analyst(
        threshold,
        KEYS["threshold"]
        | {
            "list": Key("word", "gauges", "the list of records in the payload", tuned=False),
            "id_field": Key("word", "gauge", "what names a record", tuned=False),
            "field": Key(
                "word", "daily_change", "report records by this number", choices=("daily_change", "value")
            ),
        },
        ("flood_watch",),
        "gauges",
        ("gauges", "gauge", "gauge"),
    )
}

DOMAIN: Final = Domain(
    inputs={"levels": _has("gauges"), "notes": _has("notes")},
    open_source=open_source,
    signals=Signals(key=signal_key),
    came_true=came_true,
    columns=(Column("quiet", "quiet days", quiet_days, lambda found: str(found["quiet_days"])),),
    analysts=ANALYSTS,
    starters=lambda: {
        "levels": Starter(PROMPT, {"gauge": {"type": "string"}, "rationale": {"type": "string"}}, _cases)
    },
    agents=("flood_watch", "gauge_echo"),
)
