"""What an agent's trials add up to: result rows, deliberations and the summary of one eval run. Pure."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import orjson

from eval.grading.graders import passes
from eval.grading.rubric import rubric_row
from eval.grading.suite import FRESH, HALVES, Case, Split
from eval.grading.trivial import Baseline
from eval.trials.trial import Trial
from telemetry.deliberations import why
from telemetry.edge.frozen import frozen
from telemetry.edge.records import plain
from telemetry.edge.text import MAX_PREVIEW, MAX_RAW_OUTPUT, clean, cut

T = TypeVar("T")


MAX_ERROR_SHARE = 0.10  # above this share of infrastructure errors a run says nothing: inconclusive
KEPT_OUTPUT = 65_536  # characters of an output kept for replay; beyond that only its preview is
_SHOWN = (  # of a trial, in its row
    *("ok", "score", "latency_ms", "cost_usd", "cost_source", "tokens_in", "tokens_out", "tokens_thinking"),
    *("error", "error_kind", "run_id", "prompt_hash"),
)
STREAMED = 5_000  # trials of an agent from which on its rows stand in a file of their own
_DELIBERATED = ("output", "ok", "score", "reasons", "error", "error_kind")  # of a trial, in its deliberation
_shown, _deliberated = attrgetter(*_SHOWN), attrgetter(*_DELIBERATED)


@frozen
class Rates:
    """How some trials came out."""

    counted: int
    passed: int
    mean_score: float | None


@frozen
class Summary:
    """The figures of one agent. Rates are over counted trials; errors and trials not run stand beside them."""

    planned: int
    counted: int
    passed: int
    success_rate: float | None
    mean_score: float | None
    empty_rate: float | None  # what an empty answer would have passed of the same cases
    errors: int
    errors_by_kind: Mapping[str, int]
    own_errors_by_kind: Mapping[str, int]
    not_run: int
    inconclusive: bool
    overall_score: float | None
    passed_all_mandatory: float | None
    rubric: Mapping[str, float | None]
    by_tag: Mapping[str, Rates]
    by_split: Mapping[str, Rates]
    empty_baseline: Mapping[str, Baseline]  # by split: what an empty answer to every case would pass
    p50_latency_ms: float | None
    p95_latency_ms: float | None
    cost_usd: float | None
    unpriced: int
    tokens_in: int | None
    tokens_out: int | None


def result_row(trial: Trial, case: Case) -> dict[str, Any]:
    """One trial as it stands in the results file; `output` is what replay grades again."""
    text = _as_json(trial.output)
    preview, lost = cut(text, MAX_PREVIEW)
    kept = len(text) <= KEPT_OUTPUT
    row = {
        "id": trial.case_id,
        "trial": trial.trial_no,
        "split": case.split,
        "family": case.family,
        "tags": list(case.tags),
        "reasons": list(trial.reasons),
        **dict(zip(_SHOWN, _shown(trial), strict=True)),
        "output": trial.output if kept else None,
        "output_kept": kept,
        "output_preview": preview,
        "output_preview_truncated": lost,
        "rubric": None if trial.rubric is None else rubric_row(trial.rubric),
    }
    judged = {str(at): plain(part) for at, part in enumerate(trial.parts) if part.grader == "llm_judge"}
    if judged:  # a judge is not asked again on replay: its parts stand as they were given
        row["judged"] = judged
    return row


def deliberation_rows(trial: Trial) -> Iterable[dict[str, Any]]:
    """How the agent came to its answer: one row per trial, and one per turn where it asked more than once."""
    rationale, lost = why(trial.output)
    base = {"agent": trial.agent, "case_id": trial.case_id, "trial": trial.trial_no, "run_id": trial.run_id}
    row: dict[str, Any] = {
        **base,
        **dict(zip(_DELIBERATED, _deliberated(trial), strict=True)),
        "level": "case",
        "messages_sha256": [turn.get("messages_sha256") for turn in trial.turns],
        "rationale": rationale,
        "rationale_truncated": lost,
        "turns": len(trial.turns),
    }
    if trial.raw_output is not None:
        row["raw_output"], row["raw_output_truncated"] = cut(trial.raw_output, MAX_RAW_OUTPUT)
    yield row
    if len(trial.turns) > 1:
        for number, turn in enumerate(trial.turns):
            yield {**base, "level": "turn", "turn": number, **turn}


class Sums:
    """An agent's trials as they are added up: numbers only, so that a large suite takes little memory."""

    def __init__(self) -> None:
        self.cases: Counter[Split] = Counter()  # by split
        self.of_nothing: Counter[Split] = Counter()  # of them, those that an empty answer passes
        self.seen = self.passed = self.empty = self.unpriced = self.called = self.mandatory = 0
        self.errors: Counter[str] = Counter()
        self.own_errors: Counter[str] = Counter()
        self.scores, self.latencies, self.costs, self.overall = (array("d") for _ in range(4))
        self.rubric: dict[str, array[float]] = {}
        self.by_tag: dict[str, tuple[Counter[str], array[float]]] = {}
        self.by_split: dict[str, tuple[Counter[str], array[float]]] = {}
        self.tokens: dict[str, int | None] = {"tokens_in": 0, "tokens_out": 0}

    def add(self, case: Case, trials: Iterable[Trial]) -> None:
        """One more case, with those of its trials that there are."""
        by_nothing = passes(case.expect, [], case.threshold)
        self.cases[case.split] += 1
        self.of_nothing[case.split] += by_nothing
        for trial in trials:
            self._add(trial, case, by_nothing)

    def _add(self, trial: Trial, case: Case, by_nothing: bool) -> None:
        self.seen += 1
        if trial.turns:
            self.called += 1
            self.unpriced += trial.cost_usd is None
            if trial.cost_usd is not None:
                self.costs.append(trial.cost_usd)
            for name, total in self.tokens.items():
                used = getattr(trial, name)
                self.tokens[name] = None if total is None or used is None else total + used
        if not trial.counted:
            self.errors[str(trial.error_kind)] += 1
            return
        if trial.error_kind:
            self.own_errors[trial.error_kind] += 1
        self.passed += trial.ok is True
        self.empty += by_nothing
        self.scores.append(trial.score or 0.0)
        self.latencies.append(trial.latency_ms)
        groups = [(self.by_tag, tag) for tag in case.tags] + [(self.by_split, case.split)]
        for group, name in groups:
            counts, scores = group.setdefault(name, (Counter(), array("d")))
            counts["passed"] += trial.ok is True
            scores.append(trial.score or 0.0)
        if trial.rubric:
            self.overall.append(trial.rubric.overall_score)
            self.mandatory += trial.rubric.passed_all_mandatory
            for name, mark in trial.rubric.scores.items():
                self.rubric.setdefault(name, array("d")).append(mark)

    def summary(self, planned: int) -> Summary:
        """The figures of the agent, by now."""
        counted, nobody = len(self.scores), (Counter[str](), array("d"))
        halves = (*HALVES, FRESH) if self.cases[FRESH] else HALVES

        def rates(counts: Counter[str], scores: array[float]) -> Rates:
            return Rates(len(scores), counts["passed"], _mean(scores))

        def share(number: int, of: int) -> float | None:
            return round(number / of, 6) if of else None

        return Summary(
            planned=planned,
            **plain(rates(Counter(passed=self.passed), self.scores)),
            success_rate=share(self.passed, counted),
            empty_rate=share(self.empty, counted),
            errors=self.errors.total(),
            errors_by_kind=dict(sorted(self.errors.items())),
            own_errors_by_kind=dict(sorted(self.own_errors.items())),
            not_run=planned - self.seen,
            inconclusive=self.errors.total() + planned - self.seen > MAX_ERROR_SHARE * planned,
            overall_score=_mean(self.overall),
            passed_all_mandatory=share(self.mandatory, len(self.overall)),
            rubric={name: _mean(marks) for name, marks in sorted(self.rubric.items())},
            by_tag={tag: rates(*own) for tag, own in sorted(self.by_tag.items())},
            by_split={name: rates(*self.by_split.get(name, nobody)) for name in halves},
            empty_baseline={name: Baseline.of(self.of_nothing[name], self.cases[name]) for name in halves},
            p50_latency_ms=_percentile(self.latencies, 0.50),
            p95_latency_ms=_percentile(self.latencies, 0.95),
            cost_usd=round(math.fsum(self.costs), 9) if self.costs and not self.unpriced else None,
            unpriced=self.unpriced,
            tokens_in=self.tokens["tokens_in"] if self.called else None,
            tokens_out=self.tokens["tokens_out"] if self.called else None,
        )


