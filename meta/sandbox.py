"""Can a recommendation be carried out in code? The meta agent writes a patch; only one that holds is left in the tree.

Recommendations come from the last critiques, or from `--recommendation FILE`: {"agent", "change", "why"}. A patch is
tried in a throw-away worktree: guard, lint, that agent's evals, tests, each with a time limit, no secret in its
environment and no network where the platform allows. The first one that passes and is not worse stays applied, with
`meta/reports/sandbox_report.{json,md}` as the text of its draft pull request; each rejection says why.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.llm_client import add_model_flags, model_options
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.github import job_summary, set_output
from telemetry.edge.repo import Repo

if TYPE_CHECKING:
    from agents.manifest import Manifest
    from agents.model.call import Model
    from meta.patches.recommendations import Recommendation
    from meta.patches.report import Done, Tried
    from meta.patches.trial import Attempt, Commands, Sandbox
    from meta.patches.writer import Written

TIME_LIMIT_S = 900.0  # of each command; the whole test suite takes minutes on two cores
MAX_TRIES = 3  # recommendations per run: each costs a full test run
MAX_ANSWERS = 2  # per recommendation: a patch that was refused may be mended once

Say = Callable[[str], None]


def parser() -> cli.Parser:
    """The command line."""
    made = cli.Parser(__doc__, prog="python -m meta.sandbox")
    add = made.add_argument
    add(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="only patches for this agent (repeatable)",
    )
    add("--recommendation", type=Path, metavar="FILE", help="carry out this one instead of the critiques'")
    add(
        "--time-limit",
        type=cli.number(),
        default=TIME_LIMIT_S,
        metavar="S",
        help="of each command (default: 900)",
    )
    add_model_flags(made, seed="of the evals and of the offline noise", without=["--concurrency"])
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Read, try, leave what holds, tell."""
    from agents.manifest import load_manifest
    from meta.offline import analysts
    from meta.patches import recommendations

    manifest = load_manifest(repo)
    for name in args.agent:
        if not manifest.agent(name).sandbox_editable:
            raise BadInput(f"--agent {name}: agents/manifest.yaml does not say sandbox_editable: true")
    given = recommendations.read(repo, args.recommendation)
    done = run(
        repo,
        given,
        manifest,
        model_options(args)
        .within(manifest.budget)
        .model([manifest.agent("meta_agent").model], analysts(manifest)),
        only=args.agent,
        triage=args.recommendation is None,
        time_limit_s=args.time_limit,
        seed=args.seed,
        say=None if args.quiet or args.json else lambda line: print(line, file=sys.stderr),
    )
    return _told(repo, done, args)


def run(
    repo: Repo,
    given: Sequence[Recommendation],
    manifest: Manifest,
    model: Model,
    *,
    only: Sequence[str] = (),
    triage: bool = True,
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
    commands: Commands | None = None,
    say: Say | None = None,
) -> dict[str, Any]:
    """Try recommendations until a patch holds, leave it in the tree, and write the report, which is returned."""
    import asyncio

    from eval.ledger.provenance import GitState
    from meta.patches import report as sandbox_report
    from telemetry import logger

    git_state = GitState(repo)
    bench = _Bench(repo, manifest, model, time_limit_s, seed, commands, say or (lambda _: None))
    with logger.source("critique"):
        done = asyncio.run(bench.all(given, only, triage))
    return sandbox_report.write(repo, done, git_state, time_limit_s=time_limit_s, seed=seed)


