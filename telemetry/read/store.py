"""Opens rows for reading: one DuckDB view `events` over sealed Parquet and the live log, each row exactly once.

A connection is a snapshot. Which Parquet files belong to which live log is settled under a shared lock on the
log, and that very file is then parsed, once, so a sealer that moves lines from one to the other can neither hide
a row nor show it twice. Beside `events` stands the view `lines`: the same rows and the malformed lines of the log,
told apart by the column `malformed`. Blank lines are separators, not data.

An `event_id` that comes again is the same row again, and dropped. A row keeps its `ts`, so it can come again only on
its own day: a day in one sealed file that says of itself that it is free of repeats needs no look.
"""

from __future__ import annotations

import fcntl
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from telemetry import logger
from telemetry.edge.errors import BadInput, engine_said, of_engine
from telemetry.edge.files import SEALED, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.read.rows import (
    COLUMNS,
    DEFAULTS,
    MAX_LINE,
    MAX_MEASURE,
    MEASURES,
    NUMBERS,
    OWN,
    SAID,
    TEXTS,
    ZONED,
    Window,
    backwards,
    has_long_line,
    in_utc,
    quoted,
    read_tail,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STAGING: Final = SEALED / "staging"  # a seal in progress, see telemetry.retention
COMMIT: Final = "commit.json"  # in it: where the first sealed line stood, and where each staged file belongs
_PLACED: Final = re.compile(r"dt=[\w-]+\.parquet dt=\d{4}-\d\d-\d\d/[\w-]+\.parquet", re.ASCII)
MEMORY: Final = "TELEMETRY_MEMORY"  # sets what DuckDB may use, e.g. 2GB; beyond it, it spills
LEAST_MEMORY, MOST_MEMORY, SHARE = 180 << 20, 1 << 30, 128  # bytes, and one part in so many of the machine's
IN_MEMORY: Final = 64 << 20  # bytes of a live log that is kept in memory; a larger one on disk
FILE_GROUP: Final = 30_000  # rows of it that are written at a time
ADDED: Final = "input_hash"  # the column that days sealed earlier do not have
# In the footer of a sealed file that was looked through for repeats.
ONCE: Final = "ratchet: each event_id once"
LINE_BUFFER: Final = 2 << 20  # bytes; DuckDB holds a few per thread, and grows them up to 32 MiB a line


@frozen
class Snapshot:
    """The live log as it stood, and the Parquet files that hold everything sealed from it."""

    log: IO[bytes] | None
    size: int
    sealed: tuple[Path, ...]


def established(repo: Repo, new: timedelta, now: datetime) -> frozenset[str]:
    """The agents that lately came through a replay, or had run in the field when a newcomer was not here yet.

    No more is read than twice that time back: who has rested for longer starts anew.
    """
    con = connect(repo, Window(since=now - 2 * new, kind="run", among=("runtime", "replay")))
    replayed = "bool_or(source = 'replay' and error_kind is null)"
    sql = f"select agent from events group by agent having {replayed} or min(ts) < ?"
    found = con.execute(sql, [in_utc(now - new)])
    return frozenset(name for (name,) in found.fetchall())


def memory_limit(times: int = 1) -> str:
    """What DuckDB may use: as the environment says, else `times` a share of the machine's memory.

    Python and its libraries come on top. What is beyond goes to disk; what cannot ends the script, in one line.
    """
    if told := os.environ.get(MEMORY):
        if not re.fullmatch(r"\d+(\.\d+)? ?[KMGT]i?B", told):
            raise BadInput(f"{MEMORY}={told}: must be a size like 500MB or 2GB")
        return told
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # a container may have less: no such file, or "max"
        machine = min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return f"{max(LEAST_MEMORY, min(MOST_MEMORY, times * machine // SHARE)) >> 20}MiB"


def connect(
    repo: Repo,
    window: Window | None = None,
    *,
    fields: Sequence[str] = (),
    once: Sequence[str] = (),
    memory: int = 1,
    now: Snapshot | None = None,
    live_only: bool = False,
) -> DuckDBPyConnection:
    """A connection with the views `events` and `lines`: the COLUMNS, and each of these other `fields` as text.

    `once` names the only columns that are wanted: of a large live log fewer are kept, and found sooner.
    `now` is a snapshot taken before; `live_only`, for who knows what its sealed days come to, leaves those out.

    `ts` is a timestamp in UTC; other columns are text, double or bigint as in COLUMNS.
    """
    import tempfile

    import duckdb

    window = window or Window()
    spill = tempfile.TemporaryDirectory(prefix="ratchet-spill-", ignore_cleanup_errors=True)
    settings: dict[str, Any] = {
        "memory_limit": memory_limit(memory),
        "threads": min(4, os.cpu_count() or 1),
        "preserve_insertion_order": False,
        "temp_directory": spill.name,
        "autoinstall_known_extensions": False,
    }
    con = duckdb.connect(config=settings)
    weakref.finalize(con, spill.cleanup)
    con.execute("set enable_progress_bar = false")  # it would go to stdout, into the middle of --json
    try:
        _create_views(con, now or snapshot(repo), window, fields, once, live_only)
    except duckdb.OutOfMemoryException:
        raise
    except of_engine() as problem:
        raise BadInput(f"{SEALED}: cannot be read: {engine_said(problem).splitlines()[0]}") from problem
    return con


def _create_views(
    con: DuckDBPyConnection,
    now: Snapshot,
    window: Window,
    fields: Sequence[str],
    once: Sequence[str],
    live_only: bool,
) -> None:
    live, found = now.log, 0
    if window.last_n and now.log is not None:
        tail = read_tail(now.log, now.size, window)
        live, found = (now.log, -1) if tail is None else (_spooled(tail[0]), tail[1])
    if live is now.log and live is not None and has_long_line(live, now.size):
        live = _without_long_lines(live, now.size)
    match = window.condition()
    picked = f"{', '.join(once)}, malformed" if once else "*"
    parts = []
    if live is not None:
        rows = f"select {picked}, {_KEY} from ({_live_sql(live, fields)}) where ({match}) or malformed"
        held = _kept(con, rows, now.size)
        live.close()
        held, gone = _without_repeats(con, held, now.sealed)
        found -= gone if found > 0 else 0
        parts.append(f"select * exclude (key_day, key) from {held}")
    missing = window.last_n - max(found, 0)
    if now.sealed and not live_only and (missing or not window.last_n):
        files = _newest(con, now.sealed, match, missing) if window.last_n else now.sealed
        newest = f" order by ts desc limit {missing}" if window.last_n else ""
        parts.append(f"select {picked} from ({sealed_sql(files, fields)}) where {match}{newest}")
    if not parts:
        parts.append(f"select * from ({_empty_sql(fields)})")
    sql = " union all ".join(f"({part})" for part in parts)
    if found < 0:  # the tail gave up: let the engine find the newest
        sql = (
            f"select * from ({sql}) where malformed union all "
            f"(select * from ({sql}) where not malformed order by ts desc limit {window.last_n})"
        )
    con.execute(f"create view lines as {sql}")
    con.execute("create view events as select * exclude (malformed) from lines where not malformed")


def _kept(con: DuckDBPyConnection, sql: str, size: int) -> str:
    """The name of what holds a live log of that size: beyond some size a file, which takes next to no memory."""
    if size <= IN_MEMORY:
        con.execute(f"create table kept as {sql}")
        return "kept"
    file = quoted(f"{_spill(con)}/live.parquet")
    con.execute(f"copy ({sql}) to {file} (format parquet, compression lz4, row_group_size {FILE_GROUP})")
    con.execute(f"create view filed as from read_parquet({file})")
    return "filed"


def _spill(con: DuckDBPyConnection) -> str:
    return str((con.execute("select current_setting('temp_directory')").fetchone() or [None])[0])


# What the same row has when it comes again: its day, and a number for both.
_KEY: Final = "cast(ts as date) as key_day, hash(cast(ts as date), event_id) as key"


def _without_repeats(con: DuckDBPyConnection, held: str, sealed: Sequence[Path]) -> tuple[str, int]:
    """The name of the same rows without what is there twice, or in a sealed file of that day too; how many that was."""

    def count(what: str) -> int:
        return int((con.execute(f"select {what} from {held} where not malformed").fetchone() or (0,))[0])

    before = count("count(*)")
    repeats = count("count(distinct key)") < before
    days = {str(day) for (day,) in con.execute(f"select distinct key_day from {held}").fetchall()}
    same = [path for path in sealed if day_of(path) in days]
    if not repeats and not same:
        return held, 0
    if held == "filed":  # rows can be taken out of a table only
        con.execute(f"attach {quoted(f'{_spill(con)}/live.duckdb')} as live")
        con.execute("create table live.kept as from filed")
        held = "live.kept"
    if repeats:
        first = f"select min(rowid) from {held} where not malformed group by key"
        con.execute(f"delete from {held} where not malformed and rowid not in ({first})")
    if same:
        known = f"select key from (select {_KEY} from ({sealed_sql(same)}))"
        con.execute(f"delete from {held} where not malformed and key in ({known})")
    return held, before - count("count(*)")


def snapshot(repo: Repo) -> Snapshot:
    """The live log and its sealed files, as one consistent pair."""
    with locked(repo) as log:
        size = 0 if log is None else os.fstat(log.fileno()).st_size
        placed = sorted((repo / SEALED).glob("dt=*/*.parquet"))
        return Snapshot(log, size, (*placed, *committed_but_staged(repo, log)))


@contextmanager
def locked(repo: Repo, how: int = fcntl.LOCK_SH) -> Iterator[IO[bytes] | None]:
    """Hold off writers and the sealer; gives the open live log, which the caller keeps, or None if there is none."""
    path = repo / logger.LOG_PATH
    while True:
        try:
            log = path.open("rb")
        except FileNotFoundError:
            yield None
            return
        fcntl.flock(log, how)
        if is_current(log, path):
            break
        log.close()  # sealed between opening and locking
    try:
        yield log
    finally:
        fcntl.flock(log, fcntl.LOCK_UN)


def is_current(log: IO[bytes], path: Path) -> bool:
    """Whether the open file still is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(log.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _spooled(lines: list[bytes]) -> IO[bytes]:
    """A file that holds the lines, newest last, and is gone when closed."""
    import tempfile

    file = tempfile.NamedTemporaryFile(prefix="ratchet-", suffix=".jsonl")  # noqa: SIM115 - closed with the connection
    file.writelines(_bounded(line) + b"\n" for line in reversed(lines))
    file.flush()
    return file


def _without_long_lines(log: IO[bytes], size: int) -> IO[bytes]:
    """A copy of the log in which a line that the engine would choke on is a short one, just as malformed."""
    return _spooled(list(map(_bounded, backwards(log, size))))


def _bounded(line: bytes) -> bytes:
    return line if len(line) <= MAX_LINE else b"{}"


def committed_but_staged(repo: Repo, log: IO[bytes] | None) -> tuple[Path, ...]:
    """The files of an interrupted seal whose lines have left the log; ask under the log's lock."""
    staging, commit = repo / STAGING, read_commit(repo)
    if commit is None:
        return ()
    first = commit["first"]["line"].encode()
    if log is not None and os.pread(log.fileno(), len(first), commit["first"]["offset"]) == first:
        return ()
    return tuple(staging / name for name in sorted(commit["files"]) if (staging / name).exists())


def read_commit(repo: Repo) -> dict[str, Any] | None:
    """What a seal in progress is about to do, once all of it is prepared."""
    try:
        commit = load_json((repo / STAGING / COMMIT).read_bytes())
        offset, line, files = commit["first"]["offset"], commit["first"]["line"], commit["files"]
        sound = isinstance(line, str) and type(offset) is int and 0 <= offset < 1 << 62
        if sound and all(_PLACED.fullmatch(f"{name} {final}") for name, final in files.items()):
            return {"first": {"offset": offset, "line": line}, "files": files}
        said = "not what a seal writes"
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        said = str(problem)
    # It was written whole or not at all: somebody else has been at it.
    raise BadInput(f"{STAGING / COMMIT}: cannot be read: {said}")


def _newest(con: DuckDBPyConnection, files: tuple[Path, ...], match: str, rows: int) -> tuple[Path, ...]:
    """As many of the newest days as it takes to hold `rows` matching rows."""
    days = by_day(files)
    chosen: list[Path] = []
    for day in sorted(days, reverse=True):
        if rows <= 0:
            break
        chosen += days[day]
        counted = con.execute(f"select count(*) from ({sealed_sql(tuple(days[day]))}) where {match}")
        rows -= (counted.fetchone() or (0,))[0]
    return tuple(chosen)


def by_day(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Sealed files by their day."""
    days: dict[str, list[Path]] = {}
    for path in files:
        days.setdefault(day_of(path), []).append(path)
    return days


def day_of(path: Path) -> str:
    """The UTC day whose events a Parquet file holds."""
    return next(part[3:] for part in (path.parent.name, path.name) if part.startswith("dt="))[:10]


def _live_sql(log: IO[bytes], fields: Sequence[str]) -> str:
    # JSON numbers stay text until here: read as a double, "fast" would be an unsuspicious null.
    names = dict.fromkeys((*COLUMNS, *fields), "VARCHAR") | dict.fromkeys(NUMBERS, "JSON")
    options = f"format='newline_delimited', ignore_errors=true, maximum_object_size={LINE_BUFFER}"
    struct = ", ".join(f"{name}: '{kind}'" for name, kind in names.items())
    raw = f"select * from read_json({_file(log)}, {options}, columns={{{struct}}})"
    numbers = [f"try_cast(cast({name} as varchar) as {kind}) as {name}" for name, kind in NUMBERS.items()]
    texts = [f"{_FOLLOWS[name]} as {name}" if name in _FOLLOWS else name for name in TEXTS]
    picked = ", ".join([f"{_TS_SQL} as ts", *texts, *numbers, *fields])
    bad = [f"({_TS_SQL}) is null" if name == "ts" else f"{name} is null" for name in SAID]
    for name in MEASURES:
        number = f"abs(try_cast(cast({name} as varchar) as double))"
        bad.append(f"({name} is not null and not coalesce({number} <= {MAX_MEASURE}, false))")
    return f"select {picked}, {' or '.join(bad)} as malformed from ({raw})"


_TS_SQL: Final = f"""case
    when ts like '____-__-__T__:__:__%Z' and ts between '1970' and '2200' then try_cast(ts as timestamp)
    when regexp_full_match(ts, {quoted(ZONED)}) then make_timestamp(epoch_ms(try_cast(ts as timestamptz)) * 1000)
end"""
# What follows where a row of another program does not say it: as in `rows.parse`.
_FOLLOWS: Final = {
    "event_id": f"coalesce(event_id, '{OWN}' || md5(ts || '|' || agent || '|' || run_id))",
    **{name: f"coalesce({name}, {quoted(value)})" for name, value in DEFAULTS.items()},
    "error_kind": "case when error is null then error_kind else coalesce(error_kind, 'agent') end",
}


# Only a damaged file holds more than a line of the log may say.
_SOUND: Final = {
    name: f"if({name} is null or abs({name}) <= {MAX_MEASURE}, {name},"
    f" error('{name} of ' || ts || ' is beyond measure: the file of that day is damaged')) as {name}"
    for name in MEASURES
}


def sealed_sql(files: Sequence[Path], fields: Sequence[str] = ()) -> str:
    """The rows of sealed files, each once."""
    single = [f"extra ->> {quoted(name)} as {name}" for name in fields]
    picked = ", ".join([*(_SOUND.get(name, name) for name in COLUMNS), *single])
    sure = {own[0] for own in by_day(files).values() if len(own) == 1 and each_once(own[0])}
    unsure = [path for path in files if path not in sure]
    # Days sealed before a column was added have it nowhere, or among others: there it reads as null.
    parts = [f"select cast(null as {COLUMNS[ADDED]}) as {ADDED} where false"]
    first = " qualify row_number() over (partition by cast(ts as date), event_id) = 1"
    for some, rule in ((sorted(sure), ""), (unsure, first)):
        if some:
            names = ", ".join(quoted(str(path)) for path in some)
            options = "hive_partitioning=false, union_by_name=true"
            parts.append(f"select * from read_parquet([{names}], {options}){rule}")
    return f"select {picked}, false as malformed from ({' union all by name '.join(f'({part})' for part in parts)})"


def each_once(path: Path) -> bool:
    """Whether a sealed file says that no row comes twice in it."""
    return ONCE.encode() in footer(path)


def footer(path: Path) -> bytes:
    """What a Parquet file says about itself: its columns, their bounds, and notes."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        return file.read()


def _empty_sql(fields: Sequence[str]) -> str:
    kinds = COLUMNS | dict.fromkeys(fields, "varchar")
    columns = [f"cast(null as {kind}) as {name}" for name, kind in kinds.items()]
    return f"select {', '.join(columns)}, false as malformed where false"


def _file(log: IO[bytes]) -> str:
    # The open descriptor outlives a rename of its path; where there is no /proc, the path has to do.
    by_descriptor = Path(f"/proc/self/fd/{log.fileno()}")
    return quoted(str(by_descriptor if by_descriptor.exists() else log.name))
