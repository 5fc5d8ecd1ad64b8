"""What was decided, when, and on what evidence: one immutable file per decision in `meta/decisions/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from agents.model.schema import problems, read_schema
from telemetry.edge.errors import BadInput
from telemetry.edge.files import DECISIONS, Repo, as_json, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json, plain

SCHEMA = Path(__file__).parents[1] / "decision.schema.json"

Act = Literal["promote", "demote", "keep", "disable", "revive", "propose"]


@frozen
class Decision:
    """What changes for which subject, by which evidence; hashes are of the text or file that changed."""

    decision: Act
    kind: str  # of pull request: ab_champion, retirement, ...
    subject: str
    date: str
    before_sha256: str | None
    after_sha256: str | None
    report_sha256: str | None
    verdict: Mapping[str, Any]
    metadata: Mapping[str, Any]


def write_decision(repo: Repo, decision: Decision) -> Path:
    """Keep a decision under a name of its own, checked; the same one twice is one file. Relative to the root."""
    path, text = prepared(repo, decision)
    write_atomic(repo / path, text)
    return path


def prepared(repo: Repo, decision: Decision) -> tuple[Path, str]:
    """Where a decision goes, relative to the root, and its text; an earlier one is never overwritten."""
    row = plain(decision)
    text = as_json(row)
    _check(row, "decision")
    stem = f"{decision.date}-{decision.kind}-{decision.subject}"
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    paths = (DECISIONS / f"{name}.json" for name in names)
    free = next(path for path in paths if not (repo / path).exists() or _load(repo, path) == row)
    return free, text


def decisions(repo: Repo) -> Iterator[tuple[Path, Decision]]:
    """Every decision of this checkout, oldest first; a broken file is bad input, named."""
    for file in sorted((repo / DECISIONS).glob("*.json")):
        path = DECISIONS / file.name
        row = _load(repo, path)
        _check(row, str(path))
        yield path, Decision(**row)


def _load(repo: Repo, path: Path) -> Any:
    try:
        return load_json((repo / path).read_bytes())
    except (OSError, ValueError) as problem:
        raise BadInput(f"{path}: not a decision ({problem})") from None


def _check(row: Any, where: str) -> None:
    if wrong := problems(read_schema(SCHEMA), row):
        raise BadInput(f"{where}: {'; '.join(wrong)}")
