"""What an A/B night found, as the report's records. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from agents.texts.variants import Origin
from eval.ab import plan, record
from eval.ab.guardrails import by_agents, cost_per_case, guardrails, p95, success_rate
from eval.ab.record import rounded, short
from eval.ab.rounds import Result
from eval.ab.run import Board, Comparison, Pair, mean_score, share, unreadable
from eval.ab.sequential import LOWER_SHARE, interval
from eval.ledger.provenance import one_or_list, seen_in
from eval.trials.results import all_known
from eval.trials.trial import Trial
from telemetry.edge.text import MAX_PREVIEW, cut, redact
from telemetry.read.intervals import wilson


def found(board: Board, origins: Mapping[str, Origin]) -> tuple[record.Test, ...]:
    """One entry per prompt, in order; `origins` says by hash where a text came from."""
    return tuple(_test(test, board, origins) for test in board.plan.tests)


def spend_of(trials: Sequence[Trial], max_usd: float | None) -> record.Spend:
    """What these trials took; every attempt is a call."""
    return record.Spend(
        trials=len(trials),
        trials_resumed=sum(trial.resumed for trial in trials),
        calls=sum(turn.get("attempts", 1) for trial in trials for turn in trial.turns),
        cost_usd=total_cost(trials),
        max_usd=max_usd,
    )


def total_cost(trials: Sequence[Trial]) -> float | None:
    """What they cost together; unknown as soon as one that was answered is unknown."""
    known = all_known(trial.cost_usd for trial in trials if trial.counted)
    return None if known is None else round(sum(known), 6)


def _test(test: plan.Test, board: Board, origins: Mapping[str, Origin]) -> record.Test:
    compared = [one for one in board.comparisons if one.test is test]
    arms = [_arm(one, board, origins) for one in compared]
    # The arm to show as B: one to promote before others, then the one with the higher lower bound.
    ranks = [(arm.verdict == "promote", arm.ci_low, arm.effect) for arm in arms]
    at = max(range(len(arms)), key=ranks.__getitem__, default=None)
    best, pairs = (None, []) if at is None else (arms[at], compared[at].pairs)
    promoted = best is not None and best.verdict == "promote"
    for place, arm in enumerate(arms):
        if arm.verdict == "promote" and best is not None:
            still = (
                f"{compared[place].match.rules.claim} than the champion, but {best.variant} is better still"
            )
            arms[place] = replace(arm, promoted=True) if place == at else replace(arm, reason=still)
    score_a, score_b = _scores(pairs)
    by_agent = by_agents(pairs)
    return record.Test(
        prompt=test.prompt,
        agents=test.agents,
        champion_sha256=test.champion.sha256,
        challenger=best.variant if best else None,
        score_A=score_a,
        score_B=score_b,
        delta_B_minus_A=None if score_a is None or score_b is None else rounded(score_b - score_a),
        winner="B" if promoted else "A",
        promoted=promoted,
        detail_A={agent: _detail([pair.champion for pair in own]) for agent, own in by_agent.items()},
        detail_B={agent: _detail([pair.challenger for pair in own]) for agent, own in by_agent.items()},
        arms=tuple(arms),
        skipped=test.skipped,
        suites=test.suites,
        wear=test.wear,
        model=test.model,
        margin=test.margin,
    )


def _arm(one: Comparison, board: Board, origins: Mapping[str, Origin]) -> record.Arm:
    result, pairs = one.match.result(), one.pairs
    champion, challenger = one.attempts
    failed, failed_too = (sum(not trial.counted for trial in arm) for arm in (champion, challenger))
    attempted = failed, len(champion), failed_too, len(challenger)
    checks = guardrails(pairs, len(one.lost), board.plan.settings, attempted, one.test.margin)
    seen = seen_in([*champion, *challenger])
    verdict, reason = _verdict(one, board, result, champion, challenger, checks)
    wins, ties, losses = wins_ties_losses(pairs)
    rate = wilson(wins, wins + losses)
    variant = one.arm.variant
    return record.Arm(
        variant=variant.name,
        sha256=variant.sha256,
        pair=one.arm.pair,
        verdict=verdict,
        reason=reason,
        promoted=False,
        effect=rounded(result.mean),
        ci_low=rounded(result.ci_low),
        ci_high=rounded(result.ci_high),
        confidence=0.95 if result.finished else rounded(1 - one.test.alpha),
        alpha=one.test.alpha,
        e_value=short(result.e_value),
        e_needed=short(1 / (one.test.alpha * LOWER_SHARE)),
        wins=wins,
        ties=ties,
        losses=losses,
        win_rate=None if rate is None else rounded(wins / (wins + losses)),
        win_rate_low=None if rate is None else rounded(rate[0]),
        win_rate_high=None if rate is None else rounded(rate[1]),
        rounds=result.rounds,
        finished=result.finished,
        cases_used=len(one.match.fresh if result.finished else one.match.scores),
        cases_available=len(one.units),
        cases_lost=len(one.lost),
        calls=len(challenger),
        failed_calls=rounded(share([*champion, *challenger], lambda trial: not trial.counted)),
        cost_usd=total_cost(challenger),
        champion=_figures([t for pair in pairs for t in pair.champion]),
        challenger=_figures([t for pair in pairs for t in pair.challenger]),
        agents=changes_by_agent(pairs),
        guardrails=tuple(checks),
        newly_right=flips(pairs, right=True),
        newly_wrong=flips(pairs, right=False),
        lineage=origins.get(variant.sha256),
        diff=text_diff(one.test.champion.text, variant.text, variant.name),
        families=result.families,
        family_low=None if result.robust is None else rounded(result.robust[0]),
        family_high=None if result.robust is None else rounded(result.robust[1]),
        bill=_bill(one, [*champion, *challenger], origins.get(variant.sha256)),
        model=one.arm.model,
        model_asked=one_or_list(seen.model_asked),
        model_answered=one_or_list(seen.model_answered),
        judged=sum(
            any(part["grader"] == "llm_judge" for part in unit.case.expect) for unit in one.units.values()
        ),
    )


def _bill(one: Comparison, tonight: Sequence[Trial], origin: Origin | None) -> record.Bill:
    """Tonight's trials, and what came before: earlier nights, or else only the model that proposed the text."""
    calls, cost = sum(len(trial.turns) for trial in tonight), total_cost(tonight)
    before = one.plan.paid.get(one.arm.pair)
    if before is None:
        proposed = origin is not None and origin.source == "proposal"
        before = record.Bill(origin.calls, origin.cost_usd) if origin and proposed else record.Bill(0, 0.0)
    return record.Bill(
        None if before.calls is None else before.calls + calls,
        None if before.cost_usd is None or cost is None else round(before.cost_usd + cost, 6),
    )


