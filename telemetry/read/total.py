"""What all runs come to, from what sealed days come to: of most days together it is kept, and only new ones are added.

`telemetry/sealed/days/total.json` has cells by agent, source and day, sketches of latency, and what agents earned by
day; `total.keys.parquet` the inputs that those days saw. It names the days it is of, and begins with a hash of itself:
where one of them changed or went, or a writer was killed, it is made again from what days come to.

A day is added where it only adds: an agent that repeats an input of a day before, speaks of an earlier day, or is
scored by another version is summed up from all its days again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.files import Repo, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.read import cells, days, field
from telemetry.read.cells import Cell, Cells
from telemetry.read.field import Earned
from telemetry.read.rows import ELSEWHERE, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE: Final = days.PLACE / "total.json"
KEYS: Final = days.PLACE / "total.keys.parquet"
FEW: Final = 7  # days that are added each time; with more of them it is kept anew
_FORM: Final = f"{cells.FOLDED_SQL}{field.WHOLE_SQL}{field.WINDOW}"  # whoever sums up otherwise starts over
_values: Final = attrgetter(*(one.name for one in fields(Cell)))  # no copies, as `astuple` makes


@frozen
class Total:
    """What some runs come to."""

    by: Mapping[str, Cells]  # by level
    latency: Mapping[str, str]  # a sketch for each agent
    earned: Mapping[str, Earned]


def everything(con: DuckDBPyConnection, sums: days.Kept, sealed: str, live: str, *, keep: bool) -> Total:
    """What sealed days and live rows come to; `sealed` and `live` are tables of rows.

    `keep` is for who asks for all days there are.
    """
    known = _known(con, sums, sealed) if keep else None
    if known is None:
        again = days.repeating(con, sums, live)
        earned = field.earned(days.field_rows(con, sums, sealed, live, again, told=False))
        return Total(_cells(con, sums, live), days.latency(con, sums, live), earned)
    names, total = known
    new = replace(sums, names=tuple(name for name in sums.names if name not in names), cold=())
    again = days.repeating(con, new, live, sums.repo / KEYS)
    lately = field.earned(days.field_rows(con, new, sealed, live, (), told=False))
    both = {agent: _then(total.earned.get(agent), own) for agent, own in lately.items() if agent not in again}
    anew = {*again, *(agent for agent, own in both.items() if own is None)}
    told = days.field_rows(con, sums, sealed, live, again, told=False, agents=anew) if anew else []
    earned = {agent: own for agent, own in both.items() if own is not None} | field.earned(told)
    return Total(
        cells.added(total.by, _cells(con, new, live)),
        days.merged([*total.latency.items(), *days.latency(con, new, live).items()]),
        {**total.earned, **earned},
    )


def _then(before: Earned | None, later: Earned) -> Earned | None:
    return later if before is None else before.then(later)


def _cells(con: DuckDBPyConnection, sums: days.Kept, live: str) -> dict[str, Cells]:
    here_only = f"not starts_with(source, {quoted(ELSEWHERE)})"
    con.execute(
        f"create or replace temp table cells as select * from {sums.table('cells')} where {here_only}"
        f" union all {days.CELLS_SQL.format(table=live)}"
    )
    return cells.folded(con)


def _known(con: DuckDBPyConnection, sums: days.Kept, sealed: str) -> tuple[frozenset[str], Total] | None:
    """The total of all but a few days, and which those are; None where it cannot be kept."""
    present = frozenset((*sums.names, *sums.cold_names()))
    found = _read(sums.repo)
    if found is not None and found[0] <= present and len(present - found[0]) <= FEW:
        return found
    total = everything(con, sums, sealed, days.NO_RUNS, keep=False)
    try:
        _write(con, sums, present, total)
    except OSError:  # a full or read-only disk: what days come to is there all the same
        return None
    return present, total


def _write(con: DuckDBPyConnection, sums: days.Kept, names: frozenset[str], total: Total) -> None:
    target = sums.repo / KEYS
    coming = target.with_name(f"{target.name}.{os.getpid()}.coming")
    keys = f"select key from {sums.table('keys', cold=False)}"
    con.execute(f"copy ({keys}) to {quoted(str(coming))} (format parquet, compression uncompressed)")
    coming.rename(target)
    write_atomic(sums.repo / FILE, _signed(_plain(sums.repo, names, total)), durable=False)


def _plain(repo: Repo, names: frozenset[str], total: Total) -> dict[str, Any]:
    return {
        "days": sorted(names),
        "keys": days.name_of("keys", [repo / KEYS]),
        "by": {
            level: {name: [_values(cell) for cell in own] for name, own in known.items()}
            for level, known in total.by.items()
        },
        "latency": total.latency,
        "earned": {agent: (own.version, own.days, own.seen) for agent, own in total.earned.items()},
    }


def _signed(content: dict[str, Any]) -> bytes:
    import orjson

    body = orjson.dumps(content)
    return _signature(body) + b"\n" + body


def _signature(body: bytes) -> bytes:
    return hashlib.sha256(_FORM.encode() + body).hexdigest().encode()


def _read(repo: Repo) -> tuple[frozenset[str], Total] | None:
    """The total as it was kept, and of which days; None where there is none, or it is not whole."""
    import orjson

    try:
        signature, _, body = (repo / FILE).read_bytes().partition(b"\n")
        keys = days.name_of("keys", [repo / KEYS])
    except OSError:
        return None
    if signature != _signature(body) or (kept := orjson.loads(body))["keys"] != keys:
        return None
    by = {
        level: {name: [_cell(cell) for cell in own] for name, own in known.items()}
        for level, known in kept["by"].items()
    }
    earned = {agent: Earned(*own) for agent, own in kept["earned"].items()}
    return frozenset(kept["days"]), Total(by, kept["latency"], earned)


def _cell(values: list[Any]) -> Cell:
    *others, last, rewarded = values
    when = datetime.fromisoformat
    return Cell(*[*others, when(last), rewarded and when(rewarded)])
