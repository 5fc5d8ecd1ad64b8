"""The analysts of any domain: `classify` gives a label to each record, `extract` finds fields in its text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.model.schema import listed, record
from agents.offline.model import OfflineModel

LABELS = """```rules
analyst: classify
label_field: team
label_terms: {invoice*: billing, refund: billing, password: account, "log in": account}
field_labels: {"priority=high": urgent, "amount>=1000": urgent}
default_label: other
```"""
FIELDS = """```rules
analyst: extract
shapes: {order: "ORD-####", total: "EUR #+"}
after: {customer: "from"}
```"""


def answered(system: str, payload: dict[str, Any], schema: dict[str, Any] | None = None) -> Any:
    return OfflineModel().answer(system, json.dumps({"task": "tickets"} | payload), schema)["items"]


@pytest.mark.parametrize(
    ("ticket", "team"),
    [
        ({"text": "Two invoices, and no REFUND"}, "billing"),
        ({"text": "I cannot log  in: the password is refused, and so is the refund"}, "account"),
        ({"text": "The password for the invoice"}, "billing"),  # one each: the label named first
        ({"text": "Hello"}, "other"),
        ({"text": "refund", "priority": "High"}, "urgent"),
        ({"text": "refund", "amount": "1200.50"}, "urgent"),
        ({"text": "refund", "amount": 999}, "billing"),
        ({"lines": ["Hi", {"body": "my refund"}]}, "billing"),
        ({"text": "invoicing is prepaid"}, "other"),  # whole words only, but for the star
    ],
)
def test_a_record_gets_the_label_of_its_fields_or_its_terms(ticket: dict[str, Any], team: str) -> None:
    assert answered(LABELS, ticket) == [{"team": team}]


def test_the_name_of_the_task_is_no_part_of_the_record() -> None:
    assert answered("```rules\nanalyst: classify\nlabel_terms: {tickets: hit}\n```", {"text": "x"}) == [
        {"label": "other"}
    ]


def test_every_record_of_a_list_is_answered_under_its_name() -> None:
    rules = LABELS.replace("label_field", "list: tickets\nfields: [text]\nlabel_field")
    rows = [{"id": "t1", "text": "refund", "note": "password, log in"}, {"id": "t2"}, "no record"]
    assert answered(rules, {"tickets": rows}) == [
        {"id": "t1", "team": "billing"},
        {"id": "t2", "team": "other"},
    ]
    assert answered(rules, {}) == []


def test_fields_are_found_by_shape_or_by_the_words_before_them() -> None:
    text = "Message from Ann Lee, about ORD-1234 and not XORD-99999.\nTotal: EUR 1,234.50."
    assert answered(FIELDS, {"text": text}) == [
        {"order": "ORD-1234", "total": "EUR 1,234.50", "customer": "Ann Lee"}
    ]
    assert answered(FIELDS, {"text": "nothing"}) == [{"order": None, "total": None, "customer": None}]


def test_a_number_found_in_a_text_fits_a_number_of_the_schema() -> None:
    rules = '```rules\nanalyst: extract\nshapes: {total: "#+"}\n```'
    schema = listed(record(total={"type": "number"}))
    assert answered(rules, {"text": "1,234.50 in all"}, schema) == [{"total": 1234.5}]
