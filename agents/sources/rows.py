"""Rows out of files: CSV, JSON lines, a JSON list, or a folder of JSON objects, each cell of the type it should have.

What is wrong is told with file, row and field: `data/tickets.csv: row 17: urgency: must be an integer, not 'high'`.
Row 1 is the first one of data. A CSV holds only text: `fields` says which columns are something else, and of the
others a column of nothing but numbers is read as numbers.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from agents.sources.source import SourceError
from telemetry.edge.files import read_again
from telemetry.edge.records import is_number

MAX_BYTES: Final = 64_000_000  # of a file, or of all files of a folder; what agents read in a day is far less
MAX_SHOWN: Final = 60  # characters of a value in a complaint

_INTEGER = re.compile(r"-?(0|[1-9]\d{0,14})")  # no leading zero: 0042 is a name
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?")
_TRUTH = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False, "": None}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")

Row = dict[str, Any]


def read_rows(root: Path, path: str, fields: Mapping[str, str]) -> list[Row] | Row:
    """The rows of a file or folder below `root`, checked; a `.json` file may also hold one object."""
    where = root / path
    try:
        if where.is_dir():
            rows: Any = _folder(where, path)
        else:
            kind = where.suffix.lower()
            if kind not in _READERS:
                raise SourceError(f"{path}: must be {', '.join(_READERS)} or a folder of JSON files")
            rows = _READERS[kind](_text(where, path), path, fields)
    except OSError as problem:
        raise SourceError(f"{path}: {problem.strerror}") from None
    return rows if isinstance(rows, dict) else checked(rows, path, fields)


def checked(rows: object, where: str, fields: Mapping[str, str]) -> list[Row]:
    """A list of objects whose fields have the types that they should have."""
    if not isinstance(rows, list):
        raise SourceError(f"{where}: must be a list of objects, not {_shown(rows)}")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise SourceError(f"{where}: row {number}: must be an object, not {_shown(row)}")
        for name, said in fields.items():
            kind, value = said.rstrip("?"), row.get(name)
            if value is None or (value == "" and kind != "string"):
                if not said.endswith("?"):
                    raise SourceError(f"{where}: row {number}: {name}: missing, must be {_TYPES[kind][0]}")
            elif not _TYPES[kind][1](value):
                told = f"must be {_TYPES[kind][0]}, not {_shown(value)}"
                raise SourceError(f"{where}: row {number}: {name}: {told}")
    return rows


def day_in(row: Mapping[str, Any], field: str, where: str) -> str:
    """The day that a row belongs to: the date that its field starts with."""
    value = row.get(field)
    if not _is_date(value):
        told = f"must be a date such as 2026-03-02, not {_shown(value)}"
        raise SourceError(f"{where}: {field}: {told}")
    return str(value)[:10]


def by_day(rows: Iterable[Row], field: str, where: str) -> dict[str, list[Row]]:
    """The rows of each day, oldest day first."""
    days: dict[str, list[Row]] = {}
    for number, row in enumerate(rows, 1):
        days.setdefault(day_in(row, field, f"{where}: row {number}"), []).append(row)
    return dict(sorted(days.items()))


def _text(file: Path, path: str) -> str:
    if file.stat().st_size > MAX_BYTES:
        raise SourceError(f"{path}: more than {MAX_BYTES:,} bytes")
    try:
        return read_again(file).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise SourceError(f"{path}: not UTF-8 (byte {problem.start})") from None


def csv_rows(text: str, path: str) -> tuple[list[str], list[list[str]]]:
    """The columns that a CSV names in its first line, and its rows, each with a cell for every column."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header, *lines = [line for line in reader if line] or [[]]
    except csv.Error as problem:
        raise SourceError(f"{path}: line {reader.line_num}: not CSV ({problem})") from None
    if not header or not all(header) or len(set(header)) < len(header):
        raise SourceError(f"{path}: the first line must name every column once")
    for number, line in enumerate(lines, 1):
        if len(line) != len(header):
            raise SourceError(f"{path}: row {number}: {len(line)} cells, the first line names {len(header)}")
    return header, lines


def json_rows(text: str, path: str) -> list[tuple[int, Any]]:
    """The values of a file of JSON lines, each with the number of its line; a line ends with LF and nothing else."""
    numbered = enumerate(text.split("\n"), 1)
    return [(number, _json(line, f"{path}: line {number}")) for number, line in numbered if line.strip()]


def _csv(text: str, path: str, fields: Mapping[str, str]) -> list[Row]:
    header, lines = csv_rows(text, path)
    columns = [
        _column([line[at] for line in lines], fields.get(name, "").rstrip("?"))
        for at, name in enumerate(header)
    ]
    return [dict(zip(header, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _column(cells: Sequence[str], kind: str) -> list[Any]:
    """The cells as what they are said to be, or as numbers if all of them are; a cell that is none stays a text."""
    given = [cell for cell in cells if cell]
    if not kind and given and all(map(_NUMBER.fullmatch, given)):
        kind = "integer" if all(map(_INTEGER.fullmatch, given)) else "number"
    return [_cell(cell.strip(), kind) if kind not in ("", "string", "date") else cell for cell in cells]


def _cell(cell: str, kind: str) -> Any:
    if kind == "boolean":
        return _TRUTH.get(cell.lower(), cell)
    try:
        return (int(cell) if kind == "integer" else float(cell)) if cell else None
    except ValueError:
        return cell  # told by the check, which knows the row


def _folder(folder: Path, path: str) -> list[Any]:
    files = sorted(file for file in folder.iterdir() if file.suffix == ".json" and file.is_file())
    if sum(file.stat().st_size for file in files) > MAX_BYTES:
        raise SourceError(f"{path}: more than {MAX_BYTES:,} bytes")
    return [_json(_text(file, f"{path}/{file.name}"), f"{path}/{file.name}") for file in files]


def _json(text: str, where: str) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except ValueError as problem:
        raise SourceError(f"{where}: not JSON ({problem})") from None


_READERS: Final[Mapping[str, Callable[[str, str, Mapping[str, str]], Any]]] = {
    ".csv": _csv,
    ".jsonl": lambda text, path, fields: [value for _, value in json_rows(text, path)],
    ".json": lambda text, path, fields: _json(text, path),
}


def _is_date(value: object) -> bool:
    if not isinstance(value, str) or not _DAY.match(value):
        return False
    try:
        date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


_TYPES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a text", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: is_number(value) and float(value).is_integer()),
    "number": ("a number", is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "date": ("a date such as 2026-03-02", _is_date),
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
