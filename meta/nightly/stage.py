"""Where a night does its work: a scratch worktree at HEAD, so that the checked-out tree stays as it was.

Prompts, reports and decisions are written in the worktree; data (telemetry, results, outputs, journals) goes through
links to the checkout itself. A change leaves the worktree only as a hand-over that passed the guard, as one commit on
the branch of its kind: what would be a pull request on GitHub. Killed at any point, nothing is left but the worktree,
which the next night replaces.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from meta.nightly import branches
from meta.nightly.message import message
from meta.publish import judge, kinds
from telemetry.edge import files
from telemetry.edge.errors import BadInput
from telemetry.edge.git import GitRefused, git

# Where git knows no other.
IDENTITY = ("-c", f"user.name={branches.NAME}", "-c", f"user.email={branches.MAIL}")
NIGHT = files.SCRATCH / "night"
TREE, HEAD = NIGHT / "tree", NIGHT / "head"
FOLDERS = (files.SEALED, files.CHARTS, files.OUTPUTS, files.RESULTS, files.SCRATCH)
# The summary is replaced as a whole, so a link to it would be replaced too.
FILES = (files.EVENTS, files.TEXTS, files.HISTORY, files.REFUSALS)


class InPlace:
    """`--apply`: work on the checkout itself and leave the changes there, uncommitted."""

    def __init__(self, root: Path) -> None:
        self.root = self.tree = root

    def __enter__(self) -> InPlace:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def fresh(self, *carried: str) -> Path:
        """The tree to work in; nothing to clear, as the changes are meant to stay."""
        return self.tree

    def publish(self, kind: str) -> str | None:
        """Nothing to publish: the changes are where they were asked for."""
        return None

    def keeps(self, branch: str | None) -> bool:
        """Whether a person's commit on this branch was left alone."""
        return False


class Stage(InPlace):
    """The scratch worktree; `data` names inputs that git may ignore: customers' rows belong in no history."""

    def __init__(self, root: Path, data: Iterable[str] = ()) -> None:
        self.root = root.resolve()
        self._data = [Path(name) for name in dict.fromkeys(data) if (self.root / name).exists()]
        self.tree = self.root / TREE
        self._base = ""  # the commit that all changes start from
        self._clean = True  # the worktree is as that commit has it
        self._head = judge.Head(self.tree, self.root / HEAD)  # one and the same all night
        self._kept: dict[str, bytes] = {}
        self._identity: tuple[str, ...] = ()
        self._kept_branches: set[str] = set()

    def __enter__(self) -> Stage:
        try:
            self._base = git(self.root, "rev-parse", "--verify", "HEAD").decode().strip()
        except GitRefused as problem:
            raise BadInput(f"{self.root}: a night needs a git checkout with a commit ({problem})") from None
        try:
            git(self.root, "config", "user.email")
        except GitRefused:
            self._identity = IDENTITY
        self._remove()
        git(self.root, "worktree", "add", "--quiet", "--detach", str(self.tree), self._base)
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
        for name in (*FOLDERS, *FILES, *filter(self._ignored, self._data)):
            target = self.tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.symlink_to(self.root / name)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _ignored(self, name: Path) -> bool:
        try:
            git(self.root, "check-ignore", "--quiet", "--", str(name))
        except GitRefused:  # what is neither committed nor ignored is no part of tonight
            return False
        return True

    def fresh(self, *carried: str) -> Path:
        """The tree as it started, but for `carried` files of earlier steps: inputs here, and no part of a change."""
        for name in carried:
            if (self.tree / name).is_file():
                self._kept[name] = (self.tree / name).read_bytes()
        if not self._clean:
            git(self.tree, "reset", "--quiet", "--hard", self._base)
            git(self.tree, "clean", "--quiet", "-fd")
        self._clean = False  # whoever asked is about to write
        for name in carried:
            if name in self._kept:
                files.write_atomic(self.tree / name, self._kept[name])
        if (self.root / files.SUMMARY).is_file():
            shutil.copyfile(self.root / files.SUMMARY, self.tree / files.SUMMARY)
        return self.tree

    def publish(self, kind: str) -> str | None:
        """Hand over, guard, and commit on the branch of the kind; the branch, or None if nothing changed."""
        form = kinds.kind(kind)
        folder = self.root / NIGHT / f"handover-{kind}"
        shutil.rmtree(folder, ignore_errors=True)
        if not judge.pack(form, self.tree, folder, self._head):
            return None
        judged = judge.check_handover(folder, kind, self.tree, self._head)
        if judged.problems:
            raise BadInput(f"the guard refused this change: {'; '.join(map(str, judged.problems))}")
        for name in (f"{form.report}.json", f"{form.report}.md"):
            self._kept[name] = (self.tree / name).read_bytes()
        self._clean = False
        if branches.is_persons(self.root, form.branch):
            self._kept_branches.add(form.branch)
            return form.branch
        told = message(judged.body, form.branch, f"{form.report}.md")
        words = f"{judged.headline}\n\n{told}".encode()
        made = judge.commit_patch(judged, self.tree, words, *self._identity, env=branches.COMMITTER)
        git(self.tree, "branch", "--force", form.branch, made)
        branches.remember(self.root, form, made, self._kept[f"{form.report}.json"])
        return form.branch

    def keeps(self, branch: str | None) -> bool:
        """Whether a person's commit on this branch was left alone."""
        return branch in self._kept_branches

    def _remove(self) -> None:
        for name in (*FOLDERS, *FILES):  # the links first: removing a tree must never follow them
            if (self.tree / name).is_symlink():
                (self.tree / name).unlink()
        for folder in (self.tree, self.root / HEAD):
            shutil.rmtree(folder, ignore_errors=True)
        git(self.root, "worktree", "prune")
