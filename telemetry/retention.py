"""Keeps telemetry small: `seal` moves finished UTC days to zstd Parquet, `apply` lets what is old go, tier by tier.

A seal happens at one instant: the rename that puts the shortened log in place. Everything before it prepares
files that no reader looks at, everything after it only tidies up. A crash on either side is told by the log itself:
if it still holds the first sealed line at its old offset, nothing has happened and the next seal starts over;
if not, the staged files count as sealed, and the next seal puts them in place.

    sealed/staging/*.parquet   the days, written and counted while later lines are read and writers go on appending
    sealed/staging/live.jsonl  what stays in the log
    sealed/staging/commit.json where the first sealed line stood, and where each file belongs
    rename live.jsonl          under the writers' lock, after adding what they appended meanwhile

Malformed lines, and lines that Parquet could not hold without loss, stay in the log.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from telemetry import logger
from telemetry.edge import cli
from telemetry.edge.errors import Stopped, of_engine
from telemetry.edge.files import SEALED, Repo, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.lock import only_one
from telemetry.read import rows, sealed_texts, store
from telemetry.tiers.stage import LIVE, stage

if TYPE_CHECKING:
    from datetime import date

BATCH: Final = 1 << 20  # bytes of new lines that are copied at a time


@frozen
class Sealed:
    """What one seal did."""

    rows_by_day: dict[str, int]
    kept_lines: int
    bytes_before: int
    bytes_sealed: int


def _nothing(step: str) -> None:
    """A seal tells its steps to `at`; nobody listens outside the tests."""


def seal(repo: Repo, today: date | None = None, at: Callable[[str], None] = _nothing) -> Sealed:
    """Move every finished UTC day (before `today`) from the live log to Parquet."""
    from datetime import UTC, datetime

    day = (today or datetime.now(UTC).date()).isoformat()
    with only_one(repo, "seal", "seal"):
        recover(repo, at)
        sealed_texts.seal(repo, day)
        now = store.snapshot(repo)
        if now.log is None:
            return Sealed({}, 0, 0, 0)
        with now.log as log:
            torn = next(rows.backwards(log, now.size))  # a tail left to the next writer to close off
            return _seal(repo, log, now.size - len(torn), day, at)


def _seal(repo: Repo, log: IO[bytes], size: int, today: str, at: Callable[[str], None]) -> Sealed:
    staging = repo / store.STAGING
    staging.mkdir(parents=True)
    at("staging made")
    staged = stage(log, size, today, staging)
    at("lines split")
    counts: dict[str, int] = {}
    for part in sorted(staged.rows):
        counts[part[:10]] = counts.get(part[:10], 0) + staged.rows[part]
        at(f"parquet of {part[:10]}")
    if not counts:
        shutil.rmtree(staging)
        return Sealed({}, staged.kept, size, 0)
    name = f"{today}-{os.urandom(4).hex()}"
    files = {
        f"dt={part}.parquet": f"dt={part[:10]}/{name}{part[10:]}.parquet" for part in sorted(staged.rows)
    }
    write_json(staging / store.COMMIT, {"first": staged.first, "files": files})
    at("commit written")
    written = sum((staging / file).stat().st_size for file in files)
    with _exchanged(repo / logger.LOG_PATH, log, staging / LIVE, size, at):
        at("log renamed")
        _put_in_place(repo, at)
    return Sealed(counts, staged.kept, size, written)


def _sum_up(repo: Repo) -> None:
    """What the new days come to, while they are at hand: of many sealed days readers look at nothing else."""
    from telemetry.read import days

    now = store.snapshot(repo)
    if now.log is not None:
        now.log.close()
    with suppress(*of_engine()):  # a day of before that is damaged is told to whoever reads it
        days.kept(repo, now.sealed, rows.Window(kind="run"))


def recover(repo: Repo, at: Callable[[str], None] = _nothing) -> None:
    """Finish a seal that was interrupted after its rename; forget one that was interrupted before."""
    staging = repo / store.STAGING
    if not staging.exists():
        return
    with store.locked(repo, fcntl.LOCK_EX) as log:
        if store.committed_but_staged(repo, log):
            _put_in_place(repo, at)
        else:
            shutil.rmtree(staging)
    if log is not None:
        log.close()


def _put_in_place(repo: Repo, at: Callable[[str], None]) -> None:
    staging, commit = repo / store.STAGING, store.read_commit(repo)
    for name, final in (commit or {"files": {}})["files"].items():
        target = repo / SEALED / final
        if (staging / name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            (staging / name).rename(target)
            _sync_directory(target.parent)
            at(f"placed {final}")
    # Without commit.json the rest of the directory means nothing: it goes first.
    (staging / store.COMMIT).unlink(missing_ok=True)
    at("commit removed")
    shutil.rmtree(staging)
    at("staging removed")


@contextmanager
def _exchanged(
    path: Path, log: IO[bytes], shorter: Path, size: int, at: Callable[[str], None]
) -> Iterator[None]:
    """Put the shortened log in place of the log and hold both locks meanwhile: no writer, no reader in between."""
    with shorter.open("ab") as new:
        fcntl.flock(new, fcntl.LOCK_EX)
        fcntl.flock(log, fcntl.LOCK_EX)
        try:
            if not store.is_current(log, path):
                raise Stopped(f"{logger.LOG_PATH}: replaced by someone else during the seal; nothing sealed")
            at("locked")
            shutil.copymode(path, shorter)
            while block := os.pread(log.fileno(), BATCH, size):
                new.write(block)
                size += len(block)
            new.flush()
            os.fsync(new.fileno())
            at("new lines added")
            shorter.rename(path)
            _sync_directory(path.parent)
            yield
        finally:
            fcntl.flock(log, fcntl.LOCK_UN)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__.splitlines()[0] if __doc__ else None)
    said = "seal: move finished UTC days to Parquet; apply: what is older than telemetry/retention.yaml says moves on"
    parser.add_argument("command", choices=("seal", "apply"), help=said)
    parser.add_argument("--dry-run", action="store_true", help="apply: say what is due; nothing is changed")
    parser.add_argument(
        "--here", action="store_true", help="apply: leave the data branch and the database alone"
    )
    return parser


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    if args.command == "apply":
        from telemetry.tiers.apply import apply

        done_there = apply(repo, dry_run=args.dry_run, everywhere=not args.here, seal=seal)
        cli.tell(args, done_there, *(f"{name}: {count:,}" for name, count in done_there.items()))
        return cli.OK
    done = seal(repo)
    sealed, told = sum(done.rows_by_day.values()), "No finished day to seal."
    if sealed:
        _sum_up(repo)
        told = (
            f"Sealed {sealed:,} events of {len(done.rows_by_day)} days "
            f"in {done.bytes_sealed:,} bytes ({done.bytes_sealed / sealed:.1f} bytes an event); "
            f"{done.kept_lines:,} lines stay in the live log."
        )
    cli.tell(args, {"rows_by_day": done.rows_by_day, "rows": sealed, "kept_lines": done.kept_lines}, told)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
