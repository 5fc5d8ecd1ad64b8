"""Keeps the data branch small: months that are over become one Parquet file a day, in one commit without a past.

A run leaves a segment, a year of a hundred runs a day 36,500 of them, and as many commits. What is compacted holds the
same rows, each once. The exchange is one push: a kill leaves the branch as it was, and another run's push in between
makes it start over.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from telemetry.branch.days import by_day
from telemetry.branch.local import laid_out
from telemetry.branch.remote import TRIES, DataBranch, GitFailed
from telemetry.branch.segments import COLD, LINES, Segment, lines, name
from telemetry.edge.frozen import frozen
from telemetry.read import sealed_texts


@frozen
class Compacted:
    """How many segments of finished months there were, and how many there are now."""

    before: int
    after: int


def compact(root: Path, today: date) -> Compacted:
    """Merge the segments of every finished month; where there is nothing to merge, nothing is pushed."""
    branch = DataBranch(root)
    for attempt in range(TRIES):
        branch.fetch()
        month = today.replace(day=1).isoformat()
        old = [one for one in branch.segments() if one.day < month and one.log != COLD]
        merged = {**_events(branch, old), **_texts(branch, old), **_lines(branch, old, today)}
        gone = {one.path for one in old} - merged.keys()
        if gone:
            try:
                branch.replace(merged, gone, f"Telemetry up to {max(one.day for one in old)}, one file a day")
            except GitFailed:
                if attempt == TRIES - 1:
                    raise
                continue
        return Compacted(len(old), len(merged))
    raise AssertionError("the last try returns or raises")


def _events(branch: DataBranch, old: Sequence[Segment]) -> dict[str, bytes]:
    """One Parquet file a day; a day that is one already stays the file that it is."""
    with tempfile.TemporaryDirectory() as scratch:
        days = by_day(branch, [one for one in old if one.log == "events"], Path(scratch))
        found = ((day, written.read_bytes()) for day, written in days)
        return {name("events", day, data, "parquet"): data for day, data in found}


def _texts(branch: DataBranch, old: Sequence[Segment]) -> dict[str, bytes]:
    """One Parquet file a month, every text once; a month that is one already stays the file that it is."""
    months: dict[str, list[Segment]] = defaultdict(list)
    for one in old:
        if one.log == "texts":
            months[f"{one.day[:7]}-01"].append(one)
    found: dict[str, bytes] = {}
    for day, segments in months.items():
        if len(segments) == 1 and segments[0].form == "parquet":
            found[segments[0].path] = branch.read([segments[0].path])[0]
            continue
        with tempfile.TemporaryDirectory() as scratch, laid_out(branch, segments) as files:
            if files:
                data = sealed_texts.joined(files, Path(scratch) / "month.parquet").read_bytes()
                found[name("texts", day, data, "parquet")] = data
    return found


def _lines(branch: DataBranch, old: Sequence[Segment], today: date) -> dict[str, bytes]:
    """One file a month of the other logs, every line once."""
    months: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in old:
        if one.log in LINES and not one.is_past(today):
            months[one.log, f"{one.day[:7]}-01"].append(one.path)
    joined = ((*of, b"\n".join(lines(branch.read(paths))) + b"\n") for of, paths in months.items())
    return {name(log, day, data): data for log, day, data in joined}
