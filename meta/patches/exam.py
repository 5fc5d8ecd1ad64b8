"""The cases as patched code gets to see them, and what its answers are worth.

Behind the walls a case is its input under a name that says nothing: no expectation, no tag, no family, in shuffled
order. Answers come out and are graded here. Beside the suite stands a second sample, drawn anew where the suite has a
builder (`eval/build_suites.py`): who knows the cases instead of the matter gains on the one and not on the other.
"""

from __future__ import annotations

import json
import math
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from eval.grading.graders import grade
from eval.grading.suite import Case, Suite, load_suite, pin, write_suite
from telemetry.edge.files import BASELINES, REPORTS, SUITES, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

BUILDER = Path("eval/build_suites.py")
# What would tell the answers, or how they were made; tests that need it are marked `answers`.
TELLING = (Path("eval/cases"), BUILDER, BASELINES, REPORTS)
BUILD_SECONDS = 120.0
SURE = 3.0  # standard errors between two gains, from which on they are not of one kind
_TOLERANCE = 1e-9  # rounding; with the offline model there is no other noise
_ANY = [{"grader": "json_schema", "path": "", "schema": True}]  # a suite must expect something

Graded = Mapping[str, tuple[float, bool]]  # case id -> score, passed


@frozen
class Scores:
    """The agent's cases without and with the patch, graded outside the walls."""

    cases: int
    holdout: int
    second: int
    before: float
    after: float
    holdout_before: float | None
    holdout_after: float | None
    second_before: float | None
    second_after: float | None
    newly_right: tuple[str, ...]
    newly_wrong: tuple[str, ...]
    known_by_heart: str = ""  # why its gain is not one of skill

    @property
    def arms(self) -> list[tuple[str, int, float, float]]:
        """All cases, the unseen ones and the second sample if there are any: name, count, score before and after."""
        arms = [("all", self.cases, self.before, self.after)]
        for name, count, before, after in (
            ("holdout", self.holdout, self.holdout_before, self.holdout_after),
            ("second sample", self.second, self.second_before, self.second_after),
        ):
            if before is not None and after is not None:
                arms.append((name, count, before, after))
        return arms


@frozen
class Exam:
    """The cases of one agent, and the name under which each is shown."""

    suite: Suite
    second: tuple[Case, ...]
    shown_as: Mapping[str, Case]

    def put(self, tree: Path) -> None:
        """Make a tree one in which the exam can be sat: the agent's cases without answers, and nobody else's."""
        strip(tree)
        shown = [{"id": name, "input": case.input, "expect": _ANY} for name, case in self.shown_as.items()]
        others = [{"id": "none", "input": {}, "expect": _ANY}]  # the manifest names all suites
        _rewrite(tree, lambda path: shown if path == Path(self.suite.path) else others)

    def graded(self, result: bytes | None, rows: bytes | None = None) -> Graded | None:
        """What was answered in there, by the graders that need no model; None when there is no readable result.

        `rows` is the file in which a large suite has them.
        """
        try:
            found = load_json(result or b"")["results"]
            if isinstance(found, str):
                found = [load_json(line) for line in rows.splitlines()] if rows else None
            sound = (row for row in found if row["error"] is None and row["output_kept"])
            answers = {row["id"]: row["output"] for row in sound}
        except (ValueError, KeyError, TypeError):
            return None
        return {case.id: _grade(case, answers.get(name)) for name, case in self.shown_as.items()}


def exam_of(root: Path, suite: Suite) -> Exam:
    """The exam for an agent: graders that need a model have no say in it."""
    own = tuple(_model_free(suite.cases))
    second = tuple(_model_free(_second_sample(root, suite)))
    cases = [*own, *second]
    random.SystemRandom().shuffle(cases)
    shown = {f"case-{at:05}": case for at, case in enumerate(cases)}
    return Exam(replace(suite, cases=own), second, shown)


def strip(tree: Path) -> None:
    """Take out of a tree all that tells what a right answer is; its suites keep their cases."""
    for path in TELLING:
        shutil.rmtree(tree / path) if (tree / path).is_dir() else (tree / path).unlink(missing_ok=True)

    def unanswered(path: Path) -> list[dict[str, Any]]:
        return [{**json.loads(line), "expect": _ANY} for line in (tree / path).read_bytes().splitlines()]

    _rewrite(tree, unanswered)


