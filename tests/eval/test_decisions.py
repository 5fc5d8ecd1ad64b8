"""Decisions are kept one by one, checked, and never overwritten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from eval.ledger.decisions import Decision, decisions, write_decision
from telemetry.edge.errors import BadInput
from telemetry.edge.files import DECISIONS, here

SHA = "a" * 64
DECISION = Decision(
    "promote", "ab_champion", "reviewer", "2026-11-16", SHA, SHA, SHA, {"effect": 0.1}, {"seed": 1}
)


def test_a_decision_reads_back_as_it_was_written(root: Path) -> None:
    path = write_decision(here(), DECISION)
    assert path == DECISIONS / "2026-11-16-ab_champion-reviewer.json"
    assert list(decisions(here())) == [(path, DECISION)]
    assert write_decision(here(), DECISION) == path and len(list(decisions(here()))) == 1


def test_any_mapping_may_hold_the_evidence(root: Path) -> None:
    path = write_decision(here(), replace(DECISION, verdict=MappingProxyType({"effect": 0.1})))
    assert list(decisions(here())) == [(path, DECISION)]


def test_another_decision_of_the_same_day_gets_a_name_of_its_own(root: Path) -> None:
    first = write_decision(here(), DECISION)
    second = write_decision(here(), replace(DECISION, after_sha256="b" * 64))
    third = write_decision(here(), replace(DECISION, after_sha256="c" * 64))
    names = [first, *(first.with_stem(f"{first.stem}-{number}") for number in (2, 3))]
    assert [first, second, third] == names and len(list(decisions(here()))) == 3


def test_evidence_that_json_cannot_hold_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_decision(here(), replace(DECISION, verdict={"effect": float("nan")}))


@pytest.mark.parametrize(
    "broken", [{"subject": "../x"}, {"date": "today"}, {"decision": "delete"}, {"after_sha256": "abc"}]
)
def test_a_malformed_decision_is_refused(root: Path, broken: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=next(iter(broken))):
        write_decision(here(), replace(DECISION, **broken))  # type: ignore[arg-type]
    assert not (root / DECISIONS).exists()


def test_a_broken_file_is_named(root: Path) -> None:
    (root / DECISIONS).mkdir(parents=True)
    (root / DECISIONS / "2026-01-01-ab_champion-x.json").write_text("{")
    with pytest.raises(BadInput, match="2026-01-01-ab_champion-x"):
        list(decisions(here()))