def _verdict(
    one: Comparison,
    board: Board,
    result: Result,
    champion: Sequence[Trial],
    challenger: Sequence[Trial],
    checks: Sequence[record.Guardrail],
) -> tuple[str, str]:
    """The verdict of the rule, unless an outage, unreadable answers or a guardrail speak against it."""
    settings = board.plan.settings
    undecided = result.verdict in ("continue", "inconclusive")
    if outage := unanswered(champion, challenger):
        return "inconclusive", outage
    if one.unpriced and undecided:
        unknown = "what it costs is not known, so nobody can say that it is cheaper: give its price"
        return "inconclusive", unknown
    if board.stopped and undecided:
        return "inconclusive", "the run stopped early; run it again to go on"
    if settings.split != "holdout" and not undecided:
        return "inconclusive", f"measured on {settings.split} cases; only holdout cases decide"
    if result.verdict not in ("promote", "blocked"):
        return result.verdict, result.reason
    if settings.wear == "block" and one.test.wear > settings.wear_limit:
        return "inconclusive", f"its holdout has given {one.test.wear} verdicts: add fresh cases"
    failing = [f"{check.name} {check.measured}, limit {check.limit}" for check in checks if not check.passed]
    if failing:
        return "blocked", f"{one.match.rules.claim}, but {'; '.join(failing)}"
    return "promote", f"{one.match.rules.claim}, beyond reasonable doubt"


def unanswered(champion: Sequence[Trial], challenger: Sequence[Trial]) -> str:
    """Why these trials say nothing, if too many calls failed or neither arm could be read."""
    failed = share([*champion, *challenger], lambda trial: not trial.counted)
    unread = unreadable(champion, challenger)
    if failed > record.MAX_LOST:
        return f"{failed:.0%} of the calls failed, at most {record.MAX_LOST:.0%} may"
    if unread > record.MAX_UNREADABLE:
        return f"{unread:.0%} of the answers of both arms could not be read: is it the right model?"
    return ""


