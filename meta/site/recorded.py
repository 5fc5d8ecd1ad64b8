"""What the site shows, as records: scores, comparisons, days, cases and texts; and what it reads of the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from agents.texts.variants import Origin, Variants, name_of, sha256
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import is_number
from telemetry.read.intervals import wilson

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RECENT = 30  # days of rows behind the figures by case and by day


@frozen
class Score:
    """How many cases an agent passed in one night, under which text."""

    date: str
    passed: int
    counted: int
    prompt: str | None = None  # the hash of its own prompt

    @property
    def rate(self) -> float:
        return self.passed / self.counted


@frozen
class Comparison:
    """One challenger against a champion, as the last night that touched it left it."""

    date: str
    row: Mapping[str, Any]
    nights: int  # that it has taken so far
    spent: float | None
    calls: int

    @property
    def pair(self) -> str:
        return str(self.row.get("pair") or "")

    @property
    def stem(self) -> str:
        return str(self.row.get("champion_model") or PurePosixPath(str(self.row.get("prompt") or "?")).stem)

    @property
    def challenger(self) -> str:
        if self.row.get("model"):
            return str(self.row["model"])
        return name_of(str(self.row.get("variant") or "?"), str(self.row.get("sha256") or "")).strip()

    @property
    def verdict(self) -> str:
        return str(self.row.get("verdict") or "")

    def number(self, name: str) -> float | None:
        """A figure of the verdict, if it was recorded."""
        value = self.row.get(name)
        return float(value) if is_number(value) else None


@frozen
class Day:
    """One day of the log."""

    date: str
    runs: int
    calls: int
    cost_usd: float | None
    unpriced: int
    asked: tuple[str, ...]
    answered: tuple[str, ...]


@frozen
class Tried:
    """One case under one text, over the recent nights."""

    prompt_hash: str
    trials: int
    passed: int

    @property
    def flaky(self) -> bool:
        """Whether the same text passed it sometimes and failed it sometimes."""
        return 0 < self.passed < self.trials


@frozen
class Texts:
    """The texts of one prompt: the live one and those that compete with it."""

    prompt: str
    live: str
    by_hash: Mapping[str, tuple[str, str]]  # sha256 -> (name, text)
    lineage: Sequence[Origin]
    problem: str = ""

    @property
    def stem(self) -> str:
        return PurePosixPath(self.prompt).stem

    @classmethod
    def of(cls, repo: Repo, prompt: str) -> Texts:
        """Read them; what cannot be read is said, not raised: the rest of the site does not depend on it."""
        texts = Variants(repo, prompt)
        live = (repo / prompt).read_text(encoding="utf-8", errors="replace")
        try:
            every, problems = texts.every()
            lineage, problem = texts.lineage(), "; ".join(problems.values())
        except BadInput as broken:
            every, lineage, problem = [], [], str(broken)
        named = {variant.sha256: (variant.called, variant.text) for variant in reversed(every)}
        origin = next((row for row in reversed(lineage) if row.sha256 == sha256(live)), None)
        named[sha256(live)] = (name_of(origin.variant if origin else "champion", sha256(live)), live)
        return cls(prompt, sha256(live), named, lineage, problem)


def interval_of(passed: int, counted: int) -> tuple[float, float]:
    """Of a share of passed cases; nothing counted says nothing."""
    return wilson(passed, counted) or (0.0, 1.0)


def kinds_that_fail(
    results: Iterable[tuple[str, Mapping[str, Any]]], most: int = 8
) -> list[tuple[str, str, int, int]]:
    """(agent, kind of case, failed, all), those that fail most often first."""
    found = [
        (agent, tag, rates["counted"] - rates["passed"], rates["counted"])
        for agent, result in results
        for tag, rates in (result.get("summary", {}).get("by_tag") or {}).items()
        if rates["counted"]
    ]
    failing = [row for row in found if row[2]]
    return sorted(failing, key=lambda row: (-row[2] / row[3], -row[3], row[0], row[1]))[:most]


def rows_of(repo: Repo) -> DuckDBPyConnection:
    from telemetry.read.rows import Window
    from telemetry.read.store import connect

    since = datetime.now(UTC) - timedelta(days=RECENT)
    fields = ("model_answered", "case_id", "ok")
    known = ("ts", "kind", "source", "agent", "prompt_hash", "cost_usd", "model")
    return connect(repo, Window(since=since), fields=fields, once=(*known, *fields))


def days_of(con: DuckDBPyConnection) -> list[Day]:
    rows = con.execute(
        "select cast(cast(ts as date) as varchar), count(*) filter (where kind = 'run'),"
        " count(*) filter (where kind = 'llm_call'), sum(cost_usd) filter (where kind = 'llm_call'),"
        " count(*) filter (where kind = 'llm_call' and cost_usd is null),"
        " list_sort(list_distinct(list(model) filter (where kind = 'llm_call'))),"
        " list_sort(list_distinct(list(model_answered) filter (where kind = 'llm_call')))"
        " from events group by 1 order by 1 desc"
    ).fetchall()
    return [
        Day(date, runs, calls, cost, unpriced, tuple(a or ()), tuple(b or ()))
        for date, runs, calls, cost, unpriced, a, b in rows
    ]


def malformed_of(con: DuckDBPyConnection) -> int:
    row = con.execute("select count(*) filter (where malformed) from lines").fetchone()
    return int(row[0]) if row else 0


def tried_of(con: DuckDBPyConnection) -> dict[tuple[str, str], list[Tried]]:
    rows = con.execute(
        "select agent, case_id, coalesce(prompt_hash, ''), count(*), count(*) filter (where ok = 'true')"
        " from events where kind = 'evaluation' and source = 'eval' and case_id is not null and ok is not null"
        " group by 1, 2, 3 order by 1, 2, max(ts) desc"
    ).fetchall()
    found: dict[tuple[str, str], list[Tried]] = defaultdict(list)
    for agent, case, text, trials, passed in rows:
        found[agent, case].append(Tried(text, trials, passed))
    return found
