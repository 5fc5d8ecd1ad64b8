"""Writes down what the sandbox came to: the patch that passed, left in the tree, its decision, and the report.

Everything that a model or a confined command said is cut and cleaned on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from eval.ledger.decisions import Decision, write_decision
from eval.ledger.provenance import GitState, Seen, replay_metadata
from meta.patches import confine
from meta.patches.recommendations import Recommendation, SetAside
from meta.patches.report import FORM, NotTried, Report, Row, Walls
from meta.patches.trial import PASSED, Attempt
from meta.patches.writer import Written
from meta.publish import judge
from telemetry.edge.files import Repo
from telemetry.edge.text import clean, redact

VERSION = 1
TEXT_CHARS, PATCH_CHARS = 2_000, 30_000  # kept of any foreign text, and of a patch


@dataclass(frozen=True, slots=True)
class Tried:
    """One recommendation, what was written for it, and what became of that."""

    recommendation: Recommendation
    attempt: Attempt
    written: Written | None


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of the sandbox came to."""

    tried: tuple[Tried, ...]
    set_aside: tuple[SetAside, ...]
    stopped: str  # why it ended early, if it did
    suites: Mapping[str, str]  # path -> SHA-256 of those that graded


def write(repo: Repo, done: Done, git_state: GitState, *, time_limit_s: float, seed: int) -> Report:
    """Leave the patch that passed in the tree, with its report and its decision; returns the report."""
    report = _report(done, git_state, time_limit_s, seed)
    FORM.files(report)  # a report that breaks its schema leaves no patch either
    winner = next((one for one in done.tried if one.attempt.verdict == PASSED), None)
    if winner is not None:
        root = repo.root.resolve()
        judge.apply_patch(judge.check_patch(winner.attempt.patch.encode(), "sandbox", root), root)
    FORM.write(repo, report)
    if winner is not None:
        _decide(repo, winner, report.metadata)
    return report


def _report(done: Done, git_state: GitState, time_limit_s: float, seed: int) -> Report:
    answers = [one.written for one in done.tried if one.written is not None]
    models = tuple(sorted({answer.model for answer in answers if answer.model}))
    providers = tuple(sorted({answer.provider for answer in answers if answer.provider}))
    seen = Seen((), models, providers, (), ())
    walls = confine.probe()
    return Report(
        version=VERSION,
        patched=any(one.attempt.verdict == PASSED for one in done.tried),
        stopped=_text(done.stopped) or None,
        time_limit_s=time_limit_s,
        walls=Walls(walls.network, walls.processes, walls.files, walls.told),
        evals_by="offline",
        attempts=tuple(map(_row, done.tried)),
        set_aside=tuple(
            NotTried(*_recommended(one.recommendation), _text(one.why)) for one in done.set_aside[:100]
        ),
        metadata=replay_metadata(git_state, suites=done.suites, prompts={}, seen=seen, seed=seed),
    )


def _row(one: Tried) -> Row:
    attempt, written = one.attempt, one.written
    return Row(
        *_recommended(one.recommendation),
        verdict=attempt.verdict,
        reasons=tuple(map(_text, attempt.reasons[:10])),
        said=None if written is None else _text(written.why),
        model=None if written is None else written.model,
        provider=None if written is None else written.provider,
        patch=_clean(attempt.patch)[:PATCH_CHARS],
        patch_truncated=len(attempt.patch) > PATCH_CHARS,
        patch_sha256=_sha256(attempt.patch.encode(errors="replace") or None),
        files=tuple(_text(change.path)[:200] for change in attempt.changes[:20]),
        metrics=attempt.metrics,
        checks=tuple(replace(check, said=_clean(check.said)[-TEXT_CHARS:]) for check in attempt.checks),
        scores=attempt.scores,
    )


def _recommended(one: Recommendation) -> tuple[str, str, str, str, str]:
    return _text(one.agent)[:100], _text(one.change), _text(one.why), one.priority, _text(one.origin)


def _decide(repo: Repo, winner: Tried, metadata: Mapping[str, Any]) -> None:
    attempt, [change] = winner.attempt, winner.attempt.changes
    assert attempt.scores is not None and attempt.metrics is not None
    write_decision(
        repo,
        Decision(
            decision="propose",
            kind="sandbox",
            subject=winner.recommendation.agent,
            date=metadata["generated_at"][:10],
            before_sha256=_sha256(change.before),
            after_sha256=_sha256(change.after),
            report_sha256=_sha256((repo / FORM.path).read_bytes()),
            verdict={
                "verdict": attempt.verdict,
                "effect": round(attempt.scores.after - attempt.scores.before, 6),
                "cases_used": attempt.scores.cases,
                **asdict(attempt.metrics),
            },
            metadata=metadata,
        ),
    )


def _sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _clean(text: str) -> str:
    return redact(clean(text))


def _text(text: str) -> str:
    return _clean(text)[:TEXT_CHARS]
