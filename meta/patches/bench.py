"""Takes recommendations from text to verdict, one at a time, until a patch holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from agents.base import AgentError
from agents.manifest import Manifest
from agents.model.call import LLMError, Model
from eval.grading.suite import load_suite
from meta.patches import recommendations, trial
from meta.patches.recommendations import Recommendation, code_of
from meta.patches.report import NotTried, not_tried
from meta.patches.trial import DECLINED, PASSED, REJECTED, Attempt, Commands, Sandbox
from meta.patches.writer import Written, write_patch
from meta.publish import judge
from telemetry import logger
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.git import git

MAX_TRIES = 3  # recommendations per run: each costs a full test run
MAX_ANSWERS = 2  # per recommendation: a patch that was refused may be mended once


@dataclass(frozen=True, slots=True)
class Tried:
    """One recommendation, what was written for it, and what became of that."""

    recommendation: Recommendation
    attempt: Attempt
    written: Written


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of the sandbox came to."""

    tried: tuple[Tried, ...]
    set_aside: tuple[NotTried, ...]
    stopped: str  # why it ended early, if it did
    suites: Mapping[str, str]  # path -> SHA-256 of those that graded


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

    async def all(self, given: Sequence[Recommendation], triage: bool) -> Done:
        """Sort out, then try until a patch holds; an outage or the end of the budget keeps what was done."""
        fit, aside = recommendations.aimed(given, self.manifest)
        tried: list[Tried] = []
        stopped = ""
        try:
            if triage and fit:
                fit, more = await recommendations.triaged(self.repo, fit, self.manifest, self.model)
                aside += more
            self._must_be_clean(fit)
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
        suites = {str(one.suite.path): one.suite.sha256 for one in self._sandboxes.values()}
        return Done(tuple(tried), tuple(aside), stopped, suites)

    def _must_be_clean(self, fit: Sequence[Recommendation]) -> None:
        """A patch is made and judged against HEAD, so the file it is for must be as it is there."""
        for path in sorted({code_of(self.manifest.agent(one.agent)) for one in fit}):
            if git(self.repo.root, "status", "--porcelain", "--", path).strip():
                raise BadInput(f"{path}: has uncommitted changes; commit or undo them first")

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

    async def _asked(
        self, one: Recommendation, sandbox: Sandbox, refused: Sequence[str]
    ) -> tuple[Written, str]:
        """The answer, or why it is none."""
        source = (judge.Head(sandbox.root)(sandbox.path) or b"").decode()
        try:
            return await write_patch(self.model, one, sandbox.path, source, refused), ""
        except LLMError as error:
            if error.error_kind != "parse":
                raise
            return Written(), f"the answer was no patch: {str(error)[:300]}"

    def _sandbox(self, agent: str) -> Sandbox:
        if agent not in self._sandboxes:
            spec = self.manifest.agent(agent)
            suite, run = load_suite(self.repo, spec.eval_suite), self.commands or trial.commands()
            self._sandboxes[agent] = Sandbox(
                self.repo.root.resolve(), agent, code_of(spec), suite, self.time_limit_s, self.seed, run
            )
        return self._sandboxes[agent]


def _log(one: Recommendation, attempt: Attempt, written: Written) -> None:
    """The verdict on a patch as a row; what asking cost stands on the meta agent's `run` row."""
    scores = attempt.scores
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
        **({} if attempt.metrics is None else asdict(attempt.metrics)),
    )
