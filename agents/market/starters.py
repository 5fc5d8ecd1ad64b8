"""What a new agent starts from: a prompt, the fields of its output and a few cases per kind of input, to be edited.

Each suite is labelled by hand and holds one case that the starter prompt gets wrong: the first improvement is yours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agents.domain import Starter

_RATIONALE = {"type": "string", "minLength": 1, "maxLength": 1000}
_SCORE = {"type": "number", "minimum": 0, "maximum": 100}

_HEADLINES_PROMPT = """# {title}

You read headlines for one thing: **labour disputes that stop goods from moving** (replace this by your own topic).

## What counts
Report a headline when a strike, walkout or lockout is under way or announced. Do not report one that was called off, a
figure of speech, or sport. Score 0 to 100 by how much freight it stops; give one sentence of rationale.

## Rules
```rules
analyst: headlines
risk_terms: {strike*: 50, walkout*: 50, walk out: 50, lockout*: 45}
escalation_terms: {port*: 15, freight: 15, nationwide: 20}
metaphors: [strike rate, strikes a deal]
negation_cues: [calls off, called off, averts, averted]
negation_after: [called off, averted, ends, ended]
negation_window: 4
report_threshold: 40
```
"""

_MACRO_PROMPT = """# {title}

You watch one series: **the price of oil, WTI** (replace this by your own). Say so when it moves hard in a day.

## What counts
Only the series named in `only`, only when the absolute `daily_change` is at least `above`. A rise is `oil_up`, a fall
is `oil_down`. The score is `risk_per_unit` times the change, at most `max_risk`. Give one sentence of rationale.

## Rules
```rules
analyst: threshold
list: series
id_field: series
only: [WTI]
field: daily_change
above: 0.04
up_signal: oil_up
down_signal: oil_down
risk_per_unit: 500
max_risk: 80
```
"""


# (what the case is about, headlines, which of them count)
_HEADLINES: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = (
    ("port", ("Dockworkers begin open-ended strike at Rotterdam port",), (0,)),
    ("rail", ("Rail workers walk out for a third day, freight halted",), (0,)),
    ("lockout", ("Lockout at sugar mill enters its second week",), (0,)),
    ("called-off", ("Pilots' union called off its planned strike at dawn",), ()),
    ("averted", ("Nationwide bus strike averted after late-night talks",), ()),
    ("sport", ("Young batsman's strike rate impresses the selectors",), ()),
    ("figure", ("Retailer strikes a deal with its landlords",), ()),
    ("quiet", ("Central bank leaves rates unchanged", "Wheat harvest above forecast"), ()),
    ("two", ("Museum opens new wing", "Port pilots announce strike from Monday"), (1,)),
    # The starter prompt gets this one wrong.
    ("air-strike", ("Air strike hits fuel depot near the border",), ()),
)


def _headline_cases(name: str) -> Iterable[dict[str, Any]]:
    for about, texts, counting in _HEADLINES:
        lines = [
            {"id": f"h{place}", "published": "2026-03-02T06:00:00Z", "source": "Wire A", "text": text}
            for place, text in enumerate(texts)
        ]
        wanted = [f"h{place}" for place in counting]
        expect: list[dict[str, Any]] = [{"grader": "set_f1", "path": "*.headline_id", "values": wanted}]
        expect += [{"grader": "band", "path": f"[headline_id={id_}].risk_score", "low": 30} for id_ in wanted]
        yield {
            "id": f"{name}.{about}",
            "input": {"as_of": "2026-03-02", "headlines": lines},
            "expect": expect,
            "tags": ["report" if wanted else "quiet"],
        }


# (what the case is about, series, the last day's change as a fraction, expected signal)
_MOVES: tuple[tuple[str, str, float, str | None], ...] = (
    ("jump", "WTI", 0.06, "oil_up"),
    ("slump", "WTI", -0.07, "oil_down"),
    ("quiet-up", "WTI", 0.01, None),
    ("quiet-down", "WTI", -0.015, None),
    ("near-below", "WTI", 0.038, None),
    ("near-above", "WTI", 0.042, "oil_up"),
    ("other-series", "VIX", 0.20, None),
    ("flat", "WTI", 0.0, None),
    ("rebound", "WTI", 0.09, "oil_up"),
    ("data-error", "WTI", 9.0, None),  # a slipped decimal point: the starter prompt gets this one wrong
)


def _macro_cases(name: str) -> Iterable[dict[str, Any]]:
    for about, series, change, signal in _MOVES:
        values = [round(70 + (day % 3) * 0.5, 2) for day in range(29)]
        values.append(round(values[-1] * (1 + change), 4))
        days = [f"2026-01-{day:02}" for day in range(1, 31)]
        history = [{"date": date, "value": value} for date, value in zip(days, values, strict=True)]
        row = {"id": series, "name": series, "unit": "index points", "kind": "level", "history": history}
        expect: list[dict[str, Any]] = [{"grader": "absent", "path": ""}]
        if signal:
            expect = [{"grader": "exact", "path": f"[series={series}].signal", "value": signal}]
        yield {
            "id": f"{name}.{about}",
            "input": {"as_of": days[-1], "series": [row]},
            "expect": expect,
            "tags": ["report" if signal else "quiet"],
        }


STARTERS: Final = {
    "headlines": Starter(
        _HEADLINES_PROMPT,
        {"headline_id": {"type": "string"}, "risk_score": _SCORE, "rationale": _RATIONALE},
        _headline_cases,
    ),
    "macro": Starter(
        _MACRO_PROMPT,
        {
            "series": {"type": "string"},
            "signal": {"type": "string", "enum": ["oil_up", "oil_down"]},
            "risk_score": _SCORE,
            "rationale": _RATIONALE,
        },
        _macro_cases,
    ),
}
