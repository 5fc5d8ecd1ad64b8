"""What would a patch change? Asked of git itself, in a scratch index: the tree and its objects stay as they are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from telemetry.edge.git import git

ABSENT = "000000"
REGULAR = "100644"
EXECUTABLE = "100755"


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
        return git(root, "diff", "--cached", "--binary", "--full-index", "--no-renames", "HEAD", env=env)


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
    against_head = ("diff-index", "--cached", "-z", "--no-renames", "--full-index", "HEAD")
    raw = git(root, *against_head, "--raw", env=env).split(b"\0")[:-1]
    counts = {}
    for line in git(root, *against_head, "--numstat", env=env).split(b"\0")[:-1]:
        added, deleted, path = line.split(b"\t", 2)
        counts[path] = 0 if added == b"-" else int(added) + int(deleted)  # "-": binary
    for header, path in zip(raw[::2], raw[1::2], strict=True):
        old_mode, new_mode, old_blob, new_blob, _ = header.decode().lstrip(":").split()
        yield Change(
            path.decode(errors="surrogateescape"),
            old_mode,
            new_mode,
            _blob(root, env, old_mode, old_blob),
            _blob(root, env, new_mode, new_blob),
            counts[path],
        )


def _blob(root: Path, env: Mapping[str, str], mode: str, blob: str) -> bytes | None:
    if mode not in (REGULAR, EXECUTABLE):
        return None
    return git(root, "cat-file", "blob", blob, env=env)
