"""What happened next: the outcomes that a file or the manifest names, and what they say came true."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agents.sources.source import SourceError
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo
from telemetry.edge.records import load_json

if TYPE_CHECKING:
    from agents.manifest import Feed

OUTCOMES: Final = Path("telemetry/outcomes.jsonl")
TYPES: Final = {"date": "date", "subject": "string?", "event": "boolean?"}

Row = Mapping[str, Any]
CameTrue = Callable[[Row], tuple[str, bool] | None]  # of an outcome: what it is about, and did it happen


def load_outcomes(repo: Repo, path: Path | None = None, named: Feed | None = None) -> list[dict[str, Any]]:
    """What happened next: a file given, else what the manifest names, else the usual file; no file is no outcome."""
    if path is None and named is not None:
        return _named(repo, named)
    file = repo / OUTCOMES if path is None else path
    if not file.exists():
        return []
    rows = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            row = load_json(line)
        except ValueError as problem:
            raise BadInput(f"{file}: line {number}: not JSON: {problem}") from None
        if not isinstance(row, dict) or not isinstance(row.get("date"), str):
            raise BadInput(f"{file}: line {number}: date: must be a string such as 2026-03-16")
        rows.append(row)
    return rows


def _named(repo: Repo, named: Feed) -> list[dict[str, Any]]:
    """The rows of `outcomes:`, a file or a function without arguments."""
    from agents.manifest.code import load_code
    from agents.sources.rows import checked, read_rows

    try:
        if named.call is None:
            found = read_rows(repo.root, str(named.file), TYPES)
        else:
            found = load_code(named.call, "outcomes.call")()
        rows = checked(found, named.name, TYPES)
    except SourceError as problem:
        raise BadInput(f"{MANIFEST}: outcomes: {problem}") from None
    return [{**row, "date": row["date"][:10]} for row in rows]


def happened(outcomes: Iterable[Row], came_true: CameTrue) -> dict[tuple[str, str], bool]:
    """By day and subject, whether it came true."""
    return {(row["date"], known[0]): known[1] for row in outcomes if (known := came_true(row))}
