"""Says whether a promotion may go ahead: a better score is not enough, each guardrail passes or fails. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from eval.ab.record import Guardrail, Settings
from eval.ab.run import Pair
from eval.ab.sequential import interval
from eval.trials.results import all_known, grouped
from eval.trials.trial import Trial

LATENCY_SLACK_MS = 200.0  # less is felt by nobody at night, and with a fast model on a busy machine all noise
WORSE_ALPHA = 0.2  # an agent is clearly worse if even the 80 % interval of its change lies below zero
BROKEN_SLACK = 0.01  # more answers that break the schema or a safety gate than the champion's
FAILED_SLACK = 0.05  # more failed calls than the champion's: an arm must not win by dropping its hard cases


def guardrails(
    pairs: Sequence[Pair], lost: int, settings: Settings, attempted: tuple[int, int, int, int]
) -> list[Guardrail]:
    """All checks; `attempted` is (failed, all) calls of the champion, then of the challenger."""
    champion = [trial for pair in pairs for trial in pair.champion if trial.counted]
    challenger = [trial for pair in pairs for trial in pair.challenger if trial.counted]
    return [
        _enough(len(pairs), lost, settings.min_cases),
        Guardrail("unseen cases", "holdout", settings.split, settings.split == "holdout"),
        _clearly_worse(pairs),
        _cost(champion, challenger, settings.max_cost_increase),
        _latency(champion, challenger, settings.max_p95_increase),
        _broken("schema-valid answers", champion, challenger, "format"),
        _broken("safe answers", champion, challenger, "safety"),
        _failed_calls(*attempted),
    ]


def p95(values: Iterable[float]) -> float | None:
    """The 95th percentile, by nearest rank."""
    ranked = sorted(values)
    return ranked[math.ceil(0.95 * len(ranked)) - 1] if ranked else None


def cost_per_case(trials: Sequence[Trial]) -> float | None:
    """Mean cost of one trial; unknown as soon as one of them is unknown."""
    known = all_known(trial.cost_usd for trial in trials)
    return fmean(known) if known else None


def by_agents(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """The pairs of each agent."""
    return grouped(pairs, lambda pair: [pair.unit.spec.name])


def _enough(used: int, lost: int, least: int) -> Guardrail:
    note = f"{used}" + (f" ({lost} lost to failed calls)" if lost else "")
    return Guardrail("cases used", f">= {least}", note, used >= least, float(used))


def _clearly_worse(pairs: Sequence[Pair]) -> Guardrail:
    """By success rate, agent by agent; the interval holds wherever the run stopped."""
    worse, deepest = [], 0.0
    for agent, own in by_agents(pairs).items():
        changes = [success_rate(pair.challenger) - success_rate(pair.champion) for pair in own]
        low, high = interval(changes, WORSE_ALPHA)
        if high < 0:
            mean = fmean(changes)
            deepest = min(deepest, mean)
            worse.append(f"{agent} {100 * mean:+.1f} points ({100 * low:+.1f} .. {100 * high:+.1f})")
    return Guardrail("any agent clearly worse", "none", ", ".join(worse) or "none", not worse, deepest)


def success_rate(trials: Sequence[Trial]) -> float:
    """Share of counted trials that passed."""
    return fmean(bool(trial.ok) for trial in trials if trial.counted)


def _cost(champion: Sequence[Trial], challenger: Sequence[Trial], limit: float) -> Guardrail:
    """Where prices are unknown, tokens stand for cost: unknown is not zero."""
    name, shown = "cost per case", f"{limit:+.0%}"
    before, after = cost_per_case(champion), cost_per_case(challenger)
    note = ""
    if before is None or after is None:
        before, after, note = _tokens(champion), _tokens(challenger), " (in tokens, the price is unknown)"
    if before is None or after is None:
        return Guardrail(name, shown, "unknown", True)
    if before == 0:
        free = after == 0
        return Guardrail(name, shown, "free" if free else "was free, now is not", free, 0.0 if free else None)
    change = after / before - 1
    return Guardrail(name, shown, f"{change:+.1%}{note}", change <= limit, change)


def _tokens(trials: Sequence[Trial]) -> float | None:
    known = all_known(None if t.tokens_in is None else t.tokens_in + (t.tokens_out or 0) for t in trials)
    return fmean(known) if known else None


def _latency(champion: Sequence[Trial], challenger: Sequence[Trial], limit: float) -> Guardrail:
    before, after = p95(t.latency_ms for t in champion), p95(t.latency_ms for t in challenger)
    shown = f"{limit:+.0%}, or {LATENCY_SLACK_MS:.0f} ms"
    if not before or after is None:
        return Guardrail("p95 latency", shown, "unknown", True)
    change = after / before - 1
    passed = change <= limit or after - before < LATENCY_SLACK_MS
    return Guardrail("p95 latency", shown, f"{change:+.1%} ({before:.1f} -> {after:.1f} ms)", passed, change)


def _broken(name: str, champion: Sequence[Trial], challenger: Sequence[Trial], score: str) -> Guardrail:
    before, after = _held(champion, score), _held(challenger, score)
    if before is None or after is None:
        return Guardrail(name, "as the champion", "no such cases", True)
    passed = after >= before - BROKEN_SLACK
    return Guardrail(name, f">= {before - BROKEN_SLACK:.1%}", f"{after:.1%}", passed, after)


def _held(trials: Sequence[Trial], score: str) -> float | None:
    marks = [t.rubric.scores[score] for t in trials if t.rubric is not None and score in t.rubric.scores]
    return fmean(mark >= 1.0 for mark in marks) if marks else None


def _failed_calls(failed_before: int, before: int, failed_after: int, after: int) -> Guardrail:
    share = failed_after / after if after else 0.0
    allowed = (failed_before / before if before else 0.0) + FAILED_SLACK
    return Guardrail("failed calls", f"<= {allowed:.1%}", f"{share:.1%}", share <= allowed, share)
