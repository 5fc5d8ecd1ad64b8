"""Judges a hand-over of untrusted text, and applies it to the tree when it is fit.

Every file is judged as git itself would leave it; the rules come from HEAD, never from the change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meta.publish import contents, kinds
from meta.publish.boundaries import Problem, check_changes
from meta.publish.changes import Change, read_changes
from meta.publish.contents import Decision
from meta.publish.kinds import Kind
from telemetry.edge.errors import BadInput
from telemetry.edge.git import GitRefused, Objects, git
from telemetry.edge.records import load_yaml

PATCH = "change.patch"
BODY = "body.md"
MAX_PATCH_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class Judged:
    """A patch, what it changes, and what is wrong with that; it may be applied when nothing is."""

    kind: kinds.Kind
    patch: bytes
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]
    body: str = ""  # of the pull request


@dataclass(frozen=True, slots=True)
class Applied:
    """What a patch that was found fit changed in the tree."""

    paths: tuple[str, ...]
    headline: str  # for the commit


class Head:
    """The files of HEAD, None where there is none."""

    def __init__(self, root: Path, likely: Iterable[str] = ()) -> None:
        self._objects = Objects(root, map("HEAD:{}".format, likely))

    def __call__(self, path: str) -> bytes | None:
        return self._objects(f"HEAD:{path}")

    def manifest(self) -> dict[str, Any]:
        """The manifest as plain data: protected paths and what the sandbox may edit."""
        text = self(contents.MANIFEST)
        if text is None:
            raise BadInput(f"{contents.MANIFEST}: not in HEAD, so nothing says which paths are protected")
        loaded: dict[str, Any] = load_yaml(text)
        return loaded


def check_patch(patch: bytes, kind: str, root: Path) -> Judged:
    """What applying `patch` to HEAD would change, and what is wrong with it as a change of that kind."""
    form = kinds.kind(kind)

    def judged(changes: Iterable[Change], problems: Iterable[Problem]) -> Judged:
        return Judged(form, patch, tuple(changes), tuple(problems))

    if len(patch) > MAX_PATCH_BYTES:
        size = f"the patch has {len(patch):,} bytes, at most {MAX_PATCH_BYTES:,} are taken"
        return judged([], [Problem("", size)])
    try:
        changes = read_changes(patch, root)
    except GitRefused as refused:
        return judged([], [Problem("", f"git does not apply it to HEAD: {str(refused)[:300]}")])
    if not changes:
        return judged([], [Problem("", "the patch changes nothing")])
    schemas = (contents.DECISION_SCHEMA, form.schema)
    head = Head(root, filter(None, (contents.MANIFEST, f"{form.report}.json", *schemas)))
    return judged(changes, check_changes(changes, form, head.manifest(), head))


def check_handover(folder: Path, kind: str, root: Path) -> Judged:
    """The same of a hand-over: its patch and the text of its pull request."""
    judged = check_patch(_read(folder / PATCH), kind, root)
    body = _read(folder / BODY)
    wrong = tuple(Problem(BODY, why) for why in contents.check_body(body))
    return replace(judged, problems=judged.problems + wrong, body=body.decode(errors="replace"))


def apply_patch(judged: Judged, root: Path) -> Applied:
    """Apply what was found fit to the tree; what is then on disk is compared with what was judged."""
    if judged.problems:
        raise BadInput(f"{PATCH}: {'; '.join(map(str, judged.problems))}")
    git(root, "apply", "--whitespace=nowarn", "-", stdin=judged.patch)
    for change in judged.changes:
        path = root / change.path
        if path.is_symlink() or path.read_bytes() != change.after:
            raise BadInput(f"{change.path}: the tree does not hold what was checked")
    decided = list(contents.decisions(judged.changes))
    return Applied(tuple(change.path for change in judged.changes), headline(judged.kind, decided))


def _read(path: Path) -> bytes:
    """A file from the hand-over, which may hold anything: no link is followed, no more than the limit read."""
    if path.is_symlink() or not path.is_file():
        raise BadInput(f"{path}: not a file of the hand-over")
    with path.open("rb") as file:
        return file.read(MAX_PATCH_BYTES + 1)


_VERBS = {"promote": "Promote", "disable": "Disable", "revive": "Revive"}


def headline(kind: Kind, decisions: Sequence[Decision]) -> str:
    """One line per decision that changes something, else the kind's title. Numbers and checked names only."""
    lines = [_line(one) for one in decisions if one.get("decision") in _VERBS]
    if len(lines) < 2:
        return lines[0] if lines else kind.title
    return "\n".join([kind.title, "", *lines])


def _line(decision: Decision) -> str:
    subject = re.sub(r"[^\w-]", "", str(decision.get("subject", "")))[:64]
    said = f"{_VERBS[str(decision['decision'])]} {subject}"
    verdict = decision.get("verdict")
    found = verdict if isinstance(verdict, dict) else {}
    effect, low, high = (found.get(name) for name in ("effect", "ci_low", "ci_high"))
    if isinstance(effect, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
        said += f": {100 * effect:+.1f} points (95 % CI {100 * low:.1f}..{100 * high:.1f})"
        if isinstance(found.get("cases_used"), int):
            said += f", n={found['cases_used']}"
    return said
