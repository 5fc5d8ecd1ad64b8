"""Asks git, without hooks, prompts or translations; what it refuses, it says."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from telemetry.edge.errors import BadInput
from telemetry.edge.text import redact

OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")
ENVIRONMENT = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}


class GitRefused(BadInput):
    """git would not do it; the message is git's."""


def git(root: Path, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """What git prints on stdout, run in `root`. A lock that a killed git left behind is removed first."""
    freed: set[Path] = set()
    while True:
        done = subprocess.run(
            ["git", *OPTIONS, *args],
            cwd=root,
            input=stdin,
            env={**os.environ, **ENVIRONMENT, **(env or {})},
            capture_output=True,
        )
        if not done.returncode:
            return done.stdout
        said = " ".join(done.stderr.decode(errors="replace").split())
        lock = _LOCK.search(said)
        if (full := os.strerror(errno.ENOSPC)) in said:  # nothing is wrong with what was asked
            raise OSError(errno.ENOSPC, full, str(root))
        if not lock or (path := root / lock[1]) in freed:
            raise GitRefused(f"git {args[0]}: {redact(said)}")
        if at_work := _gits_in(root):
            running = f"git (process {at_work[0]}) is at work in this checkout; try again when it is done"
            raise GitRefused(f"git {args[0]}: {lock[1]}: {running}")
        path.unlink(missing_ok=True)
        freed.add(path)


_LOCK = re.compile(r"Unable to create '([^']+\.lock)': File exists")


def _gits_in(root: Path) -> list[int]:
    """The git processes of this user that work in a checkout; where there is no /proc, none is known."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().startswith("git"):
                where = (process / "cwd").readlink()
                found += [int(process.name)] if where.is_relative_to(root.resolve()) else []
        except OSError:  # it has ended, or is another user's
            continue
    return found


def blobs(root: Path, names: Sequence[str], env: Mapping[str, str] | None = None) -> list[bytes | None]:
    """The files of those object names (`HEAD:path`, a hash), all asked for at once; None where there is none."""
    if not names:
        return []
    asked = "".join(f"{name}\0" for name in names).encode(errors="surrogateescape")
    rest = git(root, "cat-file", "--batch", "-z", stdin=asked, env=env)
    found: list[bytes | None] = []
    for name in names:
        if rest.startswith(missing := f"{name} missing\n".encode(errors="surrogateescape")):
            rest = rest[len(missing) :]
            found.append(None)
            continue
        about, _, rest = rest.partition(b"\n")
        _, kind, size = about.split()
        found.append(rest[: int(size)] if kind == b"blob" else None)
        rest = rest[int(size) + 1 :]
    return found


class Objects:
    """Files by object name, each read once; those that are `likely` to be asked for in one go."""

    def __init__(self, root: Path, likely: Iterable[str] = ()) -> None:
        self._root = root
        self._found: dict[str, bytes | None] = {}
        self.expect(likely)

    def __call__(self, name: str) -> bytes | None:
        self.expect([name])
        return self._found[name]

    def expect(self, names: Iterable[str]) -> None:
        """Read what is not known yet."""
        wanted = [name for name in dict.fromkeys(names) if name not in self._found]
        self._found |= zip(wanted, blobs(self._root, wanted), strict=True)


def commit_of(root: Path, revision: str = "HEAD") -> str | None:
    """The full name of a commit; None if there is none, or no repository."""
    try:
        return git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    except (GitRefused, OSError):
        return None
