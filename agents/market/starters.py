"""What a new agent starts from: a prompt, the fields of its output and a few cases, from `starters.yaml`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from agents.domain import Starter
from telemetry.edge.records import load_yaml

_GIVEN: Final = load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())

Case = dict[str, Any]


def _case(name: str, about: str, inputs: Case, expect: list[Case], reports: bool) -> Case:
    tags = ["report" if reports else "quiet"]
    return {"id": f"{name}.{about}", "family": about, "input": inputs, "expect": expect, "tags": tags}


def _headline_cases(name: str) -> Iterable[Case]:
    for about, texts, counting in _GIVEN["headlines"]["cases"]:
        lines = [
            {"id": f"h{place}", "published": "2026-03-02T06:00:00Z", "source": "Wire A", "text": text}
            for place, text in enumerate(texts)
        ]
        wanted = [f"h{place}" for place in counting]
        expect: list[Case] = [{"grader": "set_f1", "path": "*.headline_id", "values": wanted}]
        expect += [{"grader": "band", "path": f"[headline_id={id_}].risk_score", "low": 30} for id_ in wanted]
        yield _case(name, about, {"as_of": "2026-03-02", "headlines": lines}, expect, bool(wanted))


def _macro_cases(name: str) -> Iterable[Case]:
    days = [f"2026-01-{day:02}" for day in range(1, 31)]
    for about, series, change, signal in _GIVEN["macro"]["cases"]:
        values = [round(70 + (day % 3) * 0.5, 2) for day in range(29)]
        values.append(round(values[-1] * (1 + change), 4))
        history = [{"date": date, "value": value} for date, value in zip(days, values, strict=True)]
        row = {"id": series, "name": series, "unit": "index points", "kind": "level", "history": history}
        expect: list[Case] = [{"grader": "absent", "path": ""}]
        if signal:
            expect = [{"grader": "exact", "path": f"[series={series}].signal", "value": signal}]
        yield _case(name, about, {"as_of": days[-1], "series": [row]}, expect, bool(signal))


STARTERS: Final = {
    kind: Starter(_GIVEN[kind]["prompt"], _GIVEN[kind]["properties"], cases)
    for kind, cases in (("headlines", _headline_cases), ("macro", _macro_cases))
}
