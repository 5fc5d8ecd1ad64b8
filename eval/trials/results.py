"""What do an agent's trials add up to? Result rows, deliberations and the summary of one eval run. Pure."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from eval.grading.suite import Case
from eval.trials.trial import Trial
from telemetry.edge.text import MAX_PREVIEW, MAX_RATIONALE, MAX_RAW_OUTPUT, cut

MAX_ERROR_SHARE = 0.10  # above this share of infrastructure errors a run says nothing: inconclusive
KEPT_OUTPUT = 65_536  # characters of an output kept for replay; beyond that only its preview is


def result_row(trial: Trial, case: Case) -> dict[str, Any]:
    """One trial as it stands in the results file; `output` is what replay grades again."""
    text = _as_json(trial.output)
    preview, lost = cut(text, MAX_PREVIEW)
    kept = len(text) <= KEPT_OUTPUT
    row: dict[str, Any] = {
        "id": trial.case_id,
        "trial": trial.trial_no,
        "split": case.split,
        "tags": list(case.tags),
        "ok": trial.ok,
        "score": trial.score,
        "reasons": list(trial.reasons),
        "output": trial.output if kept else None,
        "output_kept": kept,
        "output_preview": preview,
        "output_preview_truncated": lost,
        "latency_ms": trial.latency_ms,
        "cost_usd": trial.cost_usd,
        "cost_source": trial.cost_source,
        "tokens_in": trial.tokens_in,
        "tokens_out": trial.tokens_out,
        "tokens_thinking": trial.tokens_thinking,
        "error": trial.error,
        "error_kind": trial.error_kind,
        "run_id": trial.run_id,
        "prompt_hash": trial.prompt_hash,
        "rubric": None,
    }
    judged = {str(at): asdict(part) for at, part in enumerate(trial.parts) if part.grader == "llm_judge"}
    if judged:  # a judge is not asked again on replay: its parts stand as they were given
        row["judged"] = judged
    if trial.rubric is not None:
        row["rubric"] = trial.rubric.as_fields()
    return row


def deliberation_rows(trial: Trial) -> Iterable[dict[str, Any]]:
    """How the agent came to its answer: one row per trial, and one per turn where it asked more than once."""
    rationale, lost = cut("\n".join(_rationales(trial.output)), MAX_RATIONALE)
    base = {"agent": trial.agent, "case_id": trial.case_id, "trial": trial.trial_no, "run_id": trial.run_id}
    row: dict[str, Any] = {
        **base,
        "level": "case",
        "messages_sha256": [turn.get("messages_sha256") for turn in trial.turns],
        "output": trial.output,
        "rationale": rationale,
        "rationale_truncated": lost,
        "ok": trial.ok,
        "score": trial.score,
        "reasons": trial.reasons,
        "error": trial.error,
        "error_kind": trial.error_kind,
        "turns": len(trial.turns),
    }
    if trial.raw_output is not None:
        row["raw_output"], row["raw_output_truncated"] = cut(trial.raw_output, MAX_RAW_OUTPUT)
    yield row
    if len(trial.turns) > 1:
        for number, turn in enumerate(trial.turns):
            yield {**base, "level": "turn", "turn": number, **turn}


def summarise(trials: Sequence[Trial], planned: int, cases: Mapping[str, Case]) -> dict[str, Any]:
    """The figures of one agent. Rates are over counted trials; errors and trials not run stand beside them."""
    counted = [trial for trial in trials if trial.score is not None]
    errors = Counter(str(trial.error_kind) for trial in trials if not trial.counted)
    missing = errors.total() + planned - len(trials)
    return {
        "planned": planned,
        "counted": len(counted),
        "passed": sum(trial.ok is True for trial in counted),
        "success_rate": _mean(float(trial.ok is True) for trial in counted),
        "mean_score": _mean(trial.score or 0.0 for trial in counted),
        "errors": errors.total(),
        "errors_by_kind": dict(sorted(errors.items())),
        "own_errors_by_kind": dict(sorted(Counter(t.error_kind for t in counted if t.error_kind).items())),
        "not_run": planned - len(trials),
        "inconclusive": missing > MAX_ERROR_SHARE * planned,
        "overall_score": _mean(t.rubric.overall_score for t in counted if t.rubric),
        "passed_all_mandatory": _mean(float(t.rubric.passed_all_mandatory) for t in counted if t.rubric),
        "rubric": _rubric_means(counted),
        "by_tag": _by_tag(counted, cases),
        "by_split": {
            name: _rates([trial for trial in counted if cases[trial.case_id].split == name])
            for name in ("tune", "holdout")
        },
        "p50_latency_ms": _percentile([trial.latency_ms for trial in counted], 0.50),
        "p95_latency_ms": _percentile([trial.latency_ms for trial in counted], 0.95),
        "cost_usd": _known_sum([trial.cost_usd for trial in trials if trial.turns]),
        "unpriced": sum(trial.cost_usd is None for trial in trials if trial.turns),
        "tokens_in": _known_count([trial.tokens_in for trial in trials if trial.turns]),
        "tokens_out": _known_count([trial.tokens_out for trial in trials if trial.turns]),
    }


def _as_json(value: Any) -> str:
    import orjson

    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return json.dumps(value, default=str)


def _rationales(output: Any) -> Iterable[str]:
    for item in output if isinstance(output, list) else [output]:
        if isinstance(item, dict):
            said = item.get("rationale") or item.get("why") or item.get("evidence")
            if isinstance(said, str):
                yield said


def _rubric_means(counted: Sequence[Trial]) -> dict[str, float]:
    by_name: dict[str, list[float]] = {}
    for trial in counted:
        for name, score in trial.rubric.scores.items() if trial.rubric else ():
            by_name.setdefault(name, []).append(score)
    return {name: round(math.fsum(scores) / len(scores), 6) for name, scores in sorted(by_name.items())}


def _by_tag(counted: Sequence[Trial], cases: Mapping[str, Case]) -> dict[str, Any]:
    by_tag: dict[str, list[Trial]] = {}
    for trial in counted:
        for tag in cases[trial.case_id].tags:
            by_tag.setdefault(tag, []).append(trial)
    return {tag: _rates(trials) for tag, trials in sorted(by_tag.items())}


def _rates(trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        "counted": len(trials),
        "passed": sum(trial.ok is True for trial in trials),
        "mean_score": _mean(trial.score or 0.0 for trial in trials),
    }


def _mean(values: Iterable[float]) -> float | None:
    """None of nothing: an undefined rate is not zero."""
    known = list(values)
    return round(math.fsum(known) / len(known), 6) if known else None


def _known_sum(values: Sequence[float | None]) -> float | None:
    """None if nothing is known, or anything is not: a sum with a hole in it is not a sum."""
    if not values or None in values:
        return None
    return round(math.fsum(value for value in values if value is not None), 9)


def _known_count(values: Sequence[int | None]) -> int | None:
    total = _known_sum(values)
    return None if total is None else int(total)


def _percentile(values: Sequence[float], share: float) -> float | None:
    """Linear between neighbours, like numpy's default."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return round(ordered[low] + (ordered[high] - ordered[low]) * (place - low), 3)