def wins_ties_losses(pairs: Sequence[Pair]) -> tuple[int, int, int]:
    """Of the challenger, case by case."""
    signs = [pair.difference for pair in pairs]
    wins, losses = sum(d > 1e-9 for d in signs), sum(d < -1e-9 for d in signs)
    return wins, len(signs) - wins - losses, losses


def _scores(pairs: Sequence[Pair]) -> tuple[float | None, float | None]:
    """Mean scores of champion and challenger, every agent counting equally."""
    weight = sum(pair.weight for pair in pairs)
    if not weight:
        return None, None
    a = sum(pair.weight * mean_score(pair.champion) for pair in pairs) / weight
    b = sum(pair.weight * mean_score(pair.challenger) for pair in pairs) / weight
    return rounded(a), rounded(b)


def _detail(cases: Sequence[Sequence[Trial]]) -> record.Detail:
    trials = [trial for case in cases for trial in case if trial.counted]
    passed = sum(bool(trial.ok) for trial in trials)
    score = fmean(trial.score or 0.0 for trial in trials)
    return record.Detail(len(cases), len(trials), passed, rounded(passed / len(trials)), rounded(score))


def changes_by_agent(pairs: Sequence[Pair]) -> dict[str, record.AgentChange]:
    """The change agent by agent, each with its own interval (of one agent, not of all at once)."""
    changes = {}
    for agent, own in by_agents(pairs).items():
        low, high = interval([max(-1.0, min(1.0, pair.difference)) for pair in own])
        figures = (
            fmean(mean_score(pair.champion) for pair in own),
            fmean(mean_score(pair.challenger) for pair in own),
            fmean(pair.difference for pair in own),
            *(low, high),
            fmean(success_rate(pair.champion) for pair in own),
            fmean(success_rate(pair.challenger) for pair in own),
        )
        changes[agent] = record.AgentChange(len(own), *map(rounded, figures))
    return changes


def _figures(trials: Sequence[Trial]) -> record.Figures:
    counted = [trial for trial in trials if trial.counted]
    cost, latency = cost_per_case(counted), p95(trial.latency_ms for trial in counted)
    return record.Figures(
        trials=len(trials),
        failed=len(trials) - len(counted),
        cost_per_case_usd=None if cost is None else short(cost),
        p95_latency_ms=None if latency is None else round(latency, 3),
    )


def flips(pairs: Sequence[Pair], *, right: bool) -> tuple[record.Flip, ...]:
    """Cases that changed sides: passed by most trials of one arm and not of the other."""
    flipped = []
    for pair in pairs:
        before, after = success_rate(pair.champion) > 0.5, success_rate(pair.challenger) > 0.5
        if before == after or after != right:
            continue
        case, failing = pair.unit.case, pair.champion if right else pair.challenger
        flipped.append(
            record.Flip(
                case=case.id,
                agent=pair.unit.spec.name,
                expected=_preview(case.expect),
                champion=_answer(pair.champion),
                challenger=_answer(pair.challenger),
                why=redact("; ".join(_typical(failing).reasons)[:300]),
            )
        )
    return tuple(flipped)


def _answer(trials: Sequence[Trial]) -> record.Answer:
    typical = _typical(trials)
    text = _preview(typical.output) if typical.error is None else redact(typical.error[:MAX_PREVIEW])
    return record.Answer(rounded(mean_score(trials)), text)


def _typical(trials: Sequence[Trial]) -> Trial:
    """The trial nearest to the arm's mean on that case."""
    mean = mean_score(trials)
    counted = [trial for trial in trials if trial.counted]
    return min(counted, key=lambda trial: abs((trial.score or 0.0) - mean))


def _preview(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    short, lost = cut(redact(text), MAX_PREVIEW)
    return short + ("…" if lost else "")


def text_diff(champion: str, challenger: str, name: str) -> str:
    """What changes from one text to the other, fit to be shown."""
    texts = champion.splitlines(), challenger.splitlines()
    return redact("\n".join(difflib.unified_diff(*texts, "champion", name, n=2, lineterm="")))
