"""Packs a change as a hand-over, judges one of untrusted text, and applies it to the tree when it is fit.

The hand-over is a folder: change.patch (against HEAD, allowed paths only), meta.json. Every file is judged as git
itself would leave it; the rules come from HEAD, never from the change, and so does the text of the pull request.
"""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.manifest import matches
from meta.publish import agreement, contents, kinds
from meta.publish.boundaries import Problem, allowed, check_changes
from meta.publish.contents import FILES, Change, Decision
from meta.publish.kinds import Kind
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, write_atomic, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.git import GitRefused, Objects, blobs, git
from telemetry.edge.records import load_yaml

PATCH = "change.patch"
META = "meta.json"
REPORT = "report.json"  # of a run that proposes nothing: it may speak against what is open
MAX_PATCH_BYTES = 8_000_000
_APPLY = ("apply", "--whitespace=nowarn")


@frozen
class Judged:
    """A patch, what it changes, and what is wrong with that; it may be applied when nothing is."""

    kind: Kind
    patch: bytes
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]
    body: str = ""  # of the pull request

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes)

    @property
    def headline(self) -> str:
        return headline(self.kind, list(contents.decisions(self.changes)))

    def insist(self) -> None:
        """Refuse what was not found fit."""
        if self.problems:
            raise BadInput(f"{PATCH}: {'; '.join(map(str, self.problems))}")


class Head:
    """The files of HEAD, None where there is none; those of no name are none.

    Whoever judges several changes names a `folder` that is not there yet: there HEAD is laid out once for all of them.
    """

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self._root, self._folder = root, folder
        self._objects = Objects(root)

    def __call__(self, path: str) -> bytes | None:
        return self._objects(f"HEAD:{path}") if path else None

    def expect(self, paths: Iterable[str]) -> None:
        """Read in one go what is about to be asked for."""
        self._objects.expect(f"HEAD:{path}" for path in paths if path)

    def manifest(self) -> dict[str, Any]:
        """The manifest as plain data: protected paths and what the sandbox may edit."""
        text = self(contents.MANIFEST)
        if text is None:
            raise BadInput(f"{contents.MANIFEST}: not in HEAD, so nothing says which paths are protected")
        loaded: dict[str, Any] = load_yaml(text)
        return loaded

    @contextmanager
    def laid_out(self) -> Iterator[Path]:
        """Its files in a folder, which has to be left as it was."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = self._folder or Path(scratch) / "head"
            if not folder.exists():
                export(b"", self._root, folder)
            yield folder


@functools.lru_cache(maxsize=8)
def _objects(root: Path) -> Path:
    """Where a checkout keeps its objects."""
    return (root / git(root, "rev-parse", "--git-path", "objects").decode().strip()).resolve()


@contextmanager
def _scratch(root: Path, patch: bytes = b"", *, keep: bool = False) -> Iterator[dict[str, str]]:
    """The environment of a scratch index that holds HEAD and a patch; the tree stays as it is.

    Objects go with the index, unless somebody is to `keep` them in the repository.
    """
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        if not keep:
            (Path(scratch) / "objects").mkdir()
            env["GIT_OBJECT_DIRECTORY"] = f"{scratch}/objects"
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(_objects(root.resolve()))
        git(root, "read-tree", "HEAD", env=env)
        if patch:
            git(root, *_APPLY, "--cached", "-", stdin=patch, env=env)
        yield env


def read_changes(patch: bytes, root: Path) -> list[Change]:
    """The files that `patch` changes against HEAD, as git sees them after applying it."""
    if not patch.strip():
        return []
    with _scratch(root, patch) as env:
        return list(_compare(root, env))


def canonical(diff: bytes, root: Path) -> bytes:
    """A diff written by hand or by a model, as git would write it: models cannot count the lines of a hunk."""
    with _scratch(root) as env:
        git(root, *_APPLY, "--cached", "--recount", "-", stdin=diff, env=env)
        return _written(root, env)


def export(patch: bytes, root: Path, folder: Path) -> None:
    """HEAD with a patch applied, as plain files in a new folder."""
    with _scratch(root, patch) as env:
        git(root, "checkout-index", "--all", f"--prefix={folder}/", env=env)


def _written(root: Path, env: Mapping[str, str]) -> bytes:
    """What an index changes against HEAD, as a patch: by plumbing, which heeds no one's taste in diffs."""
    options = ("--cached", "--patch", "--binary", "--full-index", "--no-renames")
    return git(root, "diff-index", *options, "HEAD", env=env)


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


