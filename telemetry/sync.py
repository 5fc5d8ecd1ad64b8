"""Keeps telemetry between runs that share no disk: immutable segments on the branch `telemetry-data`.

`pull` brings what earlier runs recorded, `pack` lays aside what this run added, `push` checks that and adds it to the
branch as one segment per log and run: `events/dt=YYYY-MM-DD/<workflow>-<run>-<attempt>.jsonl`, likewise `history/`.
Segments are never changed, so two runs at once cannot conflict; a rejected push is fetched and tried again. Data
never waits for a pull request: the one that reports on it may be closed unmerged.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from telemetry import logger
from telemetry.edge import cli
from telemetry.edge.cli import set_output
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import HISTORY, REFUSALS, Repo, write_atomic, write_json
from telemetry.edge.git import GitRefused, git

BRANCH: Final = "telemetry-data"
LOGS: Final = {"events": logger.LOG_PATH, "history": HISTORY, "rejections": REFUSALS}
STATE: Final = Path(".ratchet/sync.json")  # which segments are here, and how long each log was then
DAYS: Final = 400  # of history pulled: enough for every window anything looks at
MAX_BYTES: Final = 50 << 20  # of one segment; a run that logs more has gone wrong
TRIES: Final = 8
SEGMENT: Final = re.compile(
    r"(events|history|rejections)/dt=(\d{4}-\d{2}-\d{2})/[A-Za-z0-9._-]{1,150}\.jsonl"
)


@dataclass(frozen=True, slots=True)
class State:
    """Which segments the local logs hold, and how long each log was when that was true."""

    segments: list[str]
    sizes: dict[str, int]


class GitFailed(Stopped):
    """git would not do it; the message is git's. Nothing was lost: the same command may be run again."""


def pull(root: Path, days: int = DAYS) -> int:
    """Append the segments that are not here yet to the local logs; how many came."""
    state = _state(root)
    waiting = [name for name in LOGS if _added(root, name, state)]
    if waiting:
        raise BadInput(
            f"{LOGS[waiting[0]]}: holds rows that were never pushed; push them first (python -m telemetry.sync push)"
        )
    tip = _fetch(root)
    if tip is None:
        return 0
    oldest = (datetime.now(UTC).date() - timedelta(days=days)).isoformat()
    listed = _git(root, "ls-tree", "-r", "--name-only", tip).decode().split("\n")
    known = set(state.segments)
    fresh = []
    for path in sorted(listed, key=lambda path: (path.split("/dt=")[-1], path)):
        match = SEGMENT.fullmatch(path)
        if match and match[2] >= oldest and path not in known:
            target = root / LOGS[match[1]]
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as log:
                log.write(_git(root, "cat-file", "blob", f"{tip}:{path}"))
            fresh.append(path)
    _remember(root, [*state.segments, *fresh])
    return len(fresh)


def pack(root: Path, folder: Path) -> int:
    """Lay aside what was added since the pull, for whoever may push; how many bytes."""
    state = _state(root)
    total = 0
    for name in LOGS:
        if added := _added(root, name, state):
            write_atomic(folder / f"{name}.jsonl", added)
            total += len(added)
    return total


def push(root: Path, folder: Path | None = None) -> list[str]:
    """Check what was added (or was packed in `folder`) and put it on the branch; the segments' paths."""
    state = _state(root)
    parts = {
        name: _added(root, name, state) if folder is None else _bounded(folder / f"{name}.jsonl")
        for name in LOGS
    }
    day, run = datetime.now(UTC).date(), _run_name()
    segments = {
        f"{name}/dt={day.isoformat()}/{run}.jsonl": data
        for name, raw in parts.items()
        if (data := _checked(name, raw))
    }
    if not segments:
        return []
    _publish(root, segments, day)
    if folder is None:
        _remember(root, [*state.segments, *segments])
    return sorted(segments)


def _checked(name: str, raw: bytes) -> bytes:
    """The lines that are what they should be; others are counted and told, and stay behind."""
    from telemetry.read import rows

    if len(raw) > MAX_BYTES:
        raise BadInput(f"{name}.jsonl: {len(raw)} bytes, at most {MAX_BYTES} are taken in one segment")
    parse = rows.parse if name == "events" else _object
    lines = [line for line in raw.split(b"\n") if line.strip()]
    good = [line for line in lines if parse(line) is not None]
    if len(good) != len(lines):
        print(f"{name}.jsonl: {len(lines) - len(good)} malformed lines left behind", file=sys.stderr)
    return b"".join(line + b"\n" for line in good)


