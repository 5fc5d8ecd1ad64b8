"""Tries whether a patch holds: it is guarded, then linted, graded and tested in a throw-away worktree, behind walls.

The patched code is never imported here: it runs in confined processes, with the offline model (it gets no key and no
network), and what it answered is graded outside, by the suite and the graders of the trusted tree. Each command meets
a worktree fresh from git, so that one cannot prepare the ground for the next.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval.grading.graders import grade
from eval.grading.suite import Case, Suite
from meta.patches import confine
from meta.patches.size import Metrics, measure
from meta.publish.contents import Change
from meta.publish.judge import canonical, check_patch
from telemetry.edge.git import GitRefused, git

MAX_RESULT_BYTES = 64_000_000
MAX_DIFF_CHARS = 200_000  # the guard's limit of 400 lines stands far below
PASSED, REJECTED, DECLINED, INCONCLUSIVE = "passed", "rejected", "declined", "inconclusive"
_TOLERANCE = 1e-9  # rounding; with the offline model there is no other noise

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Commands:
    """What runs in the worktree; `{agent}` and `{seed}` are filled in."""

    lint: tuple[Command, ...]
    tests: tuple[Command, ...]
    evals: Command


def commands() -> Commands:
    """What continuous integration runs, and the agent's own evals; of this interpreter's environment."""
    python = sys.executable
    tool = Path(python).with_name
    return Commands(
        lint=(
            (str(tool("ruff")), "check", "."),
            (str(tool("ruff")), "format", "--check", "."),
            (python, "-m", "mypy"),
            (str(tool("lint-imports")),),
        ),
        tests=((python, "-m", "pytest", "-n", "auto"),),
        evals=(python, "-m", "eval.harness", "--agent={agent}", "--seed={seed}", "--quiet"),
    )


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked, and how it ended."""

    name: str
    outcome: str  # ok, failed or timed out
    seconds: float
    said: str = ""  # the end of what it said, when it did not pass