def check_patch(patch: bytes, kind: str, root: Path, head: Head | None = None) -> Judged:
    """What applying `patch` to HEAD would change, and what is wrong with it as a change of that kind."""
    form, head = kinds.kind(kind), head or Head(root)

    def refused(why: str) -> Judged:
        return Judged(form, patch, (), (Problem("", why),))

    if len(patch) > MAX_PATCH_BYTES:
        return refused(f"the patch has {len(patch):,} bytes, at most {MAX_PATCH_BYTES:,} are taken")
    try:
        changes = read_changes(patch, root)
    except GitRefused as problem:
        return refused(f"git does not apply it to HEAD: {str(problem)[:300]}")
    if not changes:
        return refused("the patch changes nothing")
    manifest = head.manifest()
    head.expect(_looked_up(form, manifest, changes))
    problems = check_changes(changes, form, manifest, head)
    return Judged(form, patch, tuple(changes), tuple(problems))


def _looked_up(form: Kind, manifest: Mapping[str, Any], changes: Sequence[Change]) -> Iterator[str]:
    """What judging a change asks HEAD for: schemas, the report before, suites, the prompts of changed variants."""
    yield from (f"{form.report}.json", form.schema, contents.DECISION_SCHEMA, contents.LINEAGE_SCHEMA)
    yield from (str(entry.get("eval_suite") or "") for entry in manifest.get("agents", ()))
    for change in changes:
        if change.path.startswith(f"{contents.VARIANTS}/"):
            yield f"{agreement.PROMPTS}/{Path(change.path).parent.name}.md"


def check_handover(folder: Path, kind: str, root: Path, head: Head | None = None) -> Judged:
    """The same of a hand-over, which has to agree with itself: it is published under the text that its report gives."""
    head = head or Head(root)
    judged = check_patch(read_bounded(folder / PATCH), kind, root, head)
    if judged.problems:
        return judged
    form, after = judged.kind, contents.left_by(judged.changes, head)
    body = after(f"{form.report}.md") or b""
    wrong = [Problem(f"{form.report}.md", why) for why in contents.check_body(body)]
    # A tree that does not know what a report is cannot hold one against it.
    if form.form and head(form.schema) is not None:
        wrong += agreement.check_body(form, after, Repo(root))
        wrong += agreement.check_decisions(judged.changes, form, after, head)
    if head(contents.LINEAGE_SCHEMA) is not None:
        wrong += agreement.check_lineage(judged.changes, head)
    if not wrong and (why := _breaks(judged, head)):
        wrong.append(Problem("", f"leaves what cannot be loaded: {why[:300]}"))
    return replace(judged, problems=tuple(wrong), body=body.decode(errors="replace"))


def _breaks(judged: Judged, head: Head) -> str:
    """Why the tree could not be loaded after the change; empty if it could, or could not before either."""
    with head.laid_out() as tree:
        with _changed_in(tree, judged.changes):
            why = agreement.loads(tree, judged.paths)
        return why if why and why != agreement.loads(tree, judged.paths) else ""


@contextmanager
def _changed_in(tree: Path, changes: Sequence[Change]) -> Iterator[None]:
    """The change in a tree that holds HEAD, for as long as somebody looks."""

    def put(path: Path, content: bytes | None) -> None:
        path.unlink(missing_ok=True)  # a link is replaced, never followed
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    try:
        for change in changes:
            put(tree / change.path, change.after)
        yield
    finally:
        for change in changes:
            put(tree / change.path, change.before)


def apply_patch(judged: Judged, root: Path) -> None:
    """Apply what was found fit to the tree; what is then on disk is compared with what was judged."""
    judged.insist()
    git(root, *_APPLY, "-", stdin=judged.patch)
    for change in judged.changes:
        path = root / change.path
        if path.is_symlink() or path.read_bytes() != change.after:
            raise BadInput(f"{change.path}: the tree does not hold what was checked")


