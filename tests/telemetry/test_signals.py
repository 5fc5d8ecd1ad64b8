"""What a run said, as the neutral reading names it."""

from __future__ import annotations

from telemetry.reward import LONGEST, MOST, Signals, items


def test_an_item_is_named_by_its_subject_and_signal() -> None:
    output = [
        {"subject": "pump 3", "signal": "leak"},
        {"signal": "quiet"},
        {"subject": "pump 3", "signal": "leak"},
        {"note": "?"},
        "text",
    ]
    assert Signals().keys(output) == "pump_3:leak quiet"
    assert Signals().keys(None) == "" and Signals().keys({"signal": "alone"}) == "alone"
    assert Signals().figures(items(output)) == {}


def test_a_row_stays_small_whatever_an_agent_returns() -> None:
    keys = Signals().keys([{"signal": f"{n}{'x' * 500}"} for n in range(500)]).split()
    assert len(keys) == MOST and {len(key) for key in keys} == {LONGEST}
