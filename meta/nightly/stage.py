"""Where a night does its work: a scratch worktree at HEAD, so that the checked-out tree stays as it was.

Prompts, reports and decisions are written in the worktree; data (telemetry, results, outputs, journals) goes through
links to the checkout itself. A change leaves the worktree only as a hand-over that passed the guard, as one commit on
the branch of its kind: what would be a pull request on GitHub. Killed at any point, nothing is left but the worktree,
which the next night replaces.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_atomic
from telemetry.edge.git import GitRefused, git

TREE = Path(".ratchet/night/tree")
FOLDERS = ("telemetry/sealed", "telemetry/charts", "agents/outputs", "eval/results", ".ratchet")
SUMMARY = "telemetry/summary.json"  # replaced as a whole, so a link to it would be replaced too
FILES = ("telemetry/events.jsonl", "eval/history.jsonl")


class InPlace:
    """`--apply`: work on the checkout itself and leave the changes there, uncommitted."""

    def __init__(self, root: Path) -> None:
        self.root = self.tree = root

    def __enter__(self) -> InPlace:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def fresh(self, *carried: str) -> None:
        """Nothing to clear: the changes are meant to stay."""

    def publish(self, kind: str) -> str | None:
        """Nothing to publish: the changes are where they were asked for."""
        return None


class Stage(InPlace):
    """The scratch worktree."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.tree = self.root / TREE
        self._kept: dict[str, bytes] = {}

    def __enter__(self) -> Stage:
        try:
            git(self.root, "rev-parse", "--verify", "HEAD")
        except GitRefused as problem:
            raise BadInput(f"{self.root}: a night needs a git checkout with a commit ({problem})") from None
        self._remove()
        git(self.root, "worktree", "add", "--quiet", "--detach", str(self.tree), "HEAD")
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True, exist_ok=True)
            self._link(name)
        for name in FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
            self._link(name)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def fresh(self, *carried: str) -> None:
        """Back to HEAD, but for `carried` files of earlier steps, which are inputs here and no part of a change."""
        for name in carried:
            if (self.tree / name).is_file():
                self._kept[name] = (self.tree / name).read_bytes()
        git(self.tree, "reset", "--quiet", "--hard")
        git(self.tree, "clean", "--quiet", "-fd")
        for name in carried:
            if name in self._kept:
                write_atomic(self.tree / name, self._kept[name])
        if (self.root / SUMMARY).is_file():
            shutil.copyfile(self.root / SUMMARY, self.tree / SUMMARY)

    def publish(self, kind: str) -> str | None:
        """Hand over, guard, and commit on the branch of the kind; the branch, or None if nothing changed."""
        from meta import guard, handover
        from meta.publish import kinds

        form = kinds.kind(kind)
        folder = self.root / ".ratchet/night" / f"handover-{kind}"
        shutil.rmtree(folder, ignore_errors=True)
        if not handover.pack(kind, self.tree, folder):
            return None
        problems = guard.check_handover(folder, kind, self.root)
        if problems:
            raise BadInput(f"the guard refused this change: {'; '.join(map(str, problems))}")
        for name in (f"{form.report}.json", f"{form.report}.md"):
            self._kept[name] = (self.tree / name).read_bytes()
        self.fresh()
        applied = guard.apply_patch((folder / guard.PATCH).read_bytes(), kind, self.tree)
        git(self.tree, "add", "--", *applied.paths)
        message = f"{form.title}\n\n{(folder / guard.BODY).read_text(encoding='utf-8')}"
        identity = (
            [] if self._has_identity() else ["-c", "user.name=Ratchet", "-c", "user.email=ratchet@localhost"]
        )
        commit = (*identity, "commit", "--quiet", "--no-verify", "--cleanup=verbatim", "--file=-")
        git(self.tree, *commit, stdin=message.encode())
        git(self.root, "branch", "--force", form.branch, git(self.tree, "rev-parse", "HEAD").decode().strip())
        git(
            self.tree, "checkout", "--quiet", "--detach", git(self.root, "rev-parse", "HEAD").decode().strip()
        )
        return form.branch

    def _has_identity(self) -> bool:
        try:
            return bool(git(self.root, "config", "user.email").strip())
        except GitRefused:
            return False

    def _link(self, name: str) -> None:
        target = self.tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.symlink_to(self.root / name)

    def _remove(self) -> None:
        for name in (*FOLDERS, *FILES):  # the links first: removing a tree must never follow them
            if (self.tree / name).is_symlink():
                (self.tree / name).unlink()
        shutil.rmtree(self.tree, ignore_errors=True)
        git(self.root, "worktree", "prune")
