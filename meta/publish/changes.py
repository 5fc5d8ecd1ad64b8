"""Asks git itself what a patch would change, in a scratch index: the tree and its objects stay as they are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from telemetry.edge.git import blobs, git

ABSENT = "000000"
REGULAR = "100644"
EXECUTABLE = "100755"
FILES = (REGULAR, EXECUTABLE)


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after. A rename is a deletion and an addition."""

    path: str
    old_mode: str
    new_mode: str
    before: bytes | None  # None: the file did not exist, or is no blob
    after: bytes | None
    lines: int  # added plus deleted


def read_changes(patch: bytes, root: Path) -> list[Change]:
    """The files that `patch` changes against HEAD, as git sees them after applying it."""
    if not patch.strip():
        return []
    with _applied(patch, root) as env:
        return list(_compare(root, env))


def canonical(diff: bytes, root: Path) -> bytes:
    """A diff written by hand or by a model, as git would write it: models cannot count the lines of a hunk."""
    with _applied(diff, root, "--recount") as env:
        return written(root, env)


def written(root: Path, env: Mapping[str, str]) -> bytes:
    """What an index changes against HEAD, as a patch: by plumbing, which heeds no one's taste in diffs."""
    return git(
        root, "diff-index", "--cached", "--patch", "--binary", "--full-index", "--no-renames", "HEAD", env=env
    )


@contextmanager
def _applied(patch: bytes, root: Path, *options: str) -> Iterator[dict[str, str]]:
    """The environment of a scratch index that holds HEAD with the patch applied."""
    objects = root / git(root, "rev-parse", "--git-path", "objects").decode().strip()
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "objects").mkdir()
        env = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": f"{scratch}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects.resolve()),
        }
        git(root, "read-tree", "HEAD", env=env)
        git(root, "apply", "--cached", "--whitespace=nowarn", *options, "-", stdin=patch, env=env)
        yield env


def _compare(root: Path, env: Mapping[str, str]) -> Iterator[Change]:
    options = ("--cached", "-z", "--no-renames", "--full-index", "--raw", "--numstat")
    told = git(root, "diff-index", *options, "HEAD", env=env).split(b"\0")[:-1]
    headers = [row.decode()[1:].split() for row in told if row.startswith(b":")]
    paths, counts = told[1 : 2 * len(headers) : 2], told[2 * len(headers) :]
    names = [blob for header in headers for blob in header[2:4]]
    found = dict(zip(names, blobs(root, names, env), strict=True))
    for (old_mode, new_mode, old, new, _), path, count in zip(headers, paths, counts, strict=True):
        added, deleted, _ = count.split(b"\t", 2)
        yield Change(
            path.decode(errors="surrogateescape"),
            old_mode,
            new_mode,
            found[old] if old_mode in FILES else None,
            found[new] if new_mode in FILES else None,
            0 if added == b"-" else int(added) + int(deleted),  # "-": binary
        )
