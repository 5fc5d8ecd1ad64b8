"""What a change of each kind may touch, and how much of it: pure rules over files before and after, code too."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.manifest import matches, protecting
from meta.publish import cases, contents
from meta.publish.contents import ABSENT, EXECUTABLE, REGULAR, Change, Decision, Head
from meta.publish.kinds import Kind
from meta.publish.reach import outward
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_yaml

MAX_PATH_CHARS = 160

# What no proposal may touch.
PROTECTED = tuple(load_yaml(Path(__file__).with_suffix(".yaml").read_bytes())["protected"])

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_MODES = {"120000": "a symbolic link", "160000": "a submodule", EXECUTABLE: "executable"}


@frozen
class Problem:
    """One reason why a change is refused."""

    path: str  # empty: the change as a whole
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what


def allowed(kind: Kind, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Everything the kind may touch; for the sandbox also the code of agents that say so in the manifest."""
    return (*kind.globs(), *(_editable(manifest) if kind.name == "sandbox" else ()))


def check_changes(
    changes: Sequence[Change], kind: Kind, manifest: Mapping[str, Any], head: Head
) -> list[Problem]:
    """Every rule that the change breaks. `manifest` and `head` are the trusted tree's."""
    globs = allowed(kind, manifest)
    protected = (*PROTECTED, *(manifest.get("protected_paths") or ()), *named_code(manifest, head))
    after, decided = contents.left_by(changes, head), list(contents.decisions(changes))
    problems = list(_size(changes, kind))
    for change in changes:
        reasons = [*_place(change.path, globs, protected, kind), *_form(change)]
        wrong = reasons or _content(change, kind, head, after, decided)
        problems += [Problem(change.path, why) for why in wrong]
    return problems


def _size(changes: Sequence[Change], kind: Kind) -> Iterator[Problem]:
    lines = sum(change.lines for change in changes if not matches(change.path, f"{kind.report}.*"))
    for what, measured, limit in (
        ("files", len(changes), kind.max_files),
        ("lines outside the report", lines, kind.max_lines),
        ("bytes", sum(len(change.after or b"") for change in changes), kind.max_bytes),
    ):
        if measured > limit:
            yield Problem("", f"{measured:,} {what} changed, at most {limit:,} for {kind.name}")


def _place(path: str, globs: Sequence[str], protected: Sequence[str], kind: Kind) -> Iterator[str]:
    if len(path) > MAX_PATH_CHARS or not _PLAIN_PATH.fullmatch(path):
        yield "is no plain path inside the repository"
    if not any(matches(path, glob) for glob in globs):
        yield f"is outside what {kind.name} may touch"
    guard = protecting(path, protected)
    if guard and not any(matches(path, trace) for trace in kind.traces()):
        yield f"is protected ({guard})"


def _form(change: Change) -> Iterator[str]:
    if change.new_mode == ABSENT:
        yield "is deleted or renamed"
    elif change.new_mode not in (REGULAR, change.old_mode):
        yield f"becomes {_MODES.get(change.new_mode, change.new_mode)}"
    elif change.after is None:
        yield "is no regular file"


def _content(change: Change, kind: Kind, head: Head, after: Head, decided: list[Decision]) -> Iterator[str]:
    report = after(f"{kind.report}.json")
    yield from contents.check_text(change)
    if change.path == contents.MANIFEST and kind.name == "ab_model":
        yield from contents.check_models(change, report, decided)
    elif change.path == contents.MANIFEST:
        yield from contents.check_manifest(change, decided)
    elif matches(change.path, cases.SUITE):
        yield from cases.check_suite(change, report)
    elif change.path == cases.PINS:
        yield from cases.check_pins(change, after)
    elif change.path.endswith(".json"):
        yield from contents.check_json(change, head(_schema(change.path, kind)))
        if change.path.startswith(contents.DECISIONS):
            yield from contents.check_decision(change, report, kind.decides, head)
    elif change.path.endswith(".py"):
        yield from check_python(change)
    elif change.path.endswith(".md"):
        yield from contents.check_champion(change, after, decided)


def _schema(path: str, kind: Kind) -> str:
    """Where the schema of a JSON file is; empty when it has none."""
    if path.startswith(contents.DECISIONS):
        return contents.DECISION_SCHEMA
    if matches(path, f"{contents.VARIANTS}/*/lineage.json"):
        return contents.LINEAGE_SCHEMA
    return kind.schema if path == f"{kind.report}.json" else ""


def _editable(manifest: Mapping[str, Any]) -> Iterator[str]:
    default = (manifest.get("defaults") or {}).get("sandbox_editable", False)
    for entry in manifest.get("agents", ()):
        module = str(entry.get("module", ""))
        if entry.get("sandbox_editable", default) is True and re.fullmatch(r"agents(\.\w+)+", module):
            yield module.replace(".", "/") + ".py"


def named_code(manifest: Mapping[str, Any], head: Head) -> Iterator[str]:
    """Files of code that the manifest and its suites name: what loads inputs, weighs, settles, adapts, grades, helps.

    It is trusted, so that no proposal may touch it, not even where it stands in the code of an agent.
    """
    names = [_mapping(manifest.get("outcomes")).get("call")]
    for entry in (manifest.get("defaults") or {}, *manifest.get("agents", ())):
        feed = _mapping(entry.get("inputs"))
        names += [feed.get("call"), feed.get("days"), _mapping(entry.get("signal")).get("call")]
        names += [entry.get("eval_adapter"), _mapping(entry.get("iterate")).get("by")]
        names += entry.get("tools") or ()
        suite = head(str(entry.get("eval_suite") or "")) or b""
        names += [found.decode() for found in _OWN_GRADER.findall(suite)]
        yield from (word for word in str(entry.get("command") or "").split() if _PLAIN_PATH.fullmatch(word))
    for module in {str(name).partition(":")[0] for name in names if name}:
        yield from (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py")


_OWN_GRADER = re.compile(rb'"grader"\s*:\s*"([\w.]+:\w+)"')


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def check_python(change: Change) -> Iterator[str]:
    """Parses, and opens no new way to the network, other processes, files or the interpreter."""
    try:
        written, _ = tokenize.detect_encoding(io.BytesIO(change.after or b"").readline)
        if written != "utf-8":
            yield f"is written in {written}: a person would read another text than Python runs"
        after = outward(change.after or b"")
    except (SyntaxError, ValueError, RecursionError) as error:
        yield f"is not Python: {error}"
        return
    for name in sorted(after - outward(change.before or b"")):
        yield f"newly uses {name}: no new way to the network, processes, files or the interpreter"
