"""Says whether a promotion may go ahead: a better score is not enough, each guardrail passes or fails. Pure.

Decided on the finishing pass, case by case, and by bounds: what is worse only by chance blocks nobody. A person may
take a winner in spite of a guardrail (`--allow cost`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from eval.ab import ALLOW
from eval.ab.record import Guardrail, Settings
from eval.ab.rounds import clearly_worse
from eval.ab.run import Pair
from eval.trials.results import all_known, grouped
from eval.trials.trial import Trial
from telemetry.read.intervals import wilson

LATENCY_SLACK_MS = 200.0  # less is felt by nobody at night, and with a fast model on a busy machine all noise
BROKEN_SLACK = 0.01  # more answers that break the schema or a safety gate than the champion's
FAILED_SLACK = 0.05  # more failed calls than the champion's: an arm must not win by dropping its hard cases
SURE_Z = 1.645  # one-sided 95 %: beyond a limit only if even the bound is
TAIL = 0.05  # of the answers may be slower than the p95


def guardrails(
    pairs: Sequence[Pair],
    lost: int,
    settings: Settings,
    attempted: tuple[int, int, int, int],
    margin: float = 0.0,
) -> list[Guardrail]:
    """All checks; `attempted` is (failed, all) calls of the champion, then of the challenger.

    With a `margin` the challenger may be worse by that much, and has to be cheaper.
    """
    champion = [trial for pair in pairs for trial in pair.champion if trial.counted]
    challenger = [trial for pair in pairs for trial in pair.challenger if trial.counted]
    checks = [
        _enough(len(pairs), lost, settings.min_cases),
        Guardrail("unseen cases", "holdout", settings.split, settings.split == "holdout"),
        _clearly_worse(pairs, margin),
        _cheaper(pairs) if margin else _cost(pairs, settings.max_cost_increase),
        _latency(champion, challenger, settings.max_p95_increase),
        _broken("schema-valid answers", pairs, "format"),
        _broken("safe answers", pairs, "safety"),
        _failed_calls(*attempted),
    ]
    taken = {ALLOW[word] for word in settings.allow}
    return [
        replace(check, passed=True, measured=f"{check.measured} (allowed by a person)")
        if check.name in taken and not check.passed
        else check
        for check in checks
    ]


def _surely(differences: Sequence[float]) -> float:
    """A lower bound of the mean of the cases' differences."""
    mean, n = fmean(differences), len(differences)
    return mean - SURE_Z * math.sqrt(sum((one - mean) ** 2 for one in differences)) / n


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


def _clearly_worse(pairs: Sequence[Pair], margin: float) -> Guardrail:
    """By score or by success rate, agent by agent."""
    worse, deepest = [], 0.0
    for agent, own in by_agents(pairs).items():
        passed = [success_rate(pair.challenger) - success_rate(pair.champion) for pair in own]
        scored = [pair.difference for pair in own]
        if clearly_worse(passed, margin) or clearly_worse(scored, margin):
            mean = min(fmean(passed), fmean(scored))
            deepest = min(deepest, mean)
            worse.append(f"{agent} {100 * mean:+.1f} points")
    return Guardrail("any agent clearly worse", "none", ", ".join(worse) or "none", not worse, deepest)


def success_rate(trials: Sequence[Trial]) -> float:
    """Share of counted trials that passed."""
    return fmean(bool(trial.ok) for trial in trials if trial.counted)


def _costs(pairs: Sequence[Pair]) -> tuple[list[float] | None, list[float] | None]:
    """What a case cost the champion, and the challenger, case by case; None where any of it is unknown."""
    before = all_known(cost_per_case([t for t in pair.champion if t.counted]) for pair in pairs)
    after = all_known(cost_per_case([t for t in pair.challenger if t.counted]) for pair in pairs)
    return before or None, after or None