def _object(line: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _publish(root: Path, segments: Mapping[str, bytes], day: date) -> None:
    """One commit on top of whatever the branch holds; another run's push in between means trying again."""
    import random

    refused = ""
    for attempt in range(TRIES):
        tip = _fetch(root)
        commit = _commit(root, tip, segments, f"Telemetry of {day.isoformat()}: {_run_name()}")
        try:
            _git(root, "push", "--quiet", "origin", f"{commit}:refs/heads/{BRANCH}")
            return
        except GitFailed as problem:
            refused = str(problem)
            time.sleep(random.uniform(0.1, 0.5) * 2**attempt / 4)
    raise GitFailed(f"the push to {BRANCH} was refused {TRIES} times, last: {refused}")


def _commit(root: Path, tip: str | None, segments: Mapping[str, bytes], message: str) -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        if tip is not None:
            _git(root, "read-tree", tip, env=env)
        for path, data in segments.items():
            blob = _git(root, "hash-object", "-w", "--stdin", stdin=data).decode().strip()
            _git(root, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=env)
        tree = _git(root, "write-tree", env=env).decode().strip()
    who: dict[str, str] = {}
    for role in ("AUTHOR", "COMMITTER"):
        who |= {f"GIT_{role}_NAME": "Ratchet", f"GIT_{role}_EMAIL": "ratchet@users.noreply.github.com"}
    parent = [] if tip is None else ["-p", tip]
    return _git(root, "commit-tree", tree, *parent, "-m", message, env=who).decode().strip()


def _fetch(root: Path) -> str | None:
    """The tip of the data branch at the remote, fetched; None if there is no such branch yet."""
    listed = _git(root, "ls-remote", "origin", f"refs/heads/{BRANCH}").decode().split()
    if not listed:
        return None
    _git(root, "fetch", "--quiet", "--depth=1", "origin", listed[0])
    return listed[0]


def _git(root: Path, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    try:
        return git(root, *args, stdin=stdin, env={**_login(), **(env or {})})
    except GitRefused as refused:
        raise GitFailed(str(refused)) from None


def _login() -> dict[str, str]:
    """The workflow's token as git configuration in the environment: never on a command line, never on disk."""
    token, server = os.environ.get("SYNC_TOKEN"), os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    if not token:
        return {}
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{server}/.extraheader",
        "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {basic}",
    }


def _run_name() -> str:
    env = os.environ
    if "GITHUB_RUN_ID" not in env:
        return f"local-{os.getpid()}-{int(time.time())}"
    workflow = re.sub(r"[^a-z0-9]+", "-", env.get("GITHUB_WORKFLOW", "workflow").lower()).strip("-")[:60]
    return f"{workflow}-{env['GITHUB_RUN_ID']}-{env.get('GITHUB_RUN_ATTEMPT', '1')}"


def _state(root: Path) -> State:
    try:
        return State(**json.loads((root / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return State([], {})
    except (ValueError, TypeError) as problem:
        raise BadInput(
            f"{STATE}: cannot be read ({problem}); remove it and the local logs, then pull"
        ) from None


def _remember(root: Path, segments: list[str]) -> None:
    sizes = {name: (root / path).stat().st_size for name, path in LOGS.items() if (root / path).exists()}
    write_json(root / STATE, {"segments": segments, "sizes": sizes})


def _added(root: Path, name: str, state: State) -> bytes:
    """What a log holds beyond what was pulled or pushed."""
    path = root / LOGS[name]
    if not path.exists():
        return b""
    known = state.sizes.get(name, 0)
    if path.stat().st_size < known:
        raise BadInput(
            f"{LOGS[name]}: shorter than after the last pull (sealed or replaced?), so what is new cannot be told"
        )
    with path.open("rb") as log:
        log.seek(known)
        return log.read()


def _bounded(path: Path) -> bytes:
    if not path.is_file() or path.is_symlink():
        return b""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("action", choices=["pull", "pack", "push"])
    parse.add_argument("--days", type=cli.whole(1), default=DAYS, metavar="N", help="pull: how far back")
    parse.add_argument(
        "--out", type=Path, default=Path(".ratchet/data"), metavar="DIR", help="pack: where to"
    )
    parse.add_argument("--from", dest="folder", type=Path, metavar="DIR", help="push: what was packed there")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Pull, pack or push."""
    root = repo.root.resolve()
    done: dict[str, object] = {"action": args.action}
    if args.action == "pull":
        done["new_segments"] = pull(root, args.days)
        told = f"{done['new_segments']} new segments from {BRANCH}."
    elif args.action == "pack":
        size = pack(root, args.out)
        set_output("data", "true" if size else "false")
        done["bytes"] = size
        told = f"{size} bytes of new rows laid aside."
    else:
        done["segments"] = segments = push(root, args.folder)
        told = "\n".join([f"{len(segments)} segments pushed to {BRANCH}.", *segments])
    cli.tell(args, done, told)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
