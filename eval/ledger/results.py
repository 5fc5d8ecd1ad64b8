"""What an eval has left, as whoever comes later reads it: held to a schema, for anybody may have touched it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, overload

from agents.model.schema import checker, read_schema
from telemetry.edge.files import RESULTS, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json, read_json

SCHEMA: Final = Path(__file__).parents[1] / "results.schema.json"
ROWS: Final = "_rows.jsonl"  # how the name of a file of rows ends, beside that of a large suite's results


def stored(repo: Repo, agent: str) -> dict[str, Any]:
    """The newest results of an agent, with their rows if they are there; nothing if that is not what its file holds."""
    return read_results(repo, RESULTS / f"{agent}.json") or {}


def read_results(repo: Repo, path: Path) -> dict[str, Any] | None:
    """A results file, with its rows or those of the file that it names beside itself; None if it is not one."""
    document = read_json(repo, path)
    if document is None or not checker(read_schema(SCHEMA))(document):
        return None
    named = document.get("results")
    if isinstance(named, str):
        beside = (repo / path).with_name(f"{path.stem}{ROWS}")
        document["results"] = RowFile(beside) if named == beside.name and beside.is_file() else None
    return document


@frozen
class RowFile(Sequence[Mapping[str, Any]]):
    """Rows in a file, one a line, read when they are looked at."""

    path: Path

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        is_row = checker({"$ref": "#/$defs/row", "$defs": read_schema(SCHEMA)["$defs"]})
        with self.path.open("rb") as file:
            for line in file:
                with suppress(ValueError):  # a line that somebody has torn is no row
                    if is_row(row := load_json(line)):
                        yield row

    def __len__(self) -> int:
        with self.path.open("rb") as file:
            return sum(1 for _ in file)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        return list(self)[at]
