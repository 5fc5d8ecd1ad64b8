"""Cases from rows: a CSV or JSONL file with a column of right answers, or the samples of OpenAI's evals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.sources.rows import csv_rows, json_rows
from agents.sources.source import SourceError
from eval.scaffolding.imported import (
    ANSWER,
    Case,
    Imported,
    LeftOut,
    are_labels,
    family_of,
    finished,
    read_text,
    slug,
)
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen

QUESTION: Final = "question"
EMPTY: Final = (None, "")

Row = Mapping[str, Any]


@frozen
class Columns:
    """Which columns are given to the agent, which hold the right answers, and how both are compared."""

    inputs: Sequence[str] = ()
    expected: Sequence[str] = ()
    family: str | None = None
    match: str | None = None  # default: equals; of OpenAI's samples starts-with, as their basic Match has it


def from_rows(path: Path, columns: Columns, prompts: Sequence[str]) -> Imported:
    """The suite of a table."""
    left_out, numbered = LeftOut(), list(read_rows(path))
    known = list(dict.fromkeys(name for _, row in numbered for name in row))
    for flag, given_names in (("--input", columns.inputs), ("--expected", columns.expected)):
        if not given_names:
            raise BadInput(f"{path}: give {flag} COL (columns: {', '.join(known)})")
    for name in (*columns.inputs, *columns.expected, *filter(None, [columns.family])):
        if name not in known:
            raise BadInput(f"{path}: no column {name!r} (columns: {', '.join(known)})")
    if both := set(columns.inputs) & set(columns.expected):
        raise BadInput(
            f"{path}: {both.pop()} is given as --input and as --expected: the answer would be shown"
        )
    names = {column: re.sub(r"\W+", "_", column).strip("_") or ANSWER for column in columns.expected}
    numeric = {
        column: all(_number(row[column]) is not None for _, row in numbered if row.get(column) not in EMPTY)
        for column in names
    }
    cases = []
    for number, row in numbered:
        if empty := [column for column in columns.expected if row.get(column) in EMPTY]:
            left_out.add(f"rows without {empty[0]}", f"row {number}")
            continue
        given = {column: row.get(column) for column in columns.inputs}
        group = columns.family and str(row.get(columns.family) or "")
        expect = [
            _expected(
                f"0.{names[column]}",
                [_number(row[column]) if numeric[column] else row[column]],
                columns.match or "equals",
            )
            for column in columns.expected
        ]
        family = f"{slug(group) or 'group'}-{family_of(group)[2:8]}" if group else family_of(given)
        cases.append({"id": f"row-{number:05}", "family": family, "input": given, "expect": expect})
    text = {"type": "string"}
    properties = {
        names[column]: {"type": "number"} if numeric[column] else text for column in columns.expected
    }
    return finished(
        path, prompts or [_prompt(path, columns.inputs, list(properties))], properties, cases, left_out
    )


def from_samples(path: Path, match: str | None, prompts: Sequence[str]) -> Imported:
    """The suite of OpenAI's evals: `{"input": [messages], "ideal": text or texts}` a line."""
    left_out, found = LeftOut(), list[tuple[int, Any, list[str]]]()
    samples = list(read_rows(path))
    if not any("input" in row for _, row in samples):
        raise BadInput(f'{path}: no line has "input" (OpenAI evals); of a table give --input and --expected')
    kept = list[tuple[int, Row]]()
    for number, row in samples:
        if row.get("ideal") in (None, "", []) or "input" not in row:
            left_out.add("samples without an ideal answer", f"line {number}")
            continue
        kept.append((number, row))
        for name in sorted(row.keys() - {"input", "ideal"}):
            left_out.add(f"the field {name!r}", f"line {number}")
    heads = {_head(row["input"]) for _, row in kept}
    for number, row in kept:
        wanted = row["ideal"] if isinstance(row["ideal"], list) else [row["ideal"]]
        found.append(
            (number, _given(row["input"], without_head=len(heads) == 1), [str(one) for one in wanted])
        )
    # Of a few labels the schema will name every one: there to begin with one is to be it.
    how = match or ("equals" if are_labels([wanted for _, _, wanted in found]) else "starts-with")
    cases = [
        {
            "id": f"line-{number:05}",
            "family": family_of(given),
            "input": given,
            "expect": [_expected(f"0.{ANSWER}", wanted, how)],
        }
        for number, given, wanted in found
    ]
    own = next(iter(heads)) if len(heads) == 1 else ""
    asked = " or ".join(f"`{name}`" for name in dict.fromkeys(key for case in cases for key in case["input"]))
    made = own or f"# {path.stem}\n\nAnswer what {asked} asks.\n"
    return finished(path, prompts or [made], {ANSWER: {"type": "string"}}, cases, left_out)


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """The rows of a CSV or JSONL file with their numbers, from 1; what wraps a row in `item` is taken off."""
    text = read_text(path)
    try:
        if path.suffix == ".csv":
            header, lines = csv_rows(text, str(path))
            yield from enumerate((dict(zip(header, line, strict=True)) for line in lines), 1)
            return
        numbered = json_rows(text, str(path))
    except SourceError as problem:
        raise BadInput(str(problem)) from None
    for number, row in numbered:
        if not isinstance(row, dict):
            raise BadInput(f"{path}: line {number}: must be a JSON object")
        inner = row.get("item")
        yield number, inner if isinstance(inner, dict) else row


def _expected(path: str, wanted: Sequence[Any], match: str) -> Case:
    if match == "starts-with":
        begins = "|".join(re.escape(str(one)) for one in wanted)
        return {"grader": "regex", "path": path, "pattern": rf"\A(?:{begins})"}
    if match == "contains":
        return {"grader": "contains", "path": path, "any": [str(one) for one in wanted], "case": True}
    if len(wanted) == 1:
        return {"grader": "exact", "path": path, "value": wanted[0]}
    return {"grader": "exact", "path": path, "any_of": list(wanted)}


def _head(given: Any) -> str:
    """What the system says before a sample's question."""
    if not isinstance(given, list):
        return ""
    first = [one for one in given[:1] if isinstance(one, Mapping) and one.get("role") == "system"]
    return str(first[0].get("content")) if first else ""


def _given(given: Any, *, without_head: bool) -> dict[str, Any]:
    if not isinstance(given, list):
        return {QUESTION: given}
    messages = given[1:] if without_head and _head(given) else given
    if len(messages) == 1 and isinstance(messages[0], Mapping):
        return {QUESTION: messages[0].get("content")}
    return {"messages": messages}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _prompt(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    given, wanted = (" and ".join(f"`{name}`" for name in names) for names in (inputs, outputs))
    title = path.stem.replace("_", " ").capitalize()
    return f"# {title}\n\nRead {given} and give the {wanted}: one item, and nothing else.\n"
