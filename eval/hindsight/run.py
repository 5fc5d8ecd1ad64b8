"""Runs a back-test and says what it shows: both texts side by side on every new case, three times over.

The rule is plain on purpose: a promotion was proven once, on the cases that chose it. If its mean on new ones is not
even above zero, nobody has to prove that it is below: a person is asked to take it back.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from agents.llm_client import ModelOptions
from agents.model.call import Model
from eval.ab.record import rounded
from eval.ab.report import changes_by_agent, flips, text_diff, total_cost, unanswered, wins_ties_losses
from eval.ab.rounds import weights_of
from eval.ab.run import Pair
from eval.ab.sequential import interval
from eval.grading.judge import Judge
from eval.hindsight.plan import Plan, Promotion
from eval.hindsight.record import Tested, Verdict
from eval.trials.journal import Journal
from eval.trials.pool import run_all
from eval.trials.progress import Progress
from eval.trials.trial import Job, Trial
from telemetry.edge.frozen import frozen

ARMS = ("replaced", "live")


@frozen
class Played:
    """The trials of a run; `stopped` says why it ended early, if it did."""

    trials: Sequence[Trial]
    stopped: str


def run(plan: Plan, model: Model, journal: Journal, ask: ModelOptions, times: int, *, quiet: bool) -> Played:
    """Run what is not in the journal yet."""
    trials: list[Trial] = []
    most = 2 * times * sum(len(one.units) for one in plan.promotions)
    stopped = run_all(
        _jobs(plan, times),
        model,
        trials.append,
        Progress("back-test", most, quiet=quiet, max_usd=ask.max_usd),
        concurrency=ask.at_once,
        journal=journal,
        source="ab_test",
        judge=Judge(model, seed=plan.settings.seed),
    )
    return Played(trials, stopped)


def _jobs(plan: Plan, times: int) -> Iterator[Job]:
    """Case by case, both texts side by side, in a seeded order of each pass."""
    for promotion in plan.promotions:
        for number in range(times):
            units = list(promotion.units)
            random.Random(f"backtest {plan.settings.seed} {promotion.pair} {number}").shuffle(units)
            for at, unit in enumerate(units):
                texts = zip(ARMS, (promotion.then, promotion.now), strict=True)
                jobs = [
                    Job(_label(promotion, arm), text, unit.spec, unit.case, number) for arm, text in texts
                ]
                yield from jobs[:: 1 if (at + number) % 2 else -1]


def _label(promotion: Promotion, arm: str) -> str:
    return f"{promotion.live.name} {promotion.pair} {arm}"


def tested(promotion: Promotion, played: Played, least: int) -> Tested:
    """What the trials say about one promotion."""
    answers: dict[tuple[str, str], tuple[list[Trial], list[Trial]]] = defaultdict(lambda: ([], []))
    own: tuple[list[Trial], list[Trial]] = ([], [])
    labels = [_label(promotion, arm) for arm in ARMS]
    for trial in played.trials:
        if trial.arm in labels:
            at = labels.index(trial.arm)
            own[at].append(trial)
            if trial.counted:
                answers[trial.agent, trial.case_id][at].append(trial)
    weights = weights_of([unit.key for unit in promotion.units])
    pairs = [
        Pair(unit, weights[unit.key], *map(tuple, answers[unit.key]))
        for unit in promotion.units
        if all(answers[unit.key])
    ]
    mean, (low, high) = judged(pairs)
    verdict, reason = _verdict(len(pairs), mean, unanswered(*own), played.stopped, least)
    wins, ties, losses = wins_ties_losses(pairs)
    promised = promotion.decision.verdict.get("effect")
    return Tested(
        prompt=promotion.prompt,
        promotion=promotion.path,
        promoted_on=promotion.decision.date,
        promised=promised if isinstance(promised, float | int) else None,
        live=promotion.live.name,
        live_sha256=promotion.live.sha256,
        replaced_sha256=promotion.replaced.sha256,
        pair=promotion.pair,
        verdict=verdict,
        reason=reason,
        effect=rounded(mean),
        ci_low=rounded(low),
        ci_high=rounded(high),
        wins=wins,
        ties=ties,
        losses=losses,
        cases_used=len(pairs),
        cases_available=len(promotion.units),
        cases_lost=len(promotion.units) - len(pairs),
        calls=sum(map(len, own)),
        cost_usd=total_cost([*own[0], *own[1]]),
        agents=changes_by_agent(pairs),
        newly_right=flips(pairs, right=True),
        newly_wrong=flips(pairs, right=False),
        diff=text_diff(promotion.replaced.text, promotion.live.text, promotion.live.name),
    )


def judged(pairs: Sequence[Pair]) -> tuple[float, tuple[float, float]]:
    """The weighted mean of the differences and its 95 % interval; nothing is known of no pair."""
    if not pairs:
        return 0.0, (-1.0, 1.0)
    total = sum(pair.weight for pair in pairs)
    mean = sum(pair.weight * pair.difference for pair in pairs) / total
    bounded = [max(-1.0, min(1.0, pair.difference)) for pair in pairs]
    return mean, interval(bounded, weights=[pair.weight for pair in pairs])


def _verdict(cases: int, mean: float, outage: str, stopped: str, least: int) -> tuple[Verdict, str]:
    if stopped:
        return "inconclusive", "the run stopped early; run it again to go on"
    if outage:
        return "inconclusive", outage
    if cases < least:
        return "inconclusive", f"{cases} cases were answered, {least} are needed"
    if mean <= 1e-9:
        return "demote", f"no better than what it replaced on {cases} cases that came in since"
    return "stands", f"still better on {cases} cases that came in since"
