"""What a new agent starts from: the starter where no domain has one, or a prompt and cases made of rows of its own.

Nobody has said yet which rows count, so the starter takes a rule that is plainly made up (the largest quarter of a
number, else one label for all) and labels its cases by that rule: to be replaced by the real task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.domain import Starter
from agents.manifest import Feed
from agents.sources.named import open_feed
from agents.sources.source import SourceError
from eval.scaffolding.imported import Imported, family_of
from telemetry.edge.errors import BadInput
from telemetry.edge.records import is_number, load_yaml, made

ROWS: Final = 12  # of the source, in the starter suite
_GIVEN: Final = load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())

Row = Mapping[str, Any]


def _any_cases(name: str) -> Iterable[dict[str, Any]]:
    for about, records, counting in _GIVEN["cases"]:
        items = [{"id": f"r{at}", "value": value, "text": text} for at, (value, text) in enumerate(records)]
        wanted = [f"r{place}" for place in counting]
        yield {
            "id": f"{name}.{about}",
            "family": f"item-{about}",
            "input": {"as_of": "2026-03-02", "items": items},
            "expect": [{"grader": "set_f1", "path": "*.id", "values": wanted}],
            "tags": ["report" if wanted else "quiet"],
        }


STARTERS: Final = {"records": Starter(_GIVEN["prompt"], _GIVEN["properties"], _any_cases)}


def feed_of(said: str, by_day: str | None, json_path: str | None) -> Feed | None:
    """The feed that `file:PATH`, `call:MODULE:FUNCTION` or `http:URL` names; None for a kind of the domain."""
    how, _, where = said.partition(":")
    if how in ("http", "https") and where.startswith("//"):
        how, where = "http", said
    if json_path and how != "http":
        raise BadInput(f"--json-path {json_path}: only with --inputs http:...")
    if how not in ("file", "call", "http"):
        if by_day:
            raise BadInput(f"--by-day {by_day}: only with --inputs file:... or http:...")
        return None
    if not where:
        raise BadInput(
            f"--inputs {said}: must be file:PATH, call:MODULE:FUNCTION, http:URL or a kind of the domain"
        )
    return made(Feed, {how: where, "by_day": by_day, "json_path": json_path or ""})


def from_feed(feed: Feed, root: Path, title: str) -> Imported:
    """A starter on the rows that the feed has today."""
    try:
        given = open_feed(feed, root).load(feed.name)
    except SourceError as problem:
        raise BadInput(f"--inputs: {problem}") from None
    rows = [row for row in given.get("items") or () if isinstance(row, dict)]
    if not rows:
        there = next(_lists(given), "") if feed.http else ""
        instead = f"those at {there}? --json-path {there}" if there else "a list of objects, or items: [...]"
        raise BadInput(f"--inputs {feed.name}: no rows to start from ({instead})")
    names, numbers = _name(rows), _numbers(rows)
    rows = rows[:ROWS]
    expected: list[dict[str, Any]]
    if numbers:
        field = numbers[0]
        sizes = sorted(abs(row[field]) for row in rows)
        above = sizes[len(sizes) * 3 // 4]
        prompt = _prompt("size", feed, title, rows, id_field=names, field=field, above=f"{above:g}")
        fields: dict[str, Any] = {"rationale": {"type": "string", "minLength": 1}}
        counting = [[row[names]] if abs(row[field]) >= above else [] for row in rows]
        expected = [{"grader": "set_f1", "path": f"*.{names}", "values": values} for values in counting]
    else:
        prompt = _prompt("label", feed, title, rows, id_field=names)
        fields = {"label": {"type": "string", "enum": ["urgent", "other"]}}
        expected = [
            {"grader": "exact", "path": f"[{names}={row[names]}].label", "value": "other"} for row in rows
        ]
    cases = [
        {
            "id": f"row-{number:05}",
            "family": family_of(row),
            "input": {"items": [dict(row)]},
            "expect": [part],
        }
        for number, (row, part) in enumerate(zip(rows, expected, strict=True), 1)
    ]
    kind = {"type": "number" if all(is_number(row.get(names)) for row in rows) else "string"}
    return Imported([prompt], {names: kind, **fields}, cases)


def _lists(value: Any, path: str = "") -> Iterator[str]:
    """Where lists of objects stand in an answer, the outermost first."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        yield path
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _lists(one, f"{path}.{name}".removeprefix("."))


def _prompt(which: str, feed: Feed, title: str, rows: Sequence[Row], **values: str) -> str:
    text = str(_GIVEN[which])
    for name, value in {
        "title": title,
        "columns": ", ".join(f"`{column}`" for column in rows[0]),
        "source": str(feed.file or feed.call or feed.http),
        **values,
    }.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _name(rows: Sequence[Row]) -> str:
    """The column that names a row: `id`, else the first in which no value stands twice, else the first."""
    columns = list(rows[0])
    single = [name for name in columns if len({str(row.get(name)) for row in rows}) == len(rows)]
    return next((name for name in ("id", *single, *columns) if name in columns), columns[0])


def _numbers(rows: Sequence[Row]) -> list[str]:
    """The columns of numbers, but for those that only name a row."""
    found = [name for name in rows[0] if all(is_number(row.get(name)) for row in rows)]
    return [name for name in found if name != _name(rows) and not name.endswith("id")]