class _Bench:
    """Takes one recommendation at a time from text to verdict."""

    def __init__(
        self,
        repo: Repo,
        manifest: Manifest,
        model: Model,
        time_limit_s: float,
        seed: int,
        commands: Commands | None,
        say: Say,
    ) -> None:
        self._repo, self._manifest, self._model, self._say = repo, manifest, model, say
        self._limit, self._seed, self._commands = time_limit_s, seed, commands
        self._sandboxes: dict[str, Sandbox] = {}

    async def all(self, given: Sequence[Recommendation], only: Sequence[str], triage: bool) -> Done:
        """Sort out, then try until a patch holds; an outage or the end of the budget keeps what was done."""
        from agents.base import AgentError
        from agents.model.call import LLMError
        from meta.patches import recommendations
        from meta.patches.report import Done

        fit, aside = recommendations.aimed(given, self._manifest, only)
        tried: list[Tried] = []
        stopped = ""
        try:
            if triage and fit:
                fit, more = await recommendations.triaged(self._repo, fit, self._manifest, self._model)
                aside += more
            _clean(self._repo, fit, self._manifest)
            for one in fit[:MAX_TRIES]:
                tried.append(await self.tried(one))
                if tried[-1].attempt.verdict == "passed":
                    break
        except (LLMError, AgentError, TimeoutError) as problem:
            stopped = str(problem)
        finally:
            await self._model.aclose()
        why = "not tried: stopped early" if stopped else "not tried: one patch, and few tries, at a time"
        aside += [recommendations.SetAside(one, why) for one in fit[len(tried) :]]
        suites = {str(one.suite.path): one.suite.sha256 for one in self._sandboxes.values()}
        return Done(tuple(tried), tuple(aside), stopped, suites)

    async def tried(self, one: Recommendation) -> Tried:
        """Ask for a patch and try it; a refused one may be mended once."""
        from meta.patches import trial as patch_trial
        from meta.patches.report import Tried

        sandbox = self._sandbox(one.agent)
        self._say(f"{one.agent}: asking for a patch: {' '.join(one.change.split())[:100]}")
        attempt, written = patch_trial.Attempt(patch_trial.DECLINED), None
        for _ in range(MAX_ANSWERS):
            answer, problem = await self._asked(one, sandbox, attempt.reasons)
            if answer is None or not answer.diff or (written is not None and answer.diff == written.diff):
                if written is None:  # nothing to try at all; else the earlier refusal stands
                    verdict = patch_trial.REJECTED if answer is None else patch_trial.DECLINED
                    attempt = patch_trial.Attempt(verdict, (problem if answer is None else answer.why,))
                    written = answer
                break
            written, attempt = answer, self._tried(sandbox, answer.diff)
            self._say(f"{one.agent}: {attempt.verdict} {'; '.join(attempt.reasons)[:300]}".rstrip())
            if attempt.verdict != patch_trial.REJECTED:
                break
        self._log(one, attempt, written)
        return Tried(one, attempt, written)

    async def _asked(
        self, one: Recommendation, sandbox: Sandbox, refused: Sequence[str]
    ) -> tuple[Written | None, str]:
        from agents.model.call import LLMError
        from meta.patches.writer import write_patch
        from meta.publish import judge

        source = (judge.Head(sandbox.root)(sandbox.path) or b"").decode()
        try:
            return await write_patch(self._model, one, sandbox.path, source, refused), ""
        except LLMError as error:
            if error.error_kind != "parse":
                raise
            return None, f"the answer was no patch: {str(error)[:300]}"

    def _tried(self, sandbox: Sandbox, diff: str) -> Attempt:
        from meta.patches import trial as patch_trial
        from meta.patches.writer import MAX_DIFF_CHARS

        if len(diff) > MAX_DIFF_CHARS:
            why = f"the diff has {len(diff):,} characters, at most {MAX_DIFF_CHARS:,} are taken"
            return patch_trial.Attempt(patch_trial.REJECTED, (why,), diff[:1000])
        return sandbox.try_patch(diff)

    def _sandbox(self, agent: str) -> Sandbox:
        from eval.grading.suite import load_suite
        from meta.patches import trial as patch_trial
        from meta.patches.recommendations import code_of

        if agent not in self._sandboxes:
            spec = self._manifest.agent(agent)
            self._sandboxes[agent] = patch_trial.Sandbox(
                self._repo.root.resolve(),
                agent,
                code_of(spec),
                load_suite(self._repo, spec.eval_suite),
                self._limit,
                self._seed,
                self._commands or patch_trial.commands(),
            )
        return self._sandboxes[agent]

    def _log(self, one: Recommendation, attempt: Attempt, written: Written | None) -> None:
        """The verdict on a patch as a row; what asking cost stands on the meta agent's `run` row."""
        from dataclasses import asdict

        from telemetry import logger

        scores = attempt.scores
        logger.log_event(
            one.agent,
            logger.new_run_id(),
            round(1000 * sum(check.seconds for check in attempt.checks), 3),
            kind="evaluation",
            arm="sandbox",
            ok=attempt.verdict == "passed",
            verdict=attempt.verdict,
            reasons=[reason[:300] for reason in attempt.reasons[:5]],
            score=None if scores is None else scores.after,
            score_before=None if scores is None else scores.before,
            model=None if written is None else written.model,
            provider=None if written is None else written.provider,
            **({} if attempt.metrics is None else asdict(attempt.metrics)),
        )


def _clean(repo: Repo, fit: Sequence[Recommendation], manifest: Manifest) -> None:
    """A patch is made and judged against HEAD, so the file it is for must be as it is there."""
    from meta.patches.recommendations import code_of
    from telemetry.edge.git import git

    for path in sorted({code_of(manifest.agent(one.agent)) for one in fit}):
        if git(repo.root, "status", "--porcelain", "--", path).strip():
            raise BadInput(f"{path}: has uncommitted changes; commit or undo them first")


def _told(repo: Repo, report: dict[str, Any], args: argparse.Namespace) -> int:
    from meta.patches.report import sentence

    set_output("patched", "true" if report["patched"] else "false")
    job_summary((repo / "meta/reports/sandbox_report.md").read_text(encoding="utf-8"))
    if args.json:
        print(json.dumps(report, sort_keys=True))
    elif not args.quiet:
        print(sentence(report))
        for row in report["attempts"]:
            print(f"  {row['agent']}: {row['verdict']}{''.join(f'; {why}' for why in row['reasons'])}")
        for row in report["set_aside"]:
            print(f"  {row['agent']}: not tried: {row['reason']}")
    if report["stopped"]:
        print(f"stopped early: {report['stopped']}", file=sys.stderr)
        return cli.STOPPED
    if not report["patched"] and any(row["verdict"] == "inconclusive" for row in report["attempts"]):
        print("inconclusive: a check fails without any patch, too", file=sys.stderr)
        return cli.STOPPED
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
