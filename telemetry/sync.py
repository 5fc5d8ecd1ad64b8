"""Keeps telemetry between runs that share no disk: immutable segments on the branch `telemetry-data`.

`pull` brings what others recorded, beside what was measured here; `pack` lays aside what was measured here, for whoever
may push (`meta.record` checks and pushes it); `push` seals it and adds the sealed days to the branch; `compact` merges
the months that are over. Segments are named by their content and never changed: two runs at once cannot conflict, and
whatever was killed is simply run again. Data never waits for a pull request: the one that reports on it may be closed.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.edge import cli
from telemetry.edge.cli import set_output
from telemetry.edge.files import EVENTS, Repo, write_atomic

if TYPE_CHECKING:
    from telemetry.branch.remote import DataBranch

DAYS: Final = 400  # of history pulled: enough for every window anything looks at


def pull(repo: Repo, days: int = DAYS) -> int:
    """Bring the segments that were not looked at yet; how many there were."""
    from telemetry.branch import local
    from telemetry.branch.remote import DataBranch

    with local.alone(repo):
        return _pull(repo, DataBranch(repo.root), days)


def _pull(repo: Repo, branch: DataBranch, days: int) -> int:
    from telemetry.branch import local

    branch.fetch()
    before, there = local.state(repo), branch.segments()
    oldest = (datetime.now(UTC).date() - timedelta(days=days)).isoformat()
    seen = set(before.segments)
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
    parts = {"events": rows, **local.own_lines(repo, DataBranch(repo.root))}
    for name, data in parts.items():
        if data:
            write_atomic(folder / f"{name}.jsonl", data)
    return sum(map(len, parts.values()))


def push(repo: Repo) -> list[str]:
    """Seal what was measured here and add it to the branch; the paths of what was new there."""
    from telemetry import retention
    from telemetry.branch import local, segments
    from telemetry.branch.remote import DataBranch

    with local.alone(repo):
        branch = DataBranch(repo.root)
        _pull(repo, branch, DAYS)
        today = datetime.now(UTC).date()
        retention.seal(repo, today + timedelta(days=1))
        before, files = local.state(repo), dict[str, bytes]()
        own = local.own_sealed(repo)
        for path in own:
            if path.name not in before.pushed:
                data = path.read_bytes()
                files[segments.name("events", path.parent.name[3:], data, "parquet")] = data
        for log, raw in local.own_lines(repo, branch).items():
            if data := segments.checked(log, raw).data:
                files[segments.name(log, today.isoformat(), data)] = data
        new = (
            branch.publish(files, f"Telemetry of {today.isoformat()}, from a person's machine")
            if files
            else []
        )
        pushed = tuple(path.name for path in own)
        local.remember(repo, local.State((*before.segments, *sorted(files)), pushed))
        return new


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("action", choices=["pull", "pack", "push", "compact"])
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
    else:
        from telemetry.branch.compact import compact

        merged = compact(repo.root, datetime.now(UTC).date())
        done |= {"before": merged.before, "after": merged.after}
        told = f"{merged.before} segments of finished months, now {merged.after}."
    cli.tell(args, done, told)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
