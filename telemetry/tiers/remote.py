"""The tiers of the data branch: rows become what their days come to, and the branch one commit without a past.

The exchange is one push, as in a compaction: a kill leaves the branch as it was, another run's push makes it start
over. What is gone has no commit any more; the bytes go when git collects its garbage.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from telemetry.branch.days import by_day
from telemetry.branch.local import laid_out
from telemetry.branch.remote import TRIES, DataBranch, GitFailed
from telemetry.branch.segments import COLD, Segment, name
from telemetry.edge.frozen import frozen
from telemetry.read import sealed_texts
from telemetry.read.rows import quoted
from telemetry.tiers.ages import Ages
from telemetry.tiers.here import freeze, keys_in, keys_of


@frozen
class Thinned:
    """What the branch loses."""

    segments: int
    days_to_cold: int
    texts: int


def thin(root: Path, ages: Ages, today: date, *, dry_run: bool = False) -> Thinned | None:
    """Let the branch at `origin` keep what is of age; None where there is no such branch."""
    branch = DataBranch(root)
    for attempt in range(TRIES):
        if branch.fetch() is None:
            return None
        there = branch.segments()
        warm, cold, gone_before = (ages.first(tier, today) for tier in ("warm", "cold", "gone"))
        past = [one for one in there if one.log in ("events", COLD) and one.day < gone_before]
        old = [one for one in there if one.log == "events" and gone_before <= one.day < warm]
        past += [one for one in there if one.log == COLD and one.day < cold and "/cells-" not in one.path]
        made = _cold(branch, old, {one.day for one in there if one.log == COLD}, cold)
        stale = [one for one in there if one.log == "texts" and one.day < warm]
        named = (
            _named(branch, [one for one in there if one.log == "events" and one.day >= warm])
            if stale
            else set()
        )
        texts, fewer = _texts(branch, stale, named, warm)
        gone = ({one.path for one in (*past, *old)} | {one.path for one in stale}) - texts.keys()
        done = Thinned(len(gone), len({path.split("/")[1] for path in made}), fewer)
        if dry_run or not gone:
            return done
        try:
            branch.replace({**made, **texts}, gone, f"Telemetry before {warm}: what its days come to")
            branch.fetch()
            return done
        except GitFailed:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


def _cold(branch: DataBranch, old: Sequence[Segment], known: set[str], cold: str) -> dict[str, bytes]:
    """What the days of these rows come to, of days that are not known yet."""
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "rows").mkdir()
        for day, rows in by_day(branch, old, Path(scratch) / "rows"):
            if day in known:
                continue
            named = rows.rename(Path(scratch) / f"dt={day}.parquet")
            for file in sorted(freeze(Path(scratch), day, [named], cold).iterdir()):
                data = file.read_bytes()
                found[name(COLD, day, data, "parquet", run=file.stem)] = data
    return found


def _named(branch: DataBranch, rows: Sequence[Segment]) -> set[int]:
    """The keys of the texts that these rows name."""
    import duckdb

    plain = [one.path for one in rows if one.form == "jsonl"]
    found = {key for data in branch.read(plain) for key in keys_of([data])}
    with tempfile.TemporaryDirectory() as scratch, duckdb.connect() as con:
        for number, one in enumerate(one for one in rows if one.form == "parquet"):
            file = Path(scratch) / f"{number}.parquet"
            file.write_bytes(branch.read([one.path])[0])
            told = f"select cast(extra as varchar) as told from read_parquet({quoted(str(file))})"
            found |= keys_in(con, told)
            file.unlink()
    return found


def _texts(
    branch: DataBranch, stale: Sequence[Segment], named: set[int], warm: str
) -> tuple[dict[str, bytes], int]:
    """What is left of old segments of texts, and how many texts go; a segment that loses none stays as it is."""
    found: dict[str, bytes] = {}
    fewer = 0
    for one in stale:
        with tempfile.TemporaryDirectory() as scratch, laid_out(branch, [one]) as files:
            if not files:  # it holds no texts that anybody could read
                continue
            joined = sealed_texts.joined(files, Path(scratch) / "texts.parquet")
            lost = sealed_texts.unnamed(joined, named, warm)
            if not lost:
                found[one.path] = branch.read([one.path])[0]
                continue
            fewer += lost
            if sealed_texts.keep_only(joined, named, warm):
                data = joined.read_bytes()
                found[name("texts", one.day, data, "parquet")] = data
    return found, fewer
