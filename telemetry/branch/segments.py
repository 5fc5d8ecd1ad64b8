"""What lies on the data branch: segments by name, and what of a run's rows may become one.

`events/dt=YYYY-MM-DD/<run>-<hash>.jsonl` is what a run added, `events/dt=YYYY-MM-DD/<hash>.parquet` a day that was
sealed or compacted; the other logs likewise. The hash is of the content: the same rows twice
are one segment, two pushes under one run id are two. Nothing is taken on trust: what a run cannot have measured is
refused, counted and told.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from telemetry import texts
from telemetry.edge.errors import BadInput
from telemetry.edge.files import HISTORY, LEAVINGS, REFUSALS, REMARKS
from telemetry.edge.frozen import frozen
from telemetry.read.parquet import sealable
from telemetry.read.rows import ELSEWHERE, in_utc, is_instant

# Merged line by line, as they stand.
LINES: Final = {"history": HISTORY, "rejections": REFUSALS, "remarks": REMARKS, "leavings": LEAVINGS}
_NAME: Final = {
    "events": "event_id",
    "texts": "sha256",
}  # what tells one line of a log from another, if not all of it
KEPT_DAYS: Final = {"leavings": 2}  # what one workflow leaves for the next of its night is of no use later
LOGS: Final = ("events", *LINES, "texts")
COLD: Final = "cold"  # what days come to, by kind of sum, instead of their rows; no run brings it
MAX_BYTES: Final = 50 << 20  # of one segment; a run that logs more has gone wrong
CLOCKS: Final = timedelta(minutes=10)  # how far two machines' clocks may lie apart
# Rows of a run on another branch: kept, shown on demand, they decide nothing.
BRANCH_SOURCE: Final = "branch/"
_PATH: Final = re.compile(
    rf"({'|'.join((*LOGS, COLD))})/dt=(\d{{4}}-\d{{2}}-\d{{2}})/[A-Za-z0-9._-]{{1,200}}\.(jsonl|parquet)"
)


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One file of the branch."""

    day: str  # on which it was pushed; of a Parquet file the day of its rows
    path: str
    log: str
    form: str

    def is_past(self, today: date) -> bool:
        """Whether nobody has any use for it any more."""
        return self.log in KEPT_DAYS and self.day < (today - timedelta(days=KEPT_DAYS[self.log])).isoformat()

    @classmethod
    def of(cls, path: str) -> Segment | None:
        """The segment of that path; None if it is something else."""
        match = _PATH.fullmatch(path)
        return cls(match[2], path, match[1], match[3]) if match else None


def name(log: str, day: str, data: bytes, form: str = "jsonl", run: str = "") -> str:
    """Where content goes."""
    digest = hashlib.sha256(data).hexdigest()[:16]
    return f"{log}/dt={day}/{f'{run}-' if run else ''}{digest}.{form}"


@frozen
class Bounds:
    """What a run can have measured."""

    start: datetime
    end: datetime
    agents: frozenset[str]
    sources: frozenset[str]
    branch: str = ""  # the run's own, when it was not started from the default branch

    def refuses(self, event: Mapping[str, Any]) -> str:
        """Why a row cannot come from such a run; empty if it can."""
        if not self._within(event["ts"]):
            return "outside the time of the run"
        if event.get("as_of") is not None and str(event["as_of"])[:10] > in_utc(self.end + CLOCKS)[:10]:
            return "as of a day to come"
        if event["agent"] not in self.agents:
            return "of agents that are not in the manifest"
        return "" if event["source"] in self.sources else "of sources that such a run does not write"

    def _within(self, ts: object) -> bool:
        at = str(ts)[:23]
        return is_instant(ts) and in_utc(self.start - CLOCKS) <= at <= in_utc(self.end + CLOCKS)

    def refuses_line(self, row: Mapping[str, Any]) -> str:
        """The same for a line of another log; one of another branch would settle what is tested on this one."""
        if self.branch:
            return "from another branch"
        return "" if self._within(row.get("ts")) else "outside the time of the run"


@frozen
class Checked:
    """The lines of one log that are taken, and how many were refused, by reason."""

    data: bytes
    taken: int
    refused: Mapping[str, int] = field(default_factory=dict)

    def told(self, log: str) -> list[str]:
        """A line for each reason."""
        return [f"{log}.jsonl: {count} rows refused: {why}" for why, count in sorted(self.refused.items())]


def checked(log: str, raw: bytes, bounds: Bounds | None = None) -> Checked:
    """The lines that are what they should be, each once; by `bounds` if they come from a run nobody can vouch for."""
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{log}.jsonl: {len(raw)} bytes, at most {MAX_BYTES} are taken in one segment")
    import orjson

    read = {"events": sealable, "texts": texts.parse}.get(log, _object)
    refused: Counter[str] = Counter()
    taken: dict[str | bytes, bytes] = {}
    for line in raw.split(b"\n"):
        if not line.strip():
            continue
        row = read(line)
        if row is None:
            refused["malformed"] += 1
            continue
        key = row[_NAME[log]] if log in _NAME else line
        why = "" if bounds is None else (bounds.refuses if log == "events" else bounds.refuses_line)(row)
        if why or key in taken:
            refused[why or "repeated"] += 1
        elif bounds is None or log != "events":
            taken[key] = line
        else:  # as it was checked: of a key given twice, another reader might take the other
            taken[key] = orjson.dumps({**row, "source": ELSEWHERE + bounds.branch} if bounds.branch else row)
    return Checked(b"".join(line + b"\n" for line in taken.values()), len(taken), refused)


def _object(line: bytes) -> dict[str, Any] | None:
    import orjson

    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("ts"), str) else None


def lines(raws: Iterable[bytes | None]) -> dict[bytes, None]:
    """The lines of several files, each once, in order."""
    return {line: None for raw in raws if raw for line in raw.split(b"\n") if line.strip()}


def read_bounded(path: Path) -> bytes:
    """A file from a hand-over, which may hold anything: no link is followed, no more than the limit read."""
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
