"""What an agent's trials add up to: result rows, deliberations and the summary of one eval run. Pure."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from eval.grading.graders import passes
from eval.grading.suite import Case, splits
from eval.grading.trivial import Baseline, empty_baseline
from eval.trials.trial import Trial
from telemetry.deliberations import why
from telemetry.edge.records import plain
from telemetry.edge.text import MAX_PREVIEW, MAX_RAW_OUTPUT, clean, cut

T = TypeVar("T")

MAX_ERROR_SHARE = 0.10  # above this share of infrastructure errors a run says nothing: inconclusive
KEPT_OUTPUT = 65_536  # characters of an output kept for replay; beyond that only its preview is
_SHOWN = (  # of a trial, in its row
    *("ok", "score", "latency_ms", "cost_usd", "cost_source", "tokens_in", "tokens_out", "tokens_thinking"),
    *("error", "error_kind", "run_id", "prompt_hash"),
)
_DELIBERATED = ("output", "ok", "score", "reasons", "error", "error_kind")  # of a trial, in its deliberation


@dataclass(frozen=True, slots=True)
class Rates:
    """How some trials came out."""

    counted: int
    passed: int
    mean_score: float | None


@dataclass(frozen=True, slots=True)
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
        **{name: getattr(trial, name) for name in _SHOWN},
        "output": trial.output if kept else None,
        "output_kept": kept,
        "output_preview": preview,
        "output_preview_truncated": lost,
        "rubric": None if trial.rubric is None else plain(trial.rubric),
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
        **{name: getattr(trial, name) for name in _DELIBERATED},
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


def summarise(trials: Sequence[Trial], planned: int, cases: Mapping[str, Case]) -> Summary:
    """The figures of one agent."""
    counted = [trial for trial in trials if trial.counted]
    called = [trial for trial in trials if trial.turns]
    marked = [trial.rubric for trial in counted if trial.rubric]
    errors = Counter(str(trial.error_kind) for trial in trials if not trial.counted)
    missing = errors.total() + planned - len(trials)
    by_mark = grouped(marked, lambda one: one.scores)
    by_tag = grouped(counted, lambda trial: cases[trial.case_id].tags)
    tokens_in, tokens_out = (
        None if (total := _known_sum(getattr(trial, name) for trial in called)) is None else int(total)
        for name in ("tokens_in", "tokens_out")
    )
    return Summary(
        planned=planned,
        **plain(_rates(counted)),
        success_rate=_mean(float(trial.ok is True) for trial in counted),
        empty_rate=_mean(
            float(passes(case.expect, [], case.threshold))
            for case in (cases[trial.case_id] for trial in counted)
        ),
        errors=errors.total(),
        errors_by_kind=dict(sorted(errors.items())),
        own_errors_by_kind=dict(sorted(Counter(t.error_kind for t in counted if t.error_kind).items())),
        not_run=planned - len(trials),
        inconclusive=missing > MAX_ERROR_SHARE * planned,
        overall_score=_mean(one.overall_score for one in marked),
        passed_all_mandatory=_mean(float(one.passed_all_mandatory) for one in marked),
        rubric={name: _mean(one.scores[name] for one in own) for name, own in by_mark.items()},
        by_tag={tag: _rates(own) for tag, own in by_tag.items()},
        by_split={
            name: _rates([trial for trial in counted if cases[trial.case_id].split == name])
            for name in splits(cases.values())
        },
        empty_baseline=empty_baseline(cases.values()),
        p50_latency_ms=_percentile([trial.latency_ms for trial in counted], 0.50),
        p95_latency_ms=_percentile([trial.latency_ms for trial in counted], 0.95),
        cost_usd=_known_sum(trial.cost_usd for trial in called),
        unpriced=sum(trial.cost_usd is None for trial in called),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )


def unread(trials: Iterable[Mapping[str, Any] | Trial]) -> str:
    """`28 of 30 answers could not be read (first: ...)`; empty if all could. Of trials, or of their result rows."""

    def part(trial: Mapping[str, Any] | Trial, name: str) -> Any:
        return trial.get(name) if isinstance(trial, Mapping) else getattr(trial, name)

    answered = [trial for trial in trials if part(trial, "score") is not None]
    bad = [str(part(trial, "error")) for trial in answered if part(trial, "error_kind") == "parse"]
    if not bad:
        return ""
    first = clean(cut(bad[0], MAX_PREVIEW)[0]).replace("\n", " ")
    return f"{len(bad)} of {len(answered)} answers could not be read (first: {first})"


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


def _rates(trials: Sequence[Trial]) -> Rates:
    passed = sum(trial.ok is True for trial in trials)
    return Rates(len(trials), passed, _mean(trial.score or 0.0 for trial in trials))


def _mean(values: Iterable[float]) -> float | None:
    """None of nothing: an undefined rate is not zero."""
    known = list(values)
    return round(math.fsum(known) / len(known), 6) if known else None


def _known_sum(values: Iterable[float | None]) -> float | None:
    """None if nothing is known, or anything is not."""
    known = all_known(values)
    return round(math.fsum(known), 9) if known else None


def _percentile(values: Sequence[float], share: float) -> float | None:
    """Linear between neighbours, like numpy's default."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return round(low + (high - low) * (place % 1), 3)
