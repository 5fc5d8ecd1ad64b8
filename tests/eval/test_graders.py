"""The graders: hand-worked examples, and what must hold for any output at all."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.grading.graders import GRADERS, MISSING, Part, combine, find, grade, grade_part

OUTPUT = [
    {"series": "VIX", "signal": "risk_off", "z_score": 4.1, "rationale": "Jumped 34 % on the day"},
    {"series": "WTI", "signal": "oil_up", "z_score": 3.2, "rationale": "No casualties"},
]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", OUTPUT),
        ("0.signal", "risk_off"),
        ("*.series", ["VIX", "WTI"]),
        ("*.series:signal", [["VIX", "risk_off"], ["WTI", "oil_up"]]),
        ("[series=WTI].z_score", 3.2),
        ("[series=WTI,signal=oil_up].z_score", 3.2),
        ("[series=WTI,signal=oil_down].z_score", MISSING),
        ("[series=DXY].z_score", MISSING),
        ("7.signal", MISSING),
        ("0.signal.deeper", MISSING),
        ("*.absent", [MISSING, MISSING]),
        ("signal", MISSING),
    ],
)
def test_a_path_finds_the_value_or_says_missing(path: str, expected: Any) -> None:
    assert find(OUTPUT, path) == expected


WORKED: list[tuple[dict[str, Any], float]] = [
    ({"grader": "exact", "path": "0.signal", "value": "risk_off"}, 1.0),
    ({"grader": "exact", "path": "0.signal", "value": "risk_on"}, 0.0),
    ({"grader": "exact", "path": "0.signal", "any_of": ["risk_on", "risk_off"]}, 1.0),
    ({"grader": "exact", "path": "9.signal", "value": None}, 0.0),
    # one of two right: precision 1/2, recall 1/2
    ({"grader": "set_f1", "path": "*.series", "values": ["VIX", "DXY"]}, 0.5),
    # two of two right, one missed: precision 1, recall 2/3 -> 0.8
    ({"grader": "set_f1", "path": "*.series", "values": ["WTI", "VIX", "DXY"]}, 0.8),
    (
        {"grader": "set_f1", "path": "*.series:signal", "values": [["WTI", "oil_up"], ["VIX", "risk_off"]]},
        1.0,
    ),
    ({"grader": "set_f1", "path": "*.series", "values": []}, 0.0),
    ({"grader": "set_f1", "path": "signal", "values": []}, 0.0),
    ({"grader": "numeric", "path": "0.z_score", "value": 4.0, "abs": 0.1}, 1.0),
    ({"grader": "numeric", "path": "0.z_score", "value": 4.0, "rel": 0.05}, 1.0),
    # off by 0.3 with a tolerance of 0.2: half way from full to none
    ({"grader": "numeric", "path": "0.z_score", "value": 3.8, "abs": 0.2}, 0.5),
    ({"grader": "numeric", "path": "0.z_score", "value": 1.0, "abs": 0.2}, 0.0),
    ({"grader": "numeric", "path": "0.signal", "value": 1.0, "abs": 9}, 0.0),
    ({"grader": "numeric", "path": "0.z_score", "value": 4.1}, 1.0),
    ({"grader": "numeric", "path": "0.z_score", "value": 4.2}, 0.0),
    # the larger tolerance holds: 0.205 of 4.1
    ({"grader": "numeric", "path": "0.z_score", "value": 4.3, "abs": 0.1, "rel": 0.05}, 1.0),
    ({"grader": "band", "path": "*.z_score", "low": 3}, 1.0),
    ({"grader": "band", "path": "*.z_score", "low": 3.5, "high": 9}, 0.5),
    ({"grader": "band", "path": "5.z_score", "low": 0}, 0.0),
    ({"grader": "contains", "path": "0.rationale", "all": ["JUMPED", "fell"]}, 0.5),
    ({"grader": "contains", "path": "0.rationale", "all": ["JUMPED"], "case": True}, 0.0),
    ({"grader": "absent", "path": "0.rationale", "terms": ["JUMPED"], "case": True}, 1.0),
    ({"grader": "regex", "path": "0.rationale", "pattern": r"\d+ %"}, 1.0),
    ({"grader": "regex", "path": "0.rationale", "pattern": r"\Aon"}, 0.0),
    ({"grader": "regex", "path": "9.rationale", "pattern": "."}, 0.0),
    ({"grader": "contains", "path": "0.rationale", "all": ["fell"], "not": True}, 1.0),
    ({"grader": "contains", "path": "0.rationale", "all": ["jumped"], "not": True}, 0.0),
    # half right is not right
    ({"grader": "set_f1", "path": "*.series", "values": ["VIX"], "not": True}, 1.0),
    ({"grader": "contains", "path": "0.rationale", "any": ["fell", "34 %"]}, 1.0),
    ({"grader": "contains", "path": "0.rationale", "all": ["jumped", "fell"], "any": ["day"]}, 2 / 3),
    ({"grader": "contains", "path": "9.rationale", "all": ["jumped"]}, 0.0),
    ({"grader": "band", "path": "*.z_score", "low": 3.2, "high": 4.1}, 1.0),
    ({"grader": "band", "path": "", "low": 0}, 0.0),
    ({"grader": "absent", "path": "[series=DXY]"}, 1.0),
    ({"grader": "absent", "path": "[series=VIX]"}, 0.0),
    ({"grader": "absent", "path": "1.rationale", "terms": ["casualties"]}, 0.0),
    ({"grader": "absent", "path": "9.rationale", "terms": ["casualties"]}, 1.0),
    ({"grader": "json_schema", "path": "", "schema": {"type": "array", "maxItems": 2}}, 1.0),
    ({"grader": "json_schema", "path": "0", "schema": {"required": ["headline"]}}, 0.0),
    ({"grader": "ordering", "path": "*.z_score", "sort": "desc"}, 1.0),
    ({"grader": "ordering", "path": "*.z_score", "sort": "asc"}, 0.0),
    # DXY is missing: of three pairs only VIX before WTI stands
    ({"grader": "ordering", "path": "*.series", "values": ["VIX", "WTI", "DXY"]}, 1 / 3),
]


@pytest.mark.parametrize(("wanted", "score"), WORKED, ids=lambda value: json.dumps(value))
def test_hand_worked(wanted: dict[str, Any], score: float) -> None:
    assert grade_part(wanted, OUTPUT).score == pytest.approx(score)


@pytest.mark.parametrize(
    ("wanted", "output", "reason"),
    [
        ({"grader": "exact", "any_of": ["a", 2]}, "b", '"b", expected "a" or 2'),
        ({"grader": "exact", "value": "x" * 90}, MISSING, f'(missing), expected "{"x" * 76}...'),
        (
            {"grader": "exact", "value": [1.5, {"b": 1, "a": None}]},
            {},
            '{}, expected [1.5, {"a": null, "b": 1}]',
        ),
        ({"grader": "set_f1", "values": ["a"]}, ["b"], 'missed "a"; false alarm "b"'),
        ({"grader": "set_f1", "values": []}, "a", '"a", expected a list'),
        ({"grader": "numeric", "value": 2, "abs": 0.5}, 3, "3, expected 2 +- 0.5"),
        ({"grader": "numeric", "value": 2}, "3", '"3", expected a number'),
        ({"grader": "band", "low": 0, "high": 1}, [0.5, 2, "x"], '2, "x", expected [0, 1]'),
        ({"grader": "band", "low": 0}, [], "nothing there, expected a number in [0, inf]"),
        ({"grader": "contains", "all": ["a", "q"]}, "abc", "lacks ['q']"),
        ({"grader": "contains", "all": ["a"], "any": ["x", "y"]}, "abc", "lacks ['x', 'y']"),
        ({"grader": "absent", "terms": ["a", "q"]}, "ABC", "holds ['a']"),
        ({"grader": "absent"}, {"a": 1}, '{"a": 1}, expected nothing'),
        ({"grader": "json_schema", "schema": {"type": "object"}}, [], "answer: "),
        ({"grader": "ordering", "values": [1, 2, 3]}, [3, 1, 2], "1 of 3 pairs in order"),
        ({"grader": "ordering", "sort": "asc"}, 7, "7, expected a list"),
    ],
)
def test_a_reason_says_what_was_there_and_what_was_due(
    wanted: dict[str, Any], output: Any, reason: str
) -> None:
    assert grade_part(wanted, output).reason.startswith(reason)


@pytest.mark.parametrize("empty", [None, [], {}, "", MISSING])
def test_what_is_empty_is_absent(empty: Any) -> None:
    assert grade_part({"grader": "absent"}, empty).score == 1.0


def test_a_part_that_a_judge_gave_stands_as_it_is() -> None:
    judged = {1: Part("llm_judge", "", 0.5, 1.0, "a tie")}
    expect = [{"grader": "exact", "path": "0.series", "value": "VIX"}, {"grader": "llm_judge"}]
    assert grade(expect, OUTPUT, judged=judged).parts[1] is judged[1]
    assert grade(expect, OUTPUT, judged=judged).score == 0.75


def test_a_score_at_the_threshold_passes_and_one_just_below_does_not() -> None:
    part = Part("exact", "", 0.5, 1.0, "r")
    assert combine([part], 0.5).ok
    assert not combine([part], 0.5 + 1e-6).ok
    with pytest.raises(ValueError, match="weight above 0"):
        combine([Part("exact", "", 1.0, 0.0, "r")])


def test_what_cannot_be_ranked_loses_its_pairs() -> None:
    assert grade_part({"grader": "ordering", "sort": "asc"}, [1, "x", 2]).score == pytest.approx(1 / 3)
    assert grade_part({"grader": "ordering", "sort": "asc"}, ["x"]).score == 0.0
    assert grade_part({"grader": "ordering", "values": [1, 2]}, [1, 2, 1]).score == 1.0
    assert grade_part({"grader": "ordering", "sort": "desc"}, [2, 2, 1]).score == 1.0


def test_a_repeated_value_is_a_false_alarm() -> None:
    # two found, one due: precision 1/2, recall 1 -> 2/3
    part = grade_part({"grader": "set_f1", "path": "", "values": ["a"]}, ["a", "a"])
    assert part.score == pytest.approx(2 / 3)
    assert part.reason == 'false alarm "a"'


def test_equality_is_that_of_json() -> None:
    assert grade_part({"grader": "exact", "value": 1}, 1.0).score == 1.0
    assert grade_part({"grader": "exact", "value": 1}, True).score == 0.0
    assert grade_part({"grader": "exact", "value": {"a": 1, "b": 2}}, {"b": 2, "a": 1}).score == 1.0
    assert grade_part({"grader": "numeric", "value": 1, "abs": 0}, True).score == 0.0
    assert grade_part({"grader": "numeric", "value": 1, "abs": 9}, math.nan).score == 0.0


def test_a_case_is_the_weighted_mean_and_passes_at_its_threshold() -> None:
    expect = [
        {"grader": "exact", "path": "0.signal", "value": "risk_off", "weight": 3},
        {"grader": "exact", "path": "1.signal", "value": "oil_down"},
    ]
    strict, lenient = grade(expect, OUTPUT), grade(expect, OUTPUT, threshold=0.75)
    assert (strict.score, strict.ok, lenient.ok) == (0.75, False, True)
    assert strict.reasons == ('exact 1.signal: "oil_up", expected "oil_down"',)


def test_a_case_nothing_can_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one grader"):
        grade([], OUTPUT)
    with pytest.raises(ValueError, match="unknown grader 'vibes'"):
        grade([{"grader": "vibes"}], OUTPUT)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
expectations = st.sampled_from([wanted for wanted, _ in WORKED])


@given(output=json_values, wanted=expectations)
def test_any_output_gives_a_score_and_a_reason_never_an_exception(
    output: Any, wanted: dict[str, Any]
) -> None:
    part = grade_part(wanted, output)
    assert 0.0 <= part.score <= 1.0
    assert part.reason


@given(
    values=st.lists(st.sampled_from("abcd"), max_size=6), found=st.lists(st.sampled_from("abcd"), max_size=6)
)
def test_f1_is_symmetric_and_one_only_for_the_same_values(values: list[str], found: list[str]) -> None:
    score = grade_part({"grader": "set_f1", "values": values}, found).score
    assert score == grade_part({"grader": "set_f1", "values": found}, values).score
    assert (score == 1.0) == (sorted(values) == sorted(found))


@given(value=st.floats(-1e6, 1e6), nearer=st.floats(0, 10), farther=st.floats(0, 10))
def test_farther_off_never_scores_more(value: float, nearer: float, farther: float) -> None:
    nearer, farther = sorted((nearer, farther))
    wanted = {"grader": "numeric", "value": value, "abs": 2.0}
    near, far = (grade_part(wanted, value + off).score for off in (nearer, farther))
    assert far <= near + 1e-6


@given(order=st.permutations(list(range(5))))
def test_ordering_of_a_reversal_is_the_complement(order: list[int]) -> None:
    wanted = {"grader": "ordering", "values": [0, 1, 2, 3, 4]}
    assert grade_part(wanted, order).score + grade_part(wanted, order[::-1]).score == pytest.approx(1.0)


@given(parts=st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 100)), min_size=1, max_size=6))
def test_a_score_lies_between_its_best_and_worst_part(parts: list[tuple[float, float]]) -> None:
    made = combine([Part("exact", "", score, weight, "r") for score, weight in parts])
    scores = [score for score, _ in parts]
    assert min(scores) - 1e-6 <= made.score <= max(scores) + 1e-6
    assert made.ok or min(scores) < 1.0


@given(output=json_values)
def test_what_equals_itself_is_exact(output: Any) -> None:
    assert grade_part({"grader": "exact", "value": output}, output).score == 1.0


def test_every_grader_has_a_worked_example() -> None:
    assert {wanted["grader"] for wanted, _ in WORKED} == set(GRADERS)


ANY_OBJECT = {"type": "object", "required": ["b"]}


@pytest.mark.parametrize(
    ("text", "whole", "inside"),
    [
        ('{"b": 1}', 1.0, 1.0),
        ('{"a": 1}', 0.0, 0.0),
        ('Here it is: {"a": 1} and [2], then {"b": {"c": [3]}} {', 0.0, 1.0),
        ("no JSON, only {braces} [here", 0.0, 0.0),
        ('[{"b": 1}, and never closed', 0.0, 1.0),
        ("[" * 50_000, 0.0, 0.0),
        ({"b": 1}, 1.0, 0.0),  # no text, but what it says is known
    ],
)
def test_a_text_is_read_as_json_or_for_the_json_in_it(text: Any, whole: float, inside: float) -> None:
    part: dict[str, Any] = {"grader": "json_schema", "path": "0.answer"}
    as_a_whole = part | {"read": "json", "schema": ANY_OBJECT}
    in_the_text = part | {"read": "json_in_text", "schema": {"type": "array", "contains": ANY_OBJECT}}
    assert grade_part(as_a_whole, [{"answer": text}]).score == whole
    assert grade_part(in_the_text, [{"answer": text}]).score == inside


@pytest.mark.parametrize("wanted", [{"values": ["a"]}, {"values": ["a"], "not": True}])
def test_an_answer_too_deep_to_be_read_is_failed_also_where_nothing_must_be_found(
    wanted: dict[str, Any],
) -> None:
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    part = grade_part({"grader": "set_f1", "path": "", **wanted}, [deep])
    assert (part.score, part.reason) == (0.0, "nested too deeply to be read")


def test_a_band_with_nothing_in_it_is_not_met() -> None:
    assert grade_part({"grader": "band", "path": "*.z_score", "low": 0.0}, []).score == 0.0
