"""What identifies a person is found in texts as agents meet them, kind by kind, on a labelled set."""

from __future__ import annotations

import pytest

from telemetry.batches import personal
from tests.worlds import labelled


def spans(text: str) -> list[labelled.Span]:
    return [(one.kind, one.start, one.end) for one in personal.find(text)]


SCORES = labelled.scored(spans)


@pytest.mark.parametrize("kind", personal.KINDS)
def test_each_kind_is_found_and_little_else(kind: str) -> None:
    precision, recall, there = SCORES[kind]
    assert there >= 6
    assert recall >= 0.95
    assert precision >= 0.85


def test_what_was_found_is_replaced_by_its_kind_and_nothing_is_left() -> None:
    assert personal.without("Mail jo@example.org, now") == "Mail [email], now"
    for text, _ in labelled.texts():
        assert not personal.find(personal.without(text)), text


def test_texts_without_anything_personal_stay_as_they_are() -> None:
    for text, there in labelled.texts():
        if not there and not personal.find(text):
            assert personal.without(text) == text
