"""Runs the sandbox and writes down what it came to: the patch that passed, left in the tree, its decision, the report.

Everything that a model or a confined command said is cut and cleaned on the way.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from eval.ledger.decisions import Decision, write_decision
from eval.ledger.provenance import GitState, Seen, replay_metadata
from meta.patches.bench import Bench, Done, Tried
from meta.patches.confine import probe
from meta.patches.recommendations import Recommendation
from meta.patches.report import FORM, TEXT_CHARS, Report, Row, kept
from meta.patches.trial import PASSED
from meta.publish import judge
from telemetry import logger
from telemetry.edge.files import Repo
from telemetry.edge.text import clean, redact

VERSION = 1
PATCH_CHARS = 30_000  # kept of a patch


def run(bench: Bench, given: Sequence[Recommendation], *, triage: bool) -> Report:
    """Try recommendations until a patch holds; leave it in the tree, with its decision and the report, returned."""
    repo, git_state = bench.repo, GitState(bench.repo)
    with logger.source("critique"):
        done = asyncio.run(bench.all(given, triage))
    winner = next((one for one in done.tried if one.attempt.verdict == PASSED), None)
    report = Report(
        version=VERSION,
        patched=winner is not None,
        stopped=kept(done.stopped) or None,
        time_limit_s=bench.time_limit_s,
        walls=probe(),
        evals_by="offline",
        attempts=tuple(map(_row, done.tried)),
        set_aside=done.set_aside[:100],
        metadata=_metadata(done, git_state, bench.seed),
    )
    FORM.files(report)  # a report that breaks its schema leaves no patch either
    if winner is not None:
        root = repo.root.resolve()
        judge.apply_patch(judge.check_patch(winner.attempt.patch.encode(), "sandbox", root), root)
    FORM.write(repo, report)
    if winner is not None:
        _decide(repo, winner, report.metadata)
    return report


def _metadata(done: Done, git_state: GitState, seed: int) -> dict[str, Any]:
    models = tuple(sorted({one.written.model for one in done.tried if one.written.model}))
    providers = tuple(sorted({one.written.provider for one in done.tried if one.written.provider}))
    seen = Seen((), models, providers, (), ())
    return replay_metadata(git_state, suites=done.suites, prompts={}, seen=seen, seed=seed)


def _row(one: Tried) -> Row:
    attempt, written = one.attempt, one.written
    return Row(
        *one.recommendation.kept,
        verdict=attempt.verdict,
        reasons=tuple(map(kept, attempt.reasons[:10])),
        said=None if written.why is None else kept(written.why),
        model=written.model,
        provider=written.provider,
        patch=redact(clean(attempt.patch))[:PATCH_CHARS],
        patch_truncated=len(attempt.patch) > PATCH_CHARS,
        patch_sha256=_sha256(attempt.patch.encode(errors="replace") or None),
        files=tuple(kept(change.path)[:200] for change in attempt.changes[:20]),
        metrics=attempt.metrics,
        checks=tuple(
            replace(check, said=redact(clean(check.said))[-TEXT_CHARS:]) for check in attempt.checks
        ),
        scores=attempt.scores,
    )


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
