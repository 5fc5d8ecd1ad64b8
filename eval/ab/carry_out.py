"""Carries out what an A/B night or a back-test decided, whole or not at all.

Report, decisions, champions and live prompts are several files. What is to be written is first put on record in one
file outside the tree; a run that is killed while writing is finished by the next one, from that record.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agents.manifest import load_manifest
from agents.manifest.edit import edited, move
from agents.texts import variants
from agents.texts.variants import Variants
from eval.ab.record import Arm, Report, Test
from eval.ledger.decisions import Decision, prepared
from eval.ledger.provenance import add_once
from eval.ledger.report import Form
from telemetry import logger
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, SCRATCH, Repo, write_atomic, write_json
from telemetry.edge.records import load_json, plain

R = TypeVar("R")

# What a decision keeps of the winning arm; the rest is in the report that it names by hash.
_VERDICT = (
    *("variant", "pair", "verdict", "effect", "ci_low", "ci_high", "confidence", "alpha", "e_value"),
    *("families", "family_low", "family_high", "bill"),
    *("wins", "ties", "losses", "cases_used", "cases_available", "guardrails", "lineage"),
)


def pending(form: Form[Any]) -> Path:
    """Where a run that makes such reports keeps what it is about to write."""
    return SCRATCH / f"{form.path.stem}.pending.json"


def carry_out(
    repo: Repo,
    form: Form[R],
    report: R,
    decided: Iterable[Decision],
    texts: Mapping[str, str],
    remembered: Mapping[str, Any] | None = None,
) -> None:
    """Write the report, the decisions that stand on it, the new text of each prompt that they change, the history."""
    files = form.files(report)
    digest = hashlib.sha256(files[form.path].encode()).hexdigest()
    todo = {
        "report": files[form.path],
        "body": files[form.markdown],
        "decisions": [plain(replace(one, report_sha256=digest)) for one in decided],
        "texts": dict(texts),
        "history": None if remembered is None else logger.encode(remembered).decode(),
    }
    write_json(repo / pending(form), todo)
    _apply(repo, form, todo)


def finish_pending(repo: Repo, form: Form[R]) -> R | None:
    """Complete what a killed run had decided; its report, or None if there was nothing to complete."""
    file = repo / pending(form)
    try:
        todo = load_json(file.read_bytes())
        report = form.parsed(todo["report"])
        texts = {str(prompt): variants.checked_text(text, prompt) for prompt, text in todo["texts"].items()}
        fits = all(_still_fits(repo, plain(Decision(**one)), texts) for one in todo["decisions"])
        if not isinstance(todo["body"], str) or not isinstance(todo["history"], str | None):
            raise TypeError("body or history is of another kind")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise BadInput(f"{pending(form)}: cannot be read ({problem}); remove it to start afresh") from None
    if not fits:
        file.unlink()  # somebody has changed the prompt since: what was decided about the old one is void
        return None
    _apply(repo, form, todo)
    return report


def _apply(repo: Repo, form: Form[Any], todo: Mapping[str, Any]) -> None:
    """Everything is first written outside the tree, then moved into place: the tree changes within an instant."""
    decisions = [Decision(**decision) for decision in todo["decisions"]]
    files = {form.path: todo["report"], form.markdown: todo["body"]}
    files |= dict(prepared(repo, decision) for decision in decisions)
    if moves := [one.verdict for one in decisions if one.kind == "ab_model"]:
        files[MANIFEST] = edited((repo / MANIFEST).read_text(encoding="utf-8"), partial(_move, moves=moves))
    for prompt, text in todo["texts"].items():
        variants.checked_text(text, prompt)
        texts = Variants(repo, prompt)
        files |= {texts.file(variants.CHAMPION): text, texts.live: text}
    staged = []
    for number, (path, text) in enumerate(files.items()):
        waiting = repo / SCRATCH / f"{form.path.stem}.staged" / str(number)
        write_atomic(waiting, text)
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        staged.append((waiting, repo / path))
    for waiting, place in staged:
        waiting.replace(place)
    if todo["history"]:
        add_once(repo, todo["history"])
    (repo / pending(form)).unlink(missing_ok=True)


def _move(manifest: Any, moves: Sequence[Mapping[str, Any]]) -> None:
    for verdict in moves:
        move(manifest, verdict["agents"], verdict["model"])


def _still_fits(repo: Repo, decision: Mapping[str, Any], texts: Mapping[str, str]) -> bool:
    verdict = decision["verdict"]
    if decision["kind"] == "ab_model":
        asked = {spec.name: spec.model for spec in load_manifest(repo).agents}
        known = (None, verdict["model_before"], verdict["model"])
        if not all(asked.get(name, "") in known for name in verdict["agents"]):
            return False
        if "prompt" not in verdict:
            return True
    prompt = verdict["prompt"]
    expected = {decision["before_sha256"], decision["after_sha256"]}
    if prompt not in texts:
        return False
    compete = Variants(repo, prompt)
    files = (compete.live, compete.file(variants.CHAMPION))
    present = [file for name in files if (file := repo / name).exists()]
    return all(hashlib.sha256(file.read_bytes()).hexdigest() in expected for file in present)


def promotion(test: Test, arm: Arm, report: Report) -> Decision:
    """The decision to promote an arm; the hash of its report comes with the report."""
    changed: dict[str, Any] = {"prompt": test.prompt}
    if test.model:
        about = {"model_before": test.model, "model": arm.model}
        changed = {**about, "agents": test.agents, "margin": test.margin}
        changed |= {"prompt": test.prompt} if test.prompt else {}
    return Decision(
        decision="promote",
        kind="ab_model" if test.model else "ab_champion",
        subject=re.sub(r"[^A-Za-z0-9_-]", "-", arm.model)[:64] if test.model else test.stem,
        date=report.generated_at[:10],
        before_sha256=test.champion_sha256,
        after_sha256=arm.sha256,
        report_sha256=None,
        verdict=changed | {name: plain(getattr(arm, name)) for name in _VERDICT},
        metadata=report.metadata,
    )