def _rewrite(tree: Path, rows: Callable[[Path], list[dict[str, Any]]]) -> None:
    """Give every suite of a tree other rows, and its pin."""
    there = [SUITES / file.name for file in sorted((tree / SUITES).glob("*.jsonl"))]
    for path in there:
        write_suite(Repo(tree), path, rows(path))
    pin(Repo(tree), there)


def _second_sample(root: Path, suite: Suite) -> Iterable[Case]:
    """The suite drawn again by its builder, from a seed that nobody knows; nothing where it has none."""
    if not (root / BUILDER).is_file():
        return
    known = {json.dumps(case.input, sort_keys=True) for case in suite.cases}
    with tempfile.TemporaryDirectory(prefix="ratchet-exam-") as folder:
        words = [str(BUILDER), suite.name, "--seed", str(secrets.randbits(31)), "--into", folder, "--quiet"]
        command = [sys.executable, *words]
        made = subprocess.run(command, cwd=root, capture_output=True, timeout=BUILD_SECONDS)
        if made.returncode or not (Path(folder) / f"{suite.name}.jsonl").is_file():
            return
        for case in load_suite(Repo(Path(folder)), f"{suite.name}.jsonl", allow_unpinned=True).cases:
            if json.dumps(case.input, sort_keys=True) not in known:
                yield replace(case, id=f"second/{case.id}", family=case.family)


def _model_free(cases: Iterable[Case]) -> Iterable[Case]:
    for case in cases:
        if expect := tuple(part for part in case.expect if part["grader"] != "llm_judge"):
            yield replace(case, expect=expect)


def _grade(case: Case, answer: Any) -> tuple[float, bool]:
    if answer is None:
        return 0.0, False
    result = grade(case.expect, answer, case.threshold)
    return result.score, result.ok


def compared(exam: Exam, before: Graded, after: Graded) -> Scores:
    ids = [case.id for case in exam.suite.cases]
    unseen = [case.id for case in exam.suite.cases if case.split == "holdout"]
    seen = [case.id for case in exam.suite.cases if case.split != "holdout"]
    second = [case.id for case in exam.second]

    def mean(grades: Graded, names: Sequence[str]) -> float | None:
        return round(fmean(grades[name][0] for name in names), 6) if names else None

    def gains(names: Sequence[str]) -> list[float]:
        return [after[name][0] - before[name][0] for name in names]

    return Scores(
        len(ids), len(unseen), len(second),
        mean(before, ids) or 0.0, mean(after, ids) or 0.0,
        mean(before, unseen), mean(after, unseen), mean(before, second), mean(after, second),
        tuple(name for name in ids if after[name][1] and not before[name][1]),
        tuple(name for name in ids if before[name][1] and not after[name][1]),
        by_heart("tune cases", gains(seen), "holdout cases", gains(unseen))
        or by_heart("the suite", gains(ids), "a second sample", gains(second)),
    )  # fmt: skip


def by_heart(known: str, gain: Sequence[float], unknown: str, other: Sequence[float]) -> str:
    """Why the gain on the known cases is not one of skill: it does not carry over to the unknown ones."""
    if min(len(gain), len(other)) < 2:
        return ""
    error = math.sqrt(variance(gain) / len(gain) + variance(other) / len(other))
    if fmean(gain) - fmean(other) <= SURE * error + _TOLERANCE:
        return ""
    won = f"{100 * fmean(gain):+.1f} points on {known}, {100 * fmean(other):+.1f} on {unknown}"
    return f"evals: {won}: it knows the cases, not the matter"


def is_worse(scores: Scores) -> str:
    """Why the patched agent counts as worse; empty when it does not. Both splits: tune cases are no scapegoat."""
    if not scores.cases:
        return "evals: no case could be graded, so nothing shows that it is not worse"
    for name, count, before, after in scores.arms:
        if after < before - _TOLERANCE:
            return f"evals: worse on {name} cases, {100 * before:.2f} -> {100 * after:.2f} points (n={count})"
    return scores.known_by_heart
