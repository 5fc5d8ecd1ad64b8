"""Does a change agree with itself? Its body with its report, its decisions with its report, its files with each other.

A schema says that a report is well formed, a hash that a decision names it. That is not enough: an honest report may
come with another text and a decision to match. Here the body is rendered again, every figure of a decision is looked up
in the report, and what the change leaves is loaded as the next night would load it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from agents.manifest import load_manifest
from agents.texts.variants import Variants
from eval.grading.suite import load_suite
from meta.publish.boundaries import Problem
from meta.publish.contents import DECISIONS, VARIANTS, Change, Decision, Head, arms
from meta.publish.kinds import Kind
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.records import load_json, made

if TYPE_CHECKING:
    from eval.ledger.report import Form

PROMPTS = "agents/prompts"
LINEAGE = "lineage.json"
Row = Mapping[str, Any]


def rendered(kind: Kind, report: bytes, repo: Repo) -> str:
    """The text of the pull request, made from its report by the code that runs here."""
    module, _, name = kind.form.partition(":")
    found: Any = getattr(import_module(module), name)
    form: Form[Any] = found(repo) if callable(found) else found
    return form.body(made(form.record, load_json(report)))


def check_body(kind: Kind, after: Head, repo: Repo) -> Iterator[Problem]:
    """The report's Markdown is what its JSON gives, to the letter: nobody else writes into a pull request."""
    report, text = after(f"{kind.report}.json"), after(f"{kind.report}.md")
    if report is None:
        yield Problem(f"{kind.report}.json", "is missing, so there is nothing to tell")
        return
    try:
        right = rendered(kind, report, repo).encode()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        said = " ".join(str(problem).split())[:200]
        yield Problem(f"{kind.report}.json", f"cannot be told: {type(problem).__name__}: {said}")
        return
    if text != right:
        yield Problem(f"{kind.report}.md", "is not the text that its report gives")


def check_decisions(changes: Sequence[Change], kind: Kind, after: Head, head: Head) -> Iterator[Problem]:
    """Every decision says what its report says; what it promotes was tested, against the champion of HEAD."""
    report = load_json(after(f"{kind.report}.json") or b"{}")
    for change in changes:
        if change.path.startswith(DECISIONS):
            for why in _disagreements(load_json(change.after or b"{}"), report, head):
                yield Problem(change.path, why)


def _disagreements(decision: Decision, report: Row, head: Head) -> Iterator[str]:
    act, subject, verdict = decision["decision"], decision["subject"], decision["verdict"]
    found: Row | None = None
    if act == "promote":
        found = _arm(report, decision)
    elif act == "demote":
        tests = (row for row in report["tests"] if row["verdict"] == "demote" and _stem(row) == subject)
        found = next((row for row in tests if row["replaced_sha256"] == decision["after_sha256"]), None)
    elif act in ("disable", "revive"):
        named = report["disabled"] if act == "disable" else report.get("revived", ())
        rows = [row for row in report["agents"] if row["agent"] == subject and subject in named]
        found = {**report["rule"], **rows[0]} if rows else None
    elif act == "propose":
        tried = (row for row in report.get("attempts", ()) if row["agent"] == subject)
        found = next((row for row in tried if row["verdict"] == verdict.get("verdict")), None)
    if found is None:
        yield f"decides to {act} what its report does not"
        return
    other = sorted(name for name in verdict.keys() & found.keys() if verdict[name] != found[name])
    if other:
        yield f"says otherwise than its report: {', '.join(other)}"
    if act == "promote" and found["verdict"] != "promote":
        yield f"promotes what its report calls {found['verdict']!r}"
    if act == "promote" and decision["before_sha256"] != found["champion_sha256"]:
        yield "names another champion than its report"
    if act in ("promote", "demote") and decision["kind"] != "ab_model":
        live = head(f"{PROMPTS}/{subject}.md")
        if decision["before_sha256"] != hashlib.sha256(live or b"").hexdigest():
            yield "was tested against another text than the champion of today"


def _arm(report: Row, decision: Decision) -> Row | None:
    """The promoted arm with that text or model, and what it was tested against."""
    for test, arm in arms(report):
        of = re.sub(r"[^A-Za-z0-9_-]", "-", arm["model"])[:64] if test.get("model") else _stem(test)
        named = of == decision["subject"] and arm["sha256"] == decision["after_sha256"]
        if named and arm["promoted"] and test["promoted"]:
            about = ("prompt", "champion_sha256", "agents", "margin")
            told = {name: test[name] for name in about if name in test}
            return {**arm, **told, "model_before": test.get("model")}
    return None


def _stem(row: Row) -> str:
    return PurePosixPath(row["prompt"]).stem


def _origins(text: bytes | None) -> list[Row]:
    """The rows of a lineage, without what they leave open: older files do not name every field."""
    rows = load_json(text or b"[]")
    return [{name: value for name, value in row.items() if value not in (None, "")} for row in rows]


def check_lineage(changes: Iterable[Change], head: Head) -> Iterator[Problem]:
    """Where a text came from is added, never rewritten; only a person says that a text is a person's."""
    for change in changes:
        path = PurePosixPath(change.path)
        if path.name != LINEAGE or str(path.parent.parent) != VARIANTS:
            continue
        rows, known = (_origins(text) for text in (change.after, change.before))
        live = hashlib.sha256(head(f"{PROMPTS}/{path.parent.name}.md") or b"").hexdigest()
        if any(row not in rows for row in known):
            yield Problem(change.path, "forgets or rewrites where a text came from")
        for row in rows:
            own = row["source"] == "proposal" or (row["source"] == "live" and row["sha256"] == live)
            if row not in known and not own:
                yield Problem(change.path, f"says that {row['variant']!r} came from {row['source']!r}")


def loads(tree: Path, paths: Sequence[str]) -> str:
    """What keeps a tree from being loaded, as far as these paths may have to do with it; empty if nothing does."""
    repo = Repo(tree)
    try:
        manifest = load_manifest(repo)
        for prompt in manifest.prompts:
            texts = Variants(repo, prompt)
            if any(path == prompt or path.startswith(f"{texts.folder}/") for path in paths):
                texts.champion()
                texts.lineage()
                if broken := texts.every()[1]:
                    return next(iter(broken.values()))
        if any(path.startswith("eval/suites/") for path in paths):
            for suite in sorted({spec.eval_suite for spec in manifest.agents if spec.eval_suite}):
                load_suite(repo, suite)
    except (BadInput, OSError) as problem:
        return str(problem).replace(f"{tree}/", "")
    return ""