def unread(trials: Iterable[Mapping[str, Any] | Trial]) -> str:
    """`28 of 30 answers could not be read (first: ...)`; empty if all could. Of trials, or of their result rows."""

    def part(trial: Mapping[str, Any] | Trial, name: str) -> Any:
        return trial.get(name) if isinstance(trial, Mapping) else getattr(trial, name)

    answered, bad, first = 0, 0, ""
    for trial in trials:
        answered += part(trial, "score") is not None
        if part(trial, "score") is not None and part(trial, "error_kind") == "parse":
            bad += 1
            first = first or clean(cut(str(part(trial, "error")), MAX_PREVIEW)[0]).replace("\n", " ")
    return f"{bad} of {answered} answers could not be read (first: {first})" if bad else ""


def _as_json(value: Any) -> str:
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return json.dumps(value, default=str)


def all_known(values: Iterable[float | None]) -> list[float] | None:
    """The values; None if any is unknown: a sum with a hole in it is not a sum."""
    found = list(values)
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None


def grouped(items: Iterable[T], names: Callable[[T], Iterable[str]]) -> dict[str, list[T]]:
    """The items by each of their names, in the order of names."""
    groups: dict[str, list[T]] = {}
    for item in items:
        for name in names(item):
            groups.setdefault(name, []).append(item)
    return dict(sorted(groups.items()))


def _mean(values: Iterable[float]) -> float | None:
    """None of nothing: an undefined rate is not zero."""
    known = list(values)
    return round(math.fsum(known) / len(known), 6) if known else None


def _percentile(values: Sequence[float], share: float) -> float | None:
    """Linear between neighbours, like numpy's default."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return round(low + (high - low) * (place % 1), 3)