def _cost(pairs: Sequence[Pair], limit: float) -> Guardrail:
    """By the price; where it is unknown tokens are told, but block nobody: unknown is not zero."""
    name, shown = "cost per case", f"{limit:+.0%}"
    paid, asked = _costs(pairs)
    if not paid or not asked:
        return Guardrail(name, shown, _tokens(pairs), True)
    if not any(paid):
        free = not any(asked)
        return Guardrail(name, shown, "free" if free else "was free, now is not", free, 0.0 if free else None)
    change = fmean(asked) / fmean(paid) - 1
    over = _surely([new - old * (1 + limit) for old, new in zip(paid, asked, strict=True)])
    return Guardrail(name, shown, f"{change:+.1%}", over <= 1e-12, change)


def _cheaper(pairs: Sequence[Pair]) -> Guardrail:
    """Surely less than the champion: what costs nobody knows how much is not cheaper."""
    name, limit = "cost per case", "less"
    paid, asked = _costs(pairs)
    if not paid or not asked:
        return Guardrail(name, limit, _tokens(pairs), False)
    before, after = fmean(paid), fmean(asked)
    saved = _surely([old - new for old, new in zip(paid, asked, strict=True)])
    change = after / before - 1 if before else None
    told = "was free" if change is None else f"{change:+.1%} (${before:.3g} -> ${after:.3g})"
    return Guardrail(name, limit, told, saved > 0, change)


def _tokens(pairs: Sequence[Pair]) -> str:
    """How many more tokens, if anybody counted them: a warning."""

    def mean(trials: Iterable[Trial]) -> float:
        counts = all_known(t.tokens_in and t.tokens_in + (t.tokens_out or 0) for t in trials if t.counted)
        return fmean(counts) if counts else 0.0

    before, after = mean(t for p in pairs for t in p.champion), mean(t for p in pairs for t in p.challenger)
    return f"{after / before - 1:+.1%} in tokens, the price is unknown" if before and after else "unknown"


def _latency(champion: Sequence[Trial], challenger: Sequence[Trial], limit: float) -> Guardrail:
    """Too slow if surely more than a twentieth of the answers take longer than the limit on the champion's p95."""
    before, after = p95(t.latency_ms for t in champion), p95(t.latency_ms for t in challenger)
    shown = f"{limit:+.0%}, or {LATENCY_SLACK_MS:.0f} ms"
    if not before or after is None:
        return Guardrail("p95 latency", shown, "unknown", True)
    change = after / before - 1
    n = len(champion)
    # Upper bound of the p95, by order.
    rank = math.ceil((1 - TAIL) * n + SURE_Z * math.sqrt(TAIL * (1 - TAIL) * n))
    surely = sorted(t.latency_ms for t in champion)[min(rank, n) - 1]
    most = max(surely * (1 + limit), surely + LATENCY_SLACK_MS)
    slow = wilson(sum(t.latency_ms > most for t in challenger), len(challenger), SURE_Z) or (0.0, 1.0)
    told = f"{change:+.1%} ({before:.1f} -> {after:.1f} ms)"
    return Guardrail("p95 latency", shown, told, slow[0] <= TAIL, change)


def _broken(name: str, pairs: Sequence[Pair], score: str) -> Guardrail:
    """Answers that hold, case by case; fewer than the champion's only if that is sure, and more than the slack."""
    held = [(_held(pair.champion, score), _held(pair.challenger, score)) for pair in pairs]
    known = [(before, after) for before, after in held if before is not None and after is not None]
    if not known:
        return Guardrail(name, "as the champion", "no such cases", True)
    before, after = (fmean(arm) for arm in zip(*known, strict=True))
    worse = before - after > BROKEN_SLACK and _surely([old - new for old, new in known]) > 0
    return Guardrail(name, f">= {before - BROKEN_SLACK:.1%}", f"{after:.1%}", not worse, after)


def _held(trials: Sequence[Trial], score: str) -> float | None:
    marks = [t.rubric.scores[score] for t in trials if t.rubric is not None and score in t.rubric.scores]
    return fmean(mark >= 1.0 for mark in marks) if marks else None


def _failed_calls(failed_before: int, before: int, failed_after: int, after: int) -> Guardrail:
    share = failed_after / after if after else 0.0
    allowed = (failed_before / before if before else 0.0) + FAILED_SLACK
    surely = (wilson(failed_after, after, SURE_Z) or (0.0, 1.0))[0]
    return Guardrail("failed calls", f"<= {allowed:.1%}", f"{share:.1%}", surely <= allowed, share)
