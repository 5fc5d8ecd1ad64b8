"""Keeps telemetry between runs that share no disk: immutable segments on the branch `telemetry-data`.

`pull` brings what others recorded, beside what was measured here; `pack` lays aside what was measured here, for whoever
may push (`meta.record` checks and pushes it); `push` seals it and adds the sealed days to the branch; `compact` merges
the months that are over. Segments are named by their content and never changed: two runs at once cannot conflict, and
whatever was killed is simply run again. Data never waits for a pull request: the one that reports on it may be closed.
`import FILE` takes rows of another program into the log, each once however often it is run.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.edge import cli
from telemetry.edge.cli import set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import EVENTS, Repo, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.edge.lock import only_one

if TYPE_CHECKING:
    from telemetry.branch.remote import DataBranch

ROWS_AT_ONCE: Final = 5_000  # of an import, in one write: whole, and readers never wait long
DAYS: Final = 400  # of history pulled: enough for every window anything looks at


def pull(repo: Repo, days: int = DAYS) -> int:
    """Bring the segments that were not looked at yet; how many there were."""
    from telemetry.branch.remote import DataBranch

    with only_one(repo, "sync", "sync"):
        return _pull(repo, DataBranch(repo.root), days)


def _pull(repo: Repo, branch: DataBranch, days: int) -> int:
    from telemetry.branch import local

    branch.fetch()
    before, there = local.state(repo), branch.segments()
    today = datetime.now(UTC).date()
    oldest = (today - timedelta(days=days)).isoformat()
    seen = set(before.segments)
    there = [one for one in there if not one.is_past(today)]
    fresh = [one for one in there if one.day >= oldest and one.path not in seen]
    local.merge(repo, branch, fresh)
    held = tuple(one.path for one in there if one.path in seen or one.day >= oldest)
    local.remember(repo, local.State(held, before.pushed))
    return len(fresh)


def pack(repo: Repo, folder: Path) -> int:
    """Lay aside what was measured here and is not on the branch, as far as is known; how many bytes."""
    import orjson

    from telemetry.branch import local
    from telemetry.branch.remote import DataBranch
    from telemetry.read import parquet

    pushed = set(local.state(repo).pushed)
    sealed = [path for path in local.own_sealed(repo) if path.name not in pushed]
    live = (repo / EVENTS).read_bytes() if (repo / EVENTS).exists() else b""
    rows = b"".join(orjson.dumps(event) + b"\n" for event in parquet.events(sealed)) + live
    parts = {"events": rows, **local.own_lines(repo, DataBranch(repo.root)), "texts": local.own_texts(repo)}
    for name, data in parts.items():
        if data:
            write_atomic(folder / f"{name}.jsonl", data)
    return sum(map(len, parts.values()))


def push(repo: Repo) -> list[str]:
    """Seal what was measured here and add it to the branch; the paths of what was new there."""
    from telemetry import retention
    from telemetry.branch import local, segments
    from telemetry.branch.remote import DataBranch
    from telemetry.read import sealed_texts

    with only_one(repo, "sync", "sync"):
        branch = DataBranch(repo.root)
        _pull(repo, branch, DAYS)
        today = datetime.now(UTC).date()
        retention.seal(repo, today + timedelta(days=1))
        before, files = local.state(repo), dict[str, bytes]()
        own = {"events": local.own_sealed(repo), "texts": sealed_texts.files(repo, own=True)}
        for log, path in ((log, path) for log, paths in own.items() for path in paths):
            if path.name not in before.pushed:
                data = path.read_bytes()
                files[segments.name(log, path.parent.name[3:], data, "parquet")] = data
        for log, raw in local.own_lines(repo, branch).items():
            if data := segments.checked(log, raw).data:
                files[segments.name(log, today.isoformat(), data)] = data
        new = (
            branch.publish(files, f"Telemetry of {today.isoformat()}, from a person's machine")
            if files
            else []
        )
        pushed = tuple(path.name for paths in own.values() for path in paths)
        local.remember(repo, local.State((*before.segments, *sorted(files)), pushed))
        return new


@frozen
class Taken:
    """What became of the lines of a file."""

    rows: int
    known: int
    malformed: tuple[int, ...]  # numbers of their lines


def take(repo: Repo, file: Path) -> Taken:
    """Append the rows of a JSONL file that are not here yet; a row without an id is known by its content."""
    from telemetry import logger
    from telemetry.read import rows, store

    known: set[str] = set()
    with store.connect(repo, rows.Window(elsewhere=True)) as con:
        known.update(name for (name,) in con.execute("select event_id from events").fetchall())
    new, here, malformed = list[bytes](), 0, list[int]()
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                if (event := rows.parse(line)) is None:
                    malformed.append(number)
                    continue
                names = {event["event_id"]}
                # If that was made up, what the row says tells it apart from any other.
                if event["event_id"].startswith(rows.OWN):
                    event["event_id"] = rows.content_id(event)
                    names.add(event["event_id"])
                if names & known:
                    here += 1
                    continue
                known.add(event["event_id"])
                new.append(logger.encode(event))
    except OSError as problem:
        raise BadInput(f"{file}: cannot be read ({problem.strerror})") from None
    for start in range(0, len(new), ROWS_AT_ONCE):
        logger.append(b"".join(new[start : start + ROWS_AT_ONCE]), repo / EVENTS)
    return Taken(len(new), here, tuple(malformed))


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("action", choices=["pull", "pack", "push", "compact", "import"])
    parse.add_argument("file", nargs="?", type=Path, metavar="FILE", help="import: rows as JSON lines")
    parse.add_argument("--days", type=cli.whole(1), default=DAYS, metavar="N", help="pull: how far back")
    parse.add_argument(
        "--out", type=Path, default=Path(".ratchet/data"), metavar="DIR", help="pack: where to"
    )
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Pull, pack, push or compact."""
    repo = Repo(repo.root.resolve())
    done: dict[str, object] = {"action": args.action}
    if (args.file is not None) != (args.action == "import"):
        raise BadInput("import takes one FILE of rows, the other actions take none (see --help)")
    if args.action == "pull":
        set_output("started", datetime.now(UTC).isoformat(timespec="seconds"))
        done["new_segments"] = pull(repo, args.days)
        told = f"{done['new_segments']} new segments from the data branch."
    elif args.action == "pack":
        size = pack(repo, args.out)
        set_output("data", "true" if size else "false")
        done["bytes"] = size
        told = f"{size} bytes of new rows laid aside."
    elif args.action == "push":
        done["segments"] = new = push(repo)
        told = "\n".join([f"{len(new)} segments pushed to the data branch.", *new])
    elif args.action == "import":
        taken = take(repo, args.file)
        done |= asdict(taken)
        told = f"{taken.rows} rows taken, {taken.known} were here already."
        if taken.malformed:
            told += f" {len(taken.malformed)} lines are no rows, the first is line {taken.malformed[0]}."
    else:
        from telemetry.branch.compact import compact

        merged = compact(repo.root, datetime.now(UTC).date())
        done |= {"before": merged.before, "after": merged.after}
        told = f"{merged.before} segments of finished months, now {merged.after}."
    cli.tell(args, done, told)
    return cli.FOUND if done.get("malformed") else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
