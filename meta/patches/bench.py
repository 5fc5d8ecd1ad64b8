"""Takes recommendations from text to verdict, one at a time, until a patch holds; that one is left in the tree.

Everything that a model or a confined command said is cut and cleaned on its way into the report.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from agents.base import AgentError
from agents.manifest import Manifest
from agents.model.call import LLMError, Model
from eval.grading.suite import load_suite
from eval.ledger.decisions import Decision, write_decision
from eval.ledger.provenance import GitState, Seen, replay_metadata
from meta.patches import confine, recommendations, trial
from meta.patches.recommendations import Recommendation, Written, code_of, write_patch
from meta.patches.report import FORM, TEXT_CHARS, NotTried, Report, Row, kept, not_tried
from meta.patches.trial import DECLINED, PASSED, REJECTED, Attempt, Commands, Sandbox
from meta.publish import judge
from telemetry import logger
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.git import git
from telemetry.edge.text import clean, redact

VERSION = 1
PATCH_CHARS = 30_000  # kept of a patch
MAX_TRIES = 3  # recommendations per run: each costs a full test run
MAX_ANSWERS = 2  # per recommendation: a patch that was refused may be mended once


@frozen
class Tried:
    """One recommendation, what was written for it, and what became of that."""

    recommendation: Recommendation
    attempt: Attempt
    written: Written


@dataclass(slots=True)
class Bench:
    """Where patches are asked for and tried."""

    repo: Repo
    manifest: Manifest
    model: Model
    time_limit_s: float  # of each command
    seed: int = 0
    commands: Commands | None = None  # default: those of continuous integration
    say: Callable[[str], None] = lambda _: None
    _sandboxes: dict[str, Sandbox] = field(default_factory=dict)

    def run(self, given: Sequence[Recommendation], *, triage: bool) -> Report:
        """Try until a patch holds; leave it in the tree, with its decision and the report, which is returned."""
        git_state = GitState(self.repo)
        with logger.source("critique"):
            tried, aside, stopped = asyncio.run(self._all(given, triage))
        winner = next((one for one in tried if one.attempt.verdict == PASSED), None)
        report = Report(
            version=VERSION,
            patched=winner is not None,
            stopped=kept(stopped) or None,
            time_limit_s=self.time_limit_s,
            walls=confine.probe(),
            evals_by="offline",
            attempts=tuple(map(_row, tried)),
            set_aside=tuple(aside[:100]),
            metadata=self._metadata([one.written for one in tried], git_state),
        )
        FORM.files(report)  # a report that breaks its schema leaves no patch either
        if winner is not None:
            root = self.repo.root.resolve()
            judge.apply_patch(judge.check_patch(winner.attempt.patch.encode(), "sandbox", root), root)
        FORM.write(self.repo, report)
        if winner is not None:
            _decide(self.repo, winner, report.metadata)
        return report

    def _metadata(self, answers: Sequence[Written], git_state: GitState) -> dict[str, Any]:
        models = tuple(sorted({answer.model for answer in answers if answer.model}))
        providers = tuple(sorted({answer.provider for answer in answers if answer.provider}))
        seen = Seen((), models, providers, (), ())
        suites = {str(one.suite.path): one.suite.sha256 for one in self._sandboxes.values()}
        return replay_metadata(git_state, suites=suites, prompts={}, seen=seen, seed=self.seed)

    async def _all(
        self, given: Sequence[Recommendation], triage: bool
    ) -> tuple[list[Tried], list[NotTried], str]:
        """Sort out, then try; an outage or the end of the budget keeps what was done, and is told."""
        fit, aside = recommendations.aimed(given, self.manifest)
        tried: list[Tried] = []
        stopped = ""
        try:
            if triage and fit:
                fit, more = await recommendations.triaged(self.repo, fit, self.manifest, self.model)
                aside += more
            # A patch is made and judged against HEAD, so the file it is for must be as it is there.
            for path in sorted({code_of(self.manifest.agent(one.agent)) for one in fit}):
                if git(self.repo.root, "status", "--porcelain", "--", path).strip():
                    raise BadInput(f"{path}: has uncommitted changes; commit or undo them first")
            for one in fit[:MAX_TRIES]:
                tried.append(await self._tried(one))
                if tried[-1].attempt.verdict == PASSED:
                    break
        except (LLMError, AgentError, TimeoutError) as problem:
            stopped = str(problem)
        finally:
            await self.model.aclose()
        why = "not tried: stopped early" if stopped else "not tried: one patch, and few tries, at a time"
        aside += [not_tried(one, why) for one in fit[len(tried) :]]
        return tried, aside, stopped

    async def _tried(self, one: Recommendation) -> Tried:
        """Ask for a patch and try it; a refused one may be mended once."""
        sandbox = self._sandbox(one.agent)
        self.say(f"{one.agent}: asking for a patch: {' '.join(one.change.split())[:100]}")
        attempt, written = Attempt(DECLINED), Written()
        for _ in range(MAX_ANSWERS):
            answer, problem = await self._asked(one, sandbox, attempt.reasons)
            if written.diff and answer.diff in ("", written.diff):
                break  # the earlier refusal stands
            written = answer
            if not answer.diff:  # nothing to try at all
                attempt = Attempt(REJECTED, (problem,)) if problem else Attempt(DECLINED, (str(answer.why),))
                break
            attempt = sandbox.try_patch(answer.diff)
            self.say(f"{one.agent}: {attempt.verdict} {'; '.join(attempt.reasons)[:300]}".rstrip())
            if attempt.verdict != REJECTED:
                break
        _log(one, attempt, written)
        return Tried(one, attempt, written)

    async def _asked(self, one: Recommendation, by: Sandbox, refused: Sequence[str]) -> tuple[Written, str]:
        source = (judge.Head(by.root)(by.path) or b"").decode()
        try:
            return await write_patch(self.model, one, by.path, source, refused), ""
        except LLMError as error:
            if error.error_kind != "parse":
                raise
            return Written(), f"the answer was no patch: {str(error)[:300]}"

    def _sandbox(self, agent: str) -> Sandbox:
        if agent not in self._sandboxes:
            spec, root = self.manifest.agent(agent), self.repo.root.resolve()
            suite, run = load_suite(self.repo, spec.eval_suite), self.commands or trial.commands()
            made = Sandbox(root, agent, code_of(spec), suite, self.time_limit_s, self.seed, run)
            self._sandboxes[agent] = made
        return self._sandboxes[agent]


def _log(one: Recommendation, attempt: Attempt, written: Written) -> None:
    """The verdict on a patch as a row; what asking cost stands on the meta agent's `run` row."""
    scores, metrics = attempt.scores, None if attempt.metrics is None else asdict(attempt.metrics)
    logger.log_event(
        one.agent,
        logger.new_run_id(),
        round(1000 * sum(check.seconds for check in attempt.checks), 3),
        kind="evaluation",
        arm="sandbox",
        ok=attempt.verdict == PASSED,
        verdict=attempt.verdict,
        reasons=[reason[:300] for reason in attempt.reasons[:5]],
        score=None if scores is None else scores.after,
        score_before=None if scores is None else scores.before,
        model=written.model,
        provider=written.provider,
        minimal_diff_metrics=metrics,
        **(metrics or {}),
    )


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
        checks=tuple(replace(one, said=redact(clean(one.said))[-TEXT_CHARS:]) for one in attempt.checks),
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
