"""Runs folded to cells: all of one agent, source or day that are alike in error kind, scoring version and field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from telemetry.edge.frozen import frozen
from telemetry.logger import FIELD
from telemetry.read.intervals import Mean
from telemetry.read.rows import quoted

# Cells (telemetry/read/days.py) by agent, by source and by day; means and variances pooled.
FOLDED_SQL: Final = """
select
    agent, source, day, field, error_kind, scoring_version, cast(sum(runs) as bigint), cast(sum(errors) as bigint),
    cast(sum(priced) as bigint), sum(cost), cast(sum(rewarded) as bigint),
    sum(rewarded * reward) / nullif(sum(rewarded), 0),
    greatest(0, sum((rewarded - 1) * coalesce(reward_variance, 0)) + sum(rewarded * reward * reward)
        - sum(rewarded * reward) * sum(rewarded * reward) / nullif(sum(rewarded), 0)) / nullif(sum(rewarded) - 1, 0),
    max(last_ts), max(case when rewarded > 0 then last_ts end)
from (select *, source in ({field}) as field from cells) as known
group by grouping sets (
    (agent, field, error_kind, scoring_version),
    (source, field, error_kind, scoring_version),
    (day, field, error_kind, scoring_version)
)
order by 1, 2, 3, 5, 6
"""


@frozen
class Cell:
    """All runs of one agent, source or day alike in error kind, scoring version and whether they were in the field."""

    field: bool
    error_kind: str | None
    scoring_version: str | None
    runs: int
    errors: int
    priced: int
    cost: float | None
    rewarded: int
    reward: float | None
    reward_variance: float | None
    last_ts: datetime
    rewarded_ts: datetime | None  # of the last cell with a reward

    def __add__(self, other: Cell) -> Cell:
        parts = [(one.rewarded, one.reward or 0.0, one.reward_variance or 0.0) for one in (self, other)]
        reward = Mean.pooled(part for part in parts if part[0])
        costs = [one.cost for one in (self, other) if one.cost is not None]
        return Cell(
            self.field,
            self.error_kind,
            self.scoring_version,
            self.runs + other.runs,
            self.errors + other.errors,
            self.priced + other.priced,
            sum(costs) if costs else None,
            reward.n,
            reward.mean if reward.n else None,
            reward.squares / (reward.n - 1) if reward.n > 1 else None,
            max(self.last_ts, other.last_ts),
            max(filter(None, (self.rewarded_ts, other.rewarded_ts)), default=None),
        )


Cells = dict[str, list[Cell]]
LEVELS: Final = ("agent", "source", "day")


def folded(con: Any) -> dict[str, Cells]:
    """The table `cells` of a connection by agent, source and day."""
    by: dict[str, Cells] = {level: {} for level in LEVELS}
    sql = FOLDED_SQL.format(field=", ".join(map(quoted, FIELD)))
    for row in con.execute(sql).fetchall():
        level, name = next((one, key) for one, key in zip(by, row, strict=False) if key is not None)
        by[level].setdefault(str(name), []).append(Cell(*row[len(by) :]))
    return by


def added(one: Mapping[str, Cells], other: Mapping[str, Cells]) -> dict[str, Cells]:
    """The cells of both, in the order in which they are folded."""
    return {level: _added(one[level], other[level]) for level in LEVELS}


def _added(one: Cells, other: Cells) -> Cells:
    both: Cells = {}
    for name in sorted({*one, *other}):
        alike: dict[tuple[str, str, bool], Cell] = {}
        for cell in (*one.get(name, ()), *other.get(name, ())):
            # As SQL has it: what is unknown comes last.
            key = (cell.error_kind or "\U0010ffff", cell.scoring_version or "\U0010ffff", cell.field)
            alike[key] = alike[key] + cell if key in alike else cell
        both[name] = [alike[key] for key in sorted(alike)]
    return both
