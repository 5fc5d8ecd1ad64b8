"""May this change be proposed? Checks a hand-over of untrusted text before anything with a write token touches it.

`check` says what is wrong with it (exit 1 if anything is), `apply` does the same and then applies it to the tree.
Every file is judged as git itself would leave it; the rules come from HEAD, never from the change.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.github import job_summary, set_output
from telemetry.edge.repo import Repo

if TYPE_CHECKING:
    from meta.publish.boundaries import Problem
    from meta.publish.changes import Change

PATCH = "change.patch"
BODY = "body.md"
MAX_PATCH_BYTES = 8_000_000


def check_patch(patch: str | bytes, kind: str, root: Path) -> list[Problem]:
    """What is wrong with applying `patch` to HEAD as a change of that kind; empty when nothing is."""
    return _judge(patch, kinds.kind(kind), root)[0]


def check_handover(folder: Path, kind: str, root: Path) -> list[Problem]:
    """What is wrong with a hand-over: its patch and the text of its pull request."""
    from meta.publish.boundaries import Problem
    from meta.publish.contents import check_body

    problems = check_patch(_read(folder / PATCH, MAX_PATCH_BYTES), kind, root)
    body = _read(folder / BODY, MAX_PATCH_BYTES)
    return problems + [Problem(BODY, why) for why in check_body(body)]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a patch that was found fit changed in the tree."""

    paths: list[str]
    headline: str  # for the commit


def apply_patch(patch: bytes, kind: str, root: Path) -> Applied:
    """Judge a patch and apply it to the tree; what is then on disk is compared with what was judged."""
    from meta.publish.contents import decisions
    from meta.publish.headline import headline
    from telemetry.edge.git import git

    problems, changes = _judge(patch, kinds.kind(kind), root)
    if problems:
        raise BadInput(f"{PATCH}: {'; '.join(map(str, problems))}")
    git(root, "apply", "--whitespace=nowarn", "-", stdin=patch)
    for change in changes:
        path = root / change.path
        if path.is_symlink() or path.read_bytes() != change.after:
            raise BadInput(f"{change.path}: the tree does not hold what was checked")
    return Applied([change.path for change in changes], headline(kinds.kind(kind), list(decisions(changes))))


def _judge(patch: str | bytes, kind: kinds.Kind, root: Path) -> tuple[list[Problem], list[Change]]:
    from meta.publish.boundaries import Problem, check_changes
    from meta.publish.changes import read_changes
    from telemetry.edge.git import GitRefused

    raw = patch.encode(errors="surrogateescape") if isinstance(patch, str) else patch
    if len(raw) > MAX_PATCH_BYTES:
        return [Problem("", f"the patch has {len(raw):,} bytes, at most {MAX_PATCH_BYTES:,} are taken")], []
    try:
        changes = read_changes(raw, root)
    except GitRefused as refused:
        return [Problem("", f"git does not apply it to HEAD: {str(refused)[:300]}")], []
    if not changes:
        return [Problem("", "the patch changes nothing")], []
    return check_changes(changes, kind, manifest(root), lambda path: head(root, path)), changes


def head(root: Path, path: str) -> bytes | None:
    """A file of HEAD, None when there is none."""
    from telemetry.edge.git import GitRefused, git

    try:
        return git(root, "cat-file", "blob", f"HEAD:{path}")
    except GitRefused:
        return None


def manifest(root: Path) -> dict[str, Any]:
    """The manifest of HEAD as plain data: protected paths and what the sandbox may edit."""
    import yaml

    from meta.publish.contents import MANIFEST

    text = head(root, MANIFEST)
    if text is None:
        raise BadInput(f"{MANIFEST}: not in HEAD, so nothing says which paths are protected")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _read(path: Path, limit: int) -> bytes:
    """A file from the hand-over, which may hold anything: no link is followed, no more than `limit` read."""
    if path.is_symlink() or not path.is_file():
        raise BadInput(f"{path}: not a file of the hand-over")
    with path.open("rb") as file:
        return file.read(limit + 1)


def parser() -> cli.Parser:
    """The command line."""
    flags = cli.Parser(__doc__)
    flags.add_argument("action", choices=["check", "apply"])
    flags.add_argument("handover", type=Path, metavar="DIR", help="change.patch and body.md to judge")
    flags.add_argument("--kind", required=True, help="kind of change: " + ", ".join(sorted(kinds.KINDS)))
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Judge, say so, and apply when asked and allowed."""
    kind = kinds.kind(args.kind)
    root = repo.root.resolve()
    problems = check_handover(args.handover, kind.name, root)
    paths = []
    if args.action == "apply" and not problems:
        applied = apply_patch(_read(args.handover / PATCH, MAX_PATCH_BYTES), kind.name, root)
        paths = applied.paths
        set_output("paths", "\n".join(paths))
        set_output("headline", applied.headline)
    if args.json:
        print(json.dumps({"kind": kind.name, "problems": [str(one) for one in problems], "paths": paths}))
    elif not args.quiet:
        print(_told(kind, problems, paths))
    if problems:
        job_summary(
            f"### {kind.title}: refused by the guard\n\n{_bullets(problems)}\n\nNo pull request was opened."
        )
    return cli.FOUND if problems else cli.OK


def _told(kind: kinds.Kind, problems: list[Problem], paths: list[str]) -> str:
    if problems:
        return "\n".join([f"refused as {kind.name}:", *(f"  {problem}" for problem in problems)])
    return "\n".join([f"fit to be proposed as {kind.name}", *(f"  applied {path}" for path in paths)])


def _bullets(problems: list[Problem]) -> str:
    """As code: a path or a message may hold text of the change."""
    return "\n".join(f"- `{str(problem).replace('`', chr(39))}`" for problem in problems[:50])


if __name__ == "__main__":
    raise SystemExit(main())
