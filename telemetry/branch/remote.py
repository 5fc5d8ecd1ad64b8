"""The data branch as git sees it: fetched to a ref of its own, and added to without touching tree or index.

A push is one commit on top of whatever the branch holds; if another run came first, it is built anew on that. Whether
it arrived is read from the branch, so an answer that got lost is no second push.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from telemetry.branch.segments import Segment
from telemetry.edge.errors import Stopped
from telemetry.edge.git import GitRefused, blobs, commit_of, git

BRANCH: Final = "telemetry-data"
HERE: Final = f"refs/ratchet/{BRANCH}"  # the branch as it was fetched last; no branch of the person's own
TRIES: Final = 8


class GitFailed(Stopped):
    """git would not do it; the message is git's. Nothing was lost: the same command may be run again."""


class DataBranch:
    """The branch at `origin`, and what of it is known here."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def tip(self) -> str | None:
        """The commit that was fetched last."""
        return commit_of(self.root, HERE)

    def fetch(self) -> str | None:
        """The tip of the branch at the remote; None if there is no such branch yet."""
        if not self._git("ls-remote", "origin", f"refs/heads/{BRANCH}").split():
            self._git("update-ref", "-d", HERE)
            return None
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--depth=1")
        self._git("fetch", *quiet, "origin", f"+refs/heads/{BRANCH}:{HERE}")
        return self.tip

    def paths(self) -> list[str]:
        """Every file of the branch."""
        if (tip := self.tip) is None:
            return []
        return self._git("ls-tree", "-r", "--name-only", "-z", tip).decode().split("\0")[:-1]

    def segments(self) -> list[Segment]:
        """What it holds, oldest first."""
        return sorted(filter(None, map(Segment.of, self.paths())))

    def read(self, paths: Sequence[str]) -> list[bytes]:
        """Those files of it."""
        return [data or b"" for data in blobs(self.root, [f"{self.tip}:{path}" for path in paths])]

    def publish(self, files: Mapping[str, bytes], message: str, *, renew: bool = False) -> list[str]:
        """Add what is not there yet, in one commit; the paths that were new. A file is changed only to `renew` it."""
        import random

        refused = ""
        for attempt in range(TRIES):
            tip = self.fetch()
            held = set(self.paths())
            same = {
                path for path in held.intersection(files) if not renew or self.read([path]) == [files[path]]
            }
            new = {path: data for path, data in files.items() if path not in same}
            if not new:
                return []
            commit = self._commit(new, message, on=tip, parent=tip)
            try:
                self._git("push", "--quiet", "origin", f"{commit}:refs/heads/{BRANCH}")
                return sorted(new)
            except GitFailed as problem:
                refused = str(problem)
                time.sleep(random.uniform(0.1, 0.5) * 2**attempt / 4)
        raise GitFailed(f"the push to {BRANCH} was refused {TRIES} times, last: {refused}")

    def replace(self, files: Mapping[str, bytes], gone: Iterable[str], message: str) -> None:
        """Put `files` in place of others, as the branch's only commit: refused if it no longer is what was fetched."""
        commit = self._commit(files, message, on=self.tip, parent=None, gone=gone)
        lease = f"--force-with-lease=refs/heads/{BRANCH}:{self.tip}"
        self._git("push", "--quiet", lease, "origin", f"{commit}:refs/heads/{BRANCH}")

    def _commit(
        self,
        files: Mapping[str, bytes],
        message: str,
        *,
        on: str | None,
        parent: str | None,
        gone: Iterable[str] = (),
    ) -> str:
        """A commit that leaves the tree of `on` less `gone` and with `files`."""
        import tempfile

        entries = [f"0 {'0' * 40}\t{path}\n" for path in gone]
        for path, data in files.items():
            blob = self._git("hash-object", "-w", "--stdin", stdin=data).decode().strip()
            entries.append(f"100644 {blob}\t{path}\n")
        with tempfile.TemporaryDirectory() as scratch:
            env = {"GIT_INDEX_FILE": f"{scratch}/index"}
            if on is not None:
                self._git("read-tree", on, env=env)
            self._git("update-index", "--index-info", stdin="".join(entries).encode(), env=env)
            tree = self._git("write-tree", env=env).decode().strip()
        who: dict[str, str] = {}
        for role in ("AUTHOR", "COMMITTER"):
            who |= {f"GIT_{role}_NAME": "Ratchet", f"GIT_{role}_EMAIL": "ratchet@users.noreply.github.com"}
        above = [] if parent is None else ["-p", parent]
        return self._git("commit-tree", tree, *above, "-m", message, env=who).decode().strip()

    def _git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        try:
            return git(self.root, *args, stdin=stdin, env={**login(), **(env or {})})
        except GitRefused as refused:
            raise GitFailed(str(refused)) from None


def login() -> dict[str, str]:
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
