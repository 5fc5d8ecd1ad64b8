"""Carries out what an A/B night decided, whole or not at all.

Report, decisions, champions and live prompts are several files. What is to be written is first put on record in one
file outside the tree; a run that is killed while writing is finished by the next one, from that record.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from agents.texts import variants
from agents.texts.variants import Variants
from eval.ab.body import body
from eval.ledger.decisions import Decision, prepared
from eval.trials.journal import FOLDER
from telemetry.edge.errors import BadInput, Stopped
from telemetry.edge.files import as_json, write_atomic, write_json
from telemetry.edge.repo import REPORTS, Repo

REPORT = REPORTS / "ab_test_report.json"
BODY = REPORT.with_suffix(".md")
PENDING = FOLDER / "ab_test.pending.json"
STAGED = FOLDER / "ab_test.staged"

# What a decision keeps of the winning arm; the rest is in the report that it names by hash.
_VERDICT = (
    *("variant", "pair", "verdict", "effect", "ci_low", "ci_high", "confidence", "alpha", "e_value"),
    *("wins", "ties", "losses", "cases_used", "cases_available", "guardrails", "lineage"),
)


@contextmanager
def only_one(repo: Repo, name: str = "ab_test") -> Iterator[None]:
    """Refuses a second run in the same checkout; the lock ends with the process, however it ends."""
    path = repo / FOLDER / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip()
            raise Stopped(
                f"another A/B run is at work in this checkout (process {holder}); wait for it to end"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def carry_out(repo: Repo, report: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """Write the report, and for every promoted prompt its decision and its new text."""
    written = as_json(report)
    digest = hashlib.sha256(written.encode()).hexdigest()
    decided = [
        asdict(_decision(test, arm, report, digest))
        for test in report["tests"]
        for arm in test["arms"]
        if arm["promoted"]
    ]
    todo = {"report": written, "body": body(report), "decisions": decided, "texts": dict(texts)}
    write_json(repo / PENDING, todo)
    _apply(repo, todo)


def finish_pending(repo: Repo) -> dict[str, Any] | None:
    """Complete what a killed run had decided; its report, or None if there was nothing to complete."""
    file = repo / PENDING
    try:
        todo = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise BadInput(f"{PENDING}: cannot be read ({problem}); remove it to start afresh") from None
    if not all(_still_fits(repo, decision, todo["texts"]) for decision in todo["decisions"]):
        file.unlink()  # somebody has changed the prompt since: what was decided about the old one is void
        return None
    _apply(repo, todo)
    report: dict[str, Any] = json.loads(todo["report"])
    return report


def _apply(repo: Repo, todo: Mapping[str, Any]) -> None:
    """Everything is first written outside the tree, then moved into place: the tree changes within an instant."""
    files = {REPORT: todo["report"], BODY: todo["body"]}
    files |= dict(prepared(repo, Decision(**decision)) for decision in todo["decisions"])
    for prompt, text in todo["texts"].items():
        variants.checked_text(text, prompt)
        texts = Variants(repo, prompt)
        files |= {texts.file(variants.CHAMPION): text, texts.live: text}
    staged = []
    for number, (path, text) in enumerate(files.items()):
        waiting = repo / STAGED / str(number)
        write_atomic(waiting, text)
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        staged.append((waiting, repo / path))
    for waiting, place in staged:
        waiting.replace(place)
    (repo / PENDING).unlink(missing_ok=True)


def _still_fits(repo: Repo, decision: Mapping[str, Any], texts: Mapping[str, str]) -> bool:
    prompt = decision["verdict"]["prompt"]
    expected = {decision["before_sha256"], decision["after_sha256"]}
    if prompt not in texts:
        return False
    compete = Variants(repo, prompt)
    files = (compete.live, compete.file(variants.CHAMPION))
    present = [file for name in files if (file := repo / name).exists()]
    return all(hashlib.sha256(file.read_bytes()).hexdigest() in expected for file in present)


def _decision(
    test: Mapping[str, Any], arm: Mapping[str, Any], report: Mapping[str, Any], digest: str
) -> Decision:
    return Decision(
        decision="promote",
        kind="ab_champion",
        subject=PurePosixPath(test["prompt"]).stem,
        date=report["generated_at"][:10],
        before_sha256=test["champion_sha256"],
        after_sha256=arm["sha256"],
        report_sha256=digest,
        verdict={"prompt": test["prompt"], **{name: arm[name] for name in _VERDICT}},
        metadata=report["metadata"],
    )


def promoted_texts(report: Mapping[str, Any], arms: Sequence[Any]) -> dict[str, str]:
    """Prompt -> new text, for every promoted arm of the report."""
    by_hash = {(arm.variant.prompt, arm.variant.sha256): arm.variant.text for arm in arms}
    return {
        test["prompt"]: by_hash[test["prompt"], arm["sha256"]]
        for test in report["tests"]
        for arm in test["arms"]
        if arm["promoted"]
    }
