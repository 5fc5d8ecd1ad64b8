"""Texts as Parquet: moved there from their log, brought there from the data branch, each once, and found again.

Any step may be the last: a text has its name from its content, so one that stands in two places is the same text.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from telemetry.edge.errors import of_engine
from telemetry.edge.files import SEALED, TEXTS, Repo
from telemetry.read.rows import quoted
from telemetry.read.store import LINE_BUFFER, memory_limit

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PLACE: Final = SEALED / "texts"  # below it: dt=YYYY-MM-DD/*.parquet
LEAVING: Final = PLACE / "leaving.jsonl"  # lines on their way from the log to Parquet
CAME: Final = "branch-"  # how the names of sealed files from the data branch begin
ROW_GROUP: Final = 20_000  # texts; similar ones compress together, and a reader holds no more at a time
LEVEL: Final = 15  # of zstd: sealing is rare, and reading is as fast at any level

# A sealed text has the first 64 bits of its hash: enough to find it, and the text itself tells the rest.
_KEY: Final = "cast('0x' || sha256(text)[:16] as ubigint)"
_FIELDS: Final = "{sha256: 'varchar', ts: 'varchar', text: 'varchar'}"
_TS: Final = "strftime(ts, '%Y-%m-%dT%H:%M:%S.%g') || 'Z'"


def files(repo: Repo, *, own: bool = False) -> list[Path]:
    """The sealed files, oldest day first; `own`: of what was kept here, not what came from the data branch."""
    found = sorted((repo / PLACE).glob("dt=*/*.parquet"))
    return [path for path in found if not (own and path.name.startswith(CAME))]


def logs(repo: Repo) -> list[Path]:
    """Where texts stand that are not sealed yet."""
    return [path for path in (repo / TEXTS, repo / LEAVING) if path.exists()]


def find(repo: Repo, names: Iterable[str]) -> Iterator[str]:
    """The texts whose names begin like one of these (16 characters count), and now and then another one."""
    with _connected() as con:
        _wanted(con, (int(name[:16], 16) for name in names))
        for source in (logs(repo), files(repo)):
            if source:
                rows = con.execute(f"select text from ({_every(source)}) where key in (from wanted)")
                while batch := rows.fetchmany(1000):
                    yield from (text for (text,) in batch)


def seal(repo: Repo, today: str) -> int:
    """Move the log to Parquet if it holds a text of a day before `today`; how many texts were new there."""
    log, leaving = repo / TEXTS, repo / LEAVING
    if not leaving.exists():
        if not log.exists() or _first_day(log) >= today:
            return 0
        leaving.parent.mkdir(parents=True, exist_ok=True)
        with log.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # no line is half written
            log.rename(leaving)
    new = bring(repo, [leaving], "")
    leaving.unlink()
    return new


def bring(repo: Repo, sources: Sequence[Path], prefix: str = CAME) -> int:
    """Seal the texts of these files, JSON lines or Parquet, that are not sealed yet; how many there were."""
    placed, scratch, count = files(repo), repo / PLACE / "coming", 0
    shutil.rmtree(scratch, ignore_errors=True)  # what a killed one left
    scratch.mkdir(parents=True)
    with _connected() as con:
        con.execute(f"create table fresh as from ({_once(sources)}) {_unless(placed)}")
        days = con.execute(
            "select strftime(ts, '%Y-%m-%d') as day, count(*) from fresh group by day"
        ).fetchall()
        for day, rows in days:
            target = repo / PLACE / f"dt={day}" / f"{prefix}{os.urandom(8).hex()}.parquet"
            target.parent.mkdir(exist_ok=True)
            _write(con, f"from fresh where strftime(ts, '%Y-%m-%d') = '{day}'", scratch / "day").rename(
                target
            )
            count += rows
    shutil.rmtree(scratch)
    return count


def joined(sources: Sequence[Path], target: Path) -> Path:
    """One Parquet file of all these texts, each once."""
    with _connected() as con:
        return _write(con, _once(sources), target)


def rows(sources: Sequence[Path], known: Sequence[Path] = ()) -> Iterator[tuple[str, str]]:
    """When each of these texts was first seen, and the text; those that the `known` files hold are left out."""
    if not sources:
        return
    with _connected() as con:
        found = con.execute(f"select {_TS}, text from ({_once(sources)}) {_unless(known)} order by ts")
        while batch := found.fetchmany(1000):
            yield from batch


def unnamed(file: Path, named: Iterable[int], before: str = "9999") -> int:
    """How many texts of a sealed file, of days before that one, have none of these keys."""
    with _connected() as con:
        _wanted(con, named)
        old = f"strftime(ts, '%Y-%m-%d') < {quoted(before)}"
        asked = f"select count(*) from ({_every([file])}) where {old} and key not in (from wanted)"
        return int((con.execute(asked).fetchone() or (0,))[0])


def keep_only(file: Path, named: Iterable[int], before: str = "9999") -> bool:
    """Write a sealed file anew without the texts of days before that one that have none of these keys.

    The file goes when nothing is left in it; whether there is.
    """
    coming = file.with_name(f"{file.name}.coming")
    with _connected() as con:
        _wanted(con, named)
        kept = f"strftime(ts, '%Y-%m-%d') >= {quoted(before)} or key in (from wanted)"
        rows = f"select * from ({_every([file])}) where {kept}"
        left = (con.execute(f"select count(*) from ({rows})").fetchone() or (0,))[0]
        if left:
            _write(con, rows, coming).replace(file)
        else:
            file.unlink()
    return bool(left)


def _wanted(con: DuckDBPyConnection, keys: Iterable[int]) -> None:
    """As one list: a statement a key takes half a millisecond."""
    con.execute("create table wanted as select cast(unnest(?) as ubigint) as key", [list(keys)])


def readable(file: Path) -> bool:
    """Whether a file from elsewhere is Parquet with the columns of texts."""
    with _connected() as con:
        try:
            return con.execute(f"select count(*) >= 0 from ({_every([file])})").fetchone() == (True,)
        except of_engine():
            return False


def _first_day(log: Path) -> str:
    """The day of the first line, which is the oldest; that of a line nobody can read is long ago."""
    with log.open("rb") as lines:
        _, _, rest = lines.readline().partition(b'"ts":"')
    return rest[:10].decode("ascii", "replace")


def _write(con: DuckDBPyConnection, sql: str, target: Path) -> Path:
    """Texts as a Parquet file, on the disk for good; those that begin alike stand together."""
    con.execute(
        f"copy (select ts, key, text from ({sql}) order by text) to {quoted(str(target))} (format parquet,"
        f" compression zstd, compression_level {LEVEL}, row_group_size {ROW_GROUP})"
    )
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return target


def _once(sources: Sequence[Path]) -> str:
    """SQL for the texts of these files, each once, as it was first seen; a false key would hide another text."""
    checked = f"select * from ({_every(sources)}) where key = {_KEY} and ts is not null"
    return f"select min(ts) as ts, key, any_value(text) as text from ({checked}) group by key"


def _unless(known: Sequence[Path]) -> str:
    return f"where key not in (select key from ({_every(known)}))" if known else ""


def _every(sources: Sequence[Path]) -> str:
    """SQL for all texts of these files; a line that is none has no key."""
    parts = []
    for path in sources:
        if path.suffix == ".jsonl":
            line = (
                f"read_json({quoted(str(path))}, format='newline_delimited', ignore_errors=true,"
                f" maximum_object_size={4 * LINE_BUFFER}, columns={_FIELDS})"
            )
            parts.append(f"select try_cast(ts as timestamp) as ts, {_KEY} as key, text from {line}")
    if sealed := [quoted(str(path)) for path in sources if path.suffix == ".parquet"]:
        parts.append(
            f"select ts, key, text from read_parquet([{', '.join(sealed)}], hive_partitioning=false)"
        )
    return " union all ".join(parts)


@contextmanager
def _connected() -> Iterator[DuckDBPyConnection]:
    import tempfile

    import duckdb

    with tempfile.TemporaryDirectory(prefix="ratchet-spill-") as spill:
        settings: dict[str, Any] = {"memory_limit": memory_limit(), "threads": 2, "temp_directory": spill}
        with duckdb.connect(config=settings) as con:
            con.execute("set enable_progress_bar = false")
            yield con