@dataclass(frozen=True, slots=True)
class Scores:
    """The agent's cases without and with the patch, graded outside the sandbox."""

    cases: int
    holdout: int
    before: float
    after: float
    holdout_before: float | None
    holdout_after: float | None
    newly_right: tuple[str, ...]
    newly_wrong: tuple[str, ...]

    @property
    def arms(self) -> list[tuple[str, int, float, float]]:
        """All cases, and the unseen ones if there are any: name, count, score before and after."""
        arms = [("all", self.cases, self.before, self.after)]
        if self.holdout_before is not None and self.holdout_after is not None:
            arms.append(("holdout", self.holdout, self.holdout_before, self.holdout_after))
        return arms


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one patch."""

    verdict: str
    reasons: tuple[str, ...] = ()
    patch: str = ""
    changes: tuple[Change, ...] = ()
    metrics: Metrics | None = None
    checks: tuple[Check, ...] = ()
    scores: Scores | None = None


Graded = Mapping[str, tuple[float, bool]]  # case id -> score, passed


@dataclass(slots=True)
class Sandbox:
    """Where the patches for one agent are tried."""

    root: Path
    agent: str
    path: str  # the file that holds its code: the only one a patch may change
    suite: Suite
    time_limit_s: float  # of each command
    seed: int = 0
    run: Commands = field(default_factory=commands)
    _before: Graded | None = None

    def try_patch(self, diff: str) -> Attempt:
        """Guard, lint, evals, tests; the first that fails decides. One too long is not even looked at."""
        if len(diff) > MAX_DIFF_CHARS:
            why = f"the diff has {len(diff):,} characters, at most {MAX_DIFF_CHARS:,} are taken"
            return Attempt(REJECTED, (why,), diff[:1000])
        try:
            patch = canonical(diff.encode(errors="replace"), self.root)
        except GitRefused as refused:
            return Attempt(REJECTED, (f"git does not apply it to HEAD: {str(refused)[:300]}",))
        judged = check_patch(patch, "sandbox", self.root)
        reasons = [str(problem) for problem in judged.problems]
        others = sorted(change.path for change in judged.changes if change.path != self.path)
        if others and not reasons:
            reasons.append(f"changes {', '.join(others)[:200]}: only {self.path} is the code of {self.agent}")
        made = Attempt(REJECTED, tuple(reasons), patch.decode(errors="replace"), judged.changes)
        if reasons:
            return made
        texts = [((one.before or b"").decode(), (one.after or b"").decode()) for one in judged.changes]
        with _worktrees(self.root) as fresh:
            return self._checked(replace(made, metrics=measure(texts)), fresh, patch)

    def _checked(self, made: Attempt, fresh: Callable[[bytes], Path], patch: bytes) -> Attempt:
        checks = [Check("guard", confine.OK, 0.0)]
        scores: Scores | None = None

        def ended(verdict: str, *reasons: str) -> Attempt:
            return replace(made, verdict=verdict, reasons=reasons, checks=tuple(checks), scores=scores)

        def failed(name: str, given: Sequence[Command]) -> Attempt | None:
            """Run a check with the patch; one that fails without it, too, says nothing about the patch."""
            check, _ = self._run(name, given, fresh(patch))
            checks.append(check)
            if check.outcome == confine.OK:
                return None
            if self._run(name, given, fresh(b""))[0].outcome != confine.OK:
                return ended(INCONCLUSIVE, f"{name}: {check.outcome}, and without the patch it is no better")
            return ended(REJECTED, _why(check, self.time_limit_s))

        if stop := failed("lint", self.run.lint):
            return stop
        if self._before is None:
            base, self._before = self._run("evals without the patch", [self.run.evals], fresh(b""))
            if self._before is None:
                checks.append(base)
                return ended(INCONCLUSIVE, f"nothing to compare with: {_why(base, self.time_limit_s)}")
        check, after = self._run("evals", [self.run.evals], fresh(patch))
        checks.append(check)
        if check.outcome != confine.OK:
            return ended(REJECTED, _why(check, self.time_limit_s))
        if after is None:
            return ended(REJECTED, "evals: left no readable result")
        scores = compared(self.suite.cases, self._before, after)
        if worse := is_worse(scores):
            return ended(REJECTED, worse)
        return failed("tests", self.run.tests) or ended(PASSED)

    def _run(self, name: str, given: Sequence[Command], tree: Path) -> tuple[Check, Graded | None]:
        """Run commands in a fresh worktree until one fails: how it went, and the grades it left, if any."""
        seconds = 0.0
        for command in given:
            words = [
                word.replace("{agent}", self.agent).replace("{seed}", str(self.seed)) for word in command
            ]
            ran = confine.run(words, tree, self.time_limit_s, {"PYTHONPATH": str(tree)})
            seconds = round(seconds + ran.seconds, 2)
            if ran.outcome != confine.OK:
                said = ran.tail.replace(str(tree), ".").replace(str(self.root), ".")
                return Check(name, ran.outcome, seconds, said), None
        return Check(name, confine.OK, seconds), self._grades(tree)

    def _grades(self, tree: Path) -> Graded | None:
        """What the run in the worktree answered, graded here; None when it left no readable result."""
        file = tree / "eval/results" / f"{self.agent}.json"
        try:
            if file.resolve() != file or not file.is_file() or file.stat().st_size > MAX_RESULT_BYTES:
                return None
            rows = json.loads(file.read_bytes())["results"]
            answers = {
                row["id"]: row["output"] for row in rows if row["error"] is None and row["output_kept"]
            }
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return graded(self.suite.cases, answers)


def graded(cases: Sequence[Case], answers: Mapping[str, Any]) -> Graded:
    """Every case, by the graders that need no model; without an answer it is failed."""
    grades: dict[str, tuple[float, bool]] = {}
    for case in cases:
        expect = [part for part in case.expect if part["grader"] != "llm_judge"]
        if not expect:
            continue
        result = grade(expect, answers[case.id], case.threshold) if case.id in answers else None
        grades[case.id] = (0.0, False) if result is None else (result.score, result.ok)
    return grades


def compared(cases: Sequence[Case], before: Graded, after: Graded) -> Scores:
    """Both arms side by side."""
    ids = [case.id for case in cases if case.id in before]
    unseen = [case.id for case in cases if case.id in before and case.split == "holdout"]

    def mean(grades: Graded, names: Sequence[str]) -> float | None:
        return round(sum(grades[name][0] for name in names) / len(names), 6) if names else None

    return Scores(
        len(ids), len(unseen), mean(before, ids) or 0.0, mean(after, ids) or 0.0,
        mean(before, unseen), mean(after, unseen),
        tuple(name for name in ids if after[name][1] and not before[name][1]),
        tuple(name for name in ids if before[name][1] and not after[name][1]),
    )  # fmt: skip


def is_worse(scores: Scores) -> str:
    """Why the patched agent counts as worse; empty when it does not. Both splits: tune cases are no scapegoat."""
    if not scores.cases:
        return "evals: no case could be graded, so nothing shows that it is not worse"
    for name, count, before, after in scores.arms:
        if after < before - _TOLERANCE:
            return f"evals: worse on {name} cases, {100 * before:.2f} -> {100 * after:.2f} points (n={count})"
    return ""


def _why(check: Check, time_limit_s: float) -> str:
    if check.outcome == confine.TIMED_OUT:
        return f"{check.name}: not done after {time_limit_s:g} s"
    last = [line for line in check.said.splitlines() if line.strip()][-3:]
    return f"{check.name}: failed: {' / '.join(last)[-400:]}"


@contextmanager
def _worktrees(root: Path) -> Iterator[Callable[[bytes], Path]]:
    """Makes throw-away worktrees at HEAD with a patch applied, outside the checkout; the one before is then gone.

    git is never run in one that foreign code has run in: that could have put another `.git` there.
    """
    made: list[Path] = []

    def fresh(patch: bytes) -> Path:
        for tree in made:
            shutil.rmtree(tree, ignore_errors=True)
        git(root, "worktree", "prune")  # also those of a run that was killed
        made.append(tree := Path(folder).resolve() / f"tree-{len(made)}")
        git(root, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
        if patch:
            git(tree, "apply", "--whitespace=nowarn", "-", stdin=patch)
        return tree

    try:
        with tempfile.TemporaryDirectory(prefix="ratchet-sandbox-", ignore_cleanup_errors=True) as folder:
            yield fresh
    finally:
        git(root, "worktree", "prune")