def commit_patch(judged: Judged, root: Path, message: bytes, *options: str, env: Mapping[str, str]) -> str:
    """A commit of what was found fit, on top of HEAD; neither the tree nor its index is touched."""
    judged.insist()
    with _scratch(root, judged.patch, keep=True) as index:
        tree = git(root, "write-tree", env=index).decode().strip()
    return git(root, *options, "commit-tree", tree, "-p", "HEAD", stdin=message, env=env).decode().strip()


def read_bounded(path: Path) -> bytes:
    """A file from the hand-over, which may hold anything: no link is followed, no more than the limit read."""
    if path.is_symlink() or not path.is_file():
        raise BadInput(f"{path}: not a file of the hand-over")
    with path.open("rb") as file:
        return file.read(MAX_PATCH_BYTES + 1)


def pack(form: Kind, root: Path, folder: Path, head: Head | None = None) -> tuple[str, ...]:
    """Write the hand-over of what differs from HEAD; the paths in it, none when there is nothing to propose."""
    globs = allowed(form, (head or Head(root)).manifest())
    paths = tuple(path for path in _changed(root) if any(matches(path, glob) for glob in globs))
    if not paths:
        return ()
    with _scratch(root) as env:
        listed = "\0".join(paths).encode(errors="surrogateescape")
        add = ("--literal-pathspecs", "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        git(root, *add, stdin=listed, env=env)
        patch = _written(root, env)
    if not (root / f"{form.report}.md").is_file():
        raise BadInput(f"{form.report}.md: missing, so the pull request has no text")
    write_atomic(folder / PATCH, patch)
    base = git(root, "rev-parse", "HEAD").decode().strip()
    about = {"branch": form.branch, "title": form.title, "labels": form.labels, "draft": form.draft}
    write_json(folder / META, {"kind": form.name, "base_sha": base, **about})
    return paths


def hand_report(form: Kind, root: Path, folder: Path) -> bool:
    """Hand over the report alone, if this run wrote one: it may speak against a pull request that is open."""
    path = f"{form.report}.json"
    if path not in _changed(root):
        return False
    write_atomic(folder / REPORT, (root / path).read_bytes())
    return True


def _changed(root: Path) -> list[str]:
    """Every path that differs from HEAD, new files too; what .gitignore names is data, not a change."""
    status = git(root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    return sorted(line[3:] for line in status.decode(errors="surrogateescape").split("\0")[:-1])


MAX_SUBJECT = 120  # characters of a commit's first line; GitHub folds what is longer
_VERBS = {"promote": "Promote", "demote": "Demote", "disable": "Disable", "revive": "Revive"}


def headline(kind: Kind, decisions: Sequence[Decision]) -> str:
    """A commit's message: what was decided, in one line, and each decision below it; else the kind's title.

    Numbers and checked names only.
    """
    lines = [_line(one) for one in decisions if one.get("decision") in _VERBS]
    if len(lines) < 2:
        return lines[0] if lines else kind.title
    told = "; ".join(map(_short, lines))
    subject = told if len(told) <= MAX_SUBJECT else f"{_short(lines[0])} and {len(lines) - 1} more"
    return "\n".join([subject, "", *lines])


def _short(line: str) -> str:
    return line.partition(" (")[0][:MAX_SUBJECT]


def _line(decision: Decision) -> str:
    verdict = decision.get("verdict")
    found = verdict if isinstance(verdict, dict) else {}
    if decision.get("kind") == "ab_model":
        said = f"Move to {re.sub(r'[^A-Za-z0-9._:/-]', '', str(found.get('model', '')))[:100]}"
    else:
        subject = re.sub(r"[^\w-]", "", str(decision.get("subject", "")))[:64]
        said = f"{_VERBS[str(decision['decision'])]} {subject}"
    effect, low, high = (found.get(name) for name in ("effect", "ci_low", "ci_high"))
    if isinstance(effect, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
        said += f": {100 * effect:+.1f} points (95 % CI {100 * low:.1f}..{100 * high:.1f})"
        if isinstance(found.get("cases_used"), int):
            said += f", n={found['cases_used']}"
    return said
