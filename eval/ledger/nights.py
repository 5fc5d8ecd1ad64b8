"""The champions' scores night by night, as their `evaluation` rows have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.read.rows import Window
from telemetry.read.store import connect

ARM = "champion"
SETTING = ("prompt_hash", "model", "provider")  # what somebody decided; the rest is what came of it
FIELDS = ("arm", "case_id", "case_hash", "score", "ok", "model_answered", "reused")
_ROWS = f"""
    select agent, strftime(ts, '%Y-%m-%dT%H:%M:%S.%g'), event_id, prompt_hash, model, provider, case_id,
      coalesce(case_hash, ''), cast(score as double), ok = 'true', model_answered
    from events
    where arm = '{ARM}' and case_id is not null and try_cast(score as double) between 0 and 1
      and reused is null -- an answer out of the cache says nothing about tonight
"""


class Scored(NamedTuple):
    """One graded trial of a champion; a case is its id and the hash of its text."""

    agent: str
    ts: str
    event_id: str
    prompt_hash: str | None
    model: str | None  # as asked
    provider: str | None
    case_id: str
    case_hash: str
    score: float
    ok: bool
    model_answered: str | None

    @property
    def night(self) -> str:
        """The UTC day."""
        return self.ts[:10]

    def under(self, setting: Mapping[str, str]) -> bool:
        """Whether it was run under that setting, as far as it is known: a trial may end without asking a model."""
        return all(getattr(self, name) in (None, value) for name, value in setting.items())

    @property
    def case(self) -> tuple[str, str]:
        return self.case_id, self.case_hash


@frozen
class Round:
    """Every case once at most, in one night: what one eval left, or one of its trials."""

    night: str
    scored: Mapping[tuple[str, str], Scored]


def champions(repo: Repo, since: datetime) -> Iterator[tuple[str, list[Round]]]:
    """Agent by agent the rounds of its present prompt, model and endpoint, oldest first. An outage has no score."""
    con = connect(repo, Window(kind="evaluation", source="eval", since=since), fields=FIELDS)
    found: dict[str, list[Scored]] = {}
    for row in _fetched(con):
        found.setdefault(row.agent, []).append(row)
    for agent in sorted(found):
        yield agent, rounds(sorted(found.pop(agent), key=lambda row: (row.ts, row.event_id)))


def rounds(rows: Sequence[Scored]) -> list[Round]:
    """One agent's rows, in order of time, as rounds: a case asked again the same night begins another.

    Scores under another prompt, model or endpoint than the newest are left out: they are another champion's.
    """
    setting = {name: value for row in rows for name in SETTING if (value := getattr(row, name)) is not None}
    nights: dict[str, list[dict[tuple[str, str], Scored]]] = {}
    asked: dict[tuple[str, tuple[str, str]], int] = {}
    for row in rows:
        if row.under(setting):
            number = asked[row.night, row.case] = asked.get((row.night, row.case), -1) + 1
            night = nights.setdefault(row.night, [])
            if number == len(night):
                night.append({})
            night[number][row.case] = row
    return [Round(night, scored) for night, found in nights.items() for scored in found]


def _fetched(con: Any) -> Iterator[Scored]:
    """The rows as they come, texts that recur kept once: a year of large suites has half a million of them.

    Sorting them is left to the caller: DuckDB would need more memory for it than it may have.
    """
    done, kept = con.execute(_ROWS), dict[Any, Any]()
    while batch := done.fetchmany(10_000):
        for agent, ts, event_id, *others in batch:
            yield Scored(
                kept.setdefault(agent, agent), ts, event_id, *(kept.setdefault(v, v) for v in others)
            )
