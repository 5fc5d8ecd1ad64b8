"""Tries whether a patch holds: it is guarded, then linted, graded and tested in a throw-away worktree, behind walls.

The patched code is never imported here: it runs in confined processes, with the offline model (it gets no key and no
network), and what it answered is graded outside, by the suite and the graders of the trusted tree. Each command meets
a worktree fresh from git, so that one cannot prepare the ground for the next.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from eval.grading.suite import Suite
from eval.ledger.results import ROWS
from meta.patches import confine
from meta.patches.exam import Exam, Graded, Scores, compared, exam_of, is_worse, strip
from meta.patches.size import Metrics, measure
from meta.publish.contents import Change
from meta.publish.judge import canonical, check_patch, export
from telemetry.edge.files import RESULTS
from telemetry.edge.frozen import frozen
from telemetry.edge.git import GitRefused

MAX_DIFF_CHARS = 200_000  # the guard's limit of 400 lines stands far below
# The engine's own tests stand on worlds of their own and know no agent of the tree, which a test holds them to: of
# these rooms only files that import the code are run. The first failure decides.
ENGINE = ("agents", "bench", "eval", "github", "meta", "rules", "telemetry", "torture", "worlds")
TESTS = ("-n", "auto", "--maxfail", "1", "-m", "not answers and not outside", "{tests}")
PASSED, REJECTED, DECLINED, INCONCLUSIVE = "passed", "rejected", "declined", "inconclusive"

Command = tuple[str, ...]
Said = tuple[bytes | None, bytes | None]  # the results file, and that of its rows if it names one
Trees = Callable[..., Path]  # by patch, and whether the exam is sat there: a folder to run in


@frozen
class Commands:
    """What runs in the worktree; `{agent}`, `{seed}` and `{tests}` are filled in."""

    lint: tuple[Command, ...]
    tests: tuple[Command, ...]
    evals: Command


def commands() -> Commands:
    """What continuous integration runs, and the agent's own evals; of this interpreter's environment."""
    python = confine.PYTHON
    tool = Path(python).with_name
    return Commands(
        lint=(
            (str(tool("ruff")), "check", "."),
            (str(tool("ruff")), "format", "--check", "."),
            (python, "-m", "mypy"),
            (str(tool("lint-imports")),),
        ),
        tests=((python, "-m", "pytest", *TESTS),),
        evals=(python, "-m", "eval.harness", "--agent={agent}", "--seed={seed}", "--quiet"),
    )


@frozen
class Check:
    """One thing that was checked, and how it ended."""

    name: str
    outcome: str  # ok, failed or timed out
    seconds: float
    said: str = ""  # the end of what it said, when it did not pass


@frozen
class Attempt:
    """What became of one patch."""

    verdict: str
    reasons: tuple[str, ...] = ()
    patch: str = ""
    changes: tuple[Change, ...] = ()
    metrics: Metrics | None = None
    checks: tuple[Check, ...] = ()
    scores: Scores | None = None


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
    _exam: Exam | None = None

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
        if self._exam is None:
            self._exam = exam_of(self.root, self.suite)
        with _trees(self.root, self._exam) as trees:
            return self._checked(replace(made, metrics=measure(texts)), trees, self._exam, patch)

    def _checked(self, made: Attempt, trees: Trees, exam: Exam, patch: bytes) -> Attempt:
        checks = [Check("guard", confine.OK, 0.0)]
        scores: Scores | None = None

        def ended(verdict: str, *reasons: str) -> Attempt:
            return replace(made, verdict=verdict, reasons=reasons, checks=tuple(checks), scores=scores)

        def failed(name: str, given: Sequence[Command]) -> Attempt | None:
            """Run a check with the patch; one that fails without it, too, says nothing about the patch."""
            check, _ = self._run(name, given, trees(patch))
            checks.append(check)
            if check.outcome == confine.OK:
                return None
            if self._run(name, given, trees(b""))[0].outcome != confine.OK:
                return ended(INCONCLUSIVE, f"{name}: {check.outcome}, and without the patch it is no better")
            return ended(REJECTED, _why(check, self.time_limit_s))

        if stop := failed("lint", self.run.lint):
            return stop
        if self._before is None:
            base, said = self._run("evals without the patch", [self.run.evals], trees(b"", True))
            self._before = exam.graded(*said)
            if self._before is None:
                checks.append(base)
                return ended(INCONCLUSIVE, f"nothing to compare with: {_why(base, self.time_limit_s)}")
        check, said = self._run("evals", [self.run.evals], trees(patch, True))
        checks.append(check)
        if check.outcome != confine.OK:
            return ended(REJECTED, _why(check, self.time_limit_s))
        after = exam.graded(*said)
        if after is None:
            return ended(REJECTED, "evals: left no readable result")
        scores = compared(exam, self._before, after)
        if worse := is_worse(scores):
            return ended(REJECTED, worse)
        return failed("tests", self.run.tests) or ended(PASSED)

    def _run(self, name: str, given: Sequence[Command], tree: Path) -> tuple[Check, Said]:
        """Run commands, each on a copy of the tree, until one fails: how it went, and the results it left, if any."""
        seconds, files = 0.0, [str(RESULTS / f"{self.agent}{end}") for end in (".json", ROWS)]
        said: Said = (None, None)
        for command in given:
            words = [
                word.replace("{agent}", self.agent).replace("{seed}", str(self.seed))
                for one in command
                for word in (tests_of(self.path, tree) if one == "{tests}" else [one])
            ]
            ran = confine.run(words, tree, self.time_limit_s, files)
            seconds = round(seconds + ran.seconds, 2)
            said = (ran.returned.get(files[0]), ran.returned.get(files[1]))
            if ran.outcome != confine.OK:
                return Check(name, ran.outcome, seconds, ran.tail.replace(str(self.root), ".")), (None, None)
        return Check(name, confine.OK, seconds), said


def tests_of(path: str, tree: Path) -> list[str]:
    """The tests that can know the code at that path: whole rooms, and the engine's by file."""
    folder, package = tree / "tests", ".".join(Path(path).parent.parts)
    imports = re.compile(rf"\b{re.escape(package)}(?:\.| import .*\b){re.escape(Path(path).stem)}\b")
    found = set()
    for file in folder.rglob("test_*.py"):
        room = file.relative_to(folder).parts[0]
        if room not in ENGINE:
            found.add(f"tests/{room}")
        elif imports.search(file.read_text(encoding="utf-8")):
            found.add(str(file.relative_to(tree)))
    return sorted(found)


def _why(check: Check, time_limit_s: float) -> str:
    if check.outcome == confine.TIMED_OUT:
        return f"{check.name}: not done after {time_limit_s:g} s"
    last = [line for line in check.said.splitlines() if line.strip()][-3:]
    return f"{check.name}: failed: {' / '.join(last)[-400:]}"


@contextmanager
def _trees(root: Path, exam: Exam) -> Iterator[Trees]:
    """HEAD with and without the patch as plain folders outside the checkout: no history, and nothing to be graded by.

    A command works on a copy, so one cannot prepare the ground for the next. For the evals the exam is laid out.
    """
    with tempfile.TemporaryDirectory(prefix="ratchet-sandbox-", ignore_cleanup_errors=True) as folder:

        @cache
        def tree(patch: bytes, sat: bool = False) -> Path:
            made = Path(folder).resolve() / f"{'with' if patch else 'without'}-{'exam' if sat else 'all'}"
            export(patch, root, made)
            exam.put(made) if sat else strip(made)
            return made

        yield tree
