"""What a night may take, told before anything is spent; dollars by what the last evals took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from eval.ab.plan import Plan, Test
from eval.ab.rounds import rounds_needed
from eval.ledger.results import stored
from telemetry.edge.files import Repo
from telemetry.record.pricing import Override, Usage, cost

SMALLER = (0.03, 0.02, 0.01)  # margins whose price is told beside the one asked for


def told(plan: Plan, max_usd: float | None) -> str:
    """Trials and dollars of tonight, in one line."""
    each = usd_of_one_round(plan)
    usd = (
        "at a cost that no eval has measured" if each is None else f"about ${plan.rounds_tonight * each:.2f}"
    )
    cap = "" if max_usd is None else f" (cap ${max_usd:.2f})"
    return f"at most {plan.max_calls} trials tonight, {usd}{cap}; {plan.max_finish} more to finish what is proven"


def margins(plan: Plan, test: Test) -> Iterator[str]:
    """What it takes to show that an equal model is not worse than by the margin, and than by smaller ones."""
    cases, each, limit = len(test.units(plan.order)), usd_of_one_round(plan, test), plan.settings.rounds
    for margin in (test.margin, *(smaller for smaller in SMALLER if smaller < test.margin)):
        rounds = rounds_needed(margin, cases)
        beyond = f" (--rounds {limit} is the limit)" if rounds > limit else ""
        usd = "" if each is None else f", about ${rounds * each:.2f}"
        yield f"margin {100 * margin:g} points: about {rounds} rounds{beyond}{usd}, if it is equally good"


def usd_of_one_round(plan: Plan, only: Test | None = None) -> float | None:
    """Of all tests, or of one; None where any of it is unknown."""
    control = plan.order if only is None else only.units(plan.order)
    trials: Counter[tuple[str, str, Override | None]] = Counter()
    trials.update((unit.spec.name, "", None) for unit in control)
    for test in plan.tests if only is None else (only,):
        units = test.units(plan.order)
        trials.update((unit.spec.name, arm.model, arm.price) for arm in test.arms for unit in units)
    total = 0.0
    for asked, count in trials.items():
        each = _cost_of_a_case(plan.control.repo, plan.about["provider"], *asked)
        if each is None:
            return None
        total += count * each
    return total


def _cost_of_a_case(
    repo: Repo, provider: str, agent: str, model: str, price: Override | None
) -> float | None:
    """By its last eval, whole or not; for another model by the tokens of that eval. None if it is not known."""
    try:
        summary = stored(repo, agent)["summary"]
        cases = summary["counted"]
        if not model:
            return float(summary["cost_usd"] / cases)
        usage = Usage(*(round(summary[name] / cases) for name in ("tokens_in", "tokens_out")))
    except (KeyError, TypeError, ZeroDivisionError):  # never measured, or not priced
        return None
    return cost(model, usage, provider=provider, override=price).usd
