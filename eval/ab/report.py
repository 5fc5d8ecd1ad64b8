"""What did the A/B night find? The report as plain data, from which the pull-request body is made. Pure."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from agents.model import schema as schema_check
from agents.texts.variants import Origin
from eval.ab.compare import Board, Comparison, Pair, mean_score
from eval.ab.guardrails import Guardrail, cost_per_case, guardrails, p95, success_rate
from eval.ab.plan import CONTROL, Settings, Test
from eval.ab.sequential import LOWER_SHARE, PairedResult, interval
from eval.trials.trial import Trial
from telemetry.edge.text import MAX_PREVIEW, cut, redact
from telemetry.read.intervals import wilson

SCHEMA_VERSION = 1
SCHEMA = Path(__file__).parents[1] / "ab_test_report.schema.json"
MAX_LOST = 0.10  # of the calls; beyond that an outage decides, not the prompts

Rows = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How the run as a whole ended."""

    stopped: str = ""  # why it stopped early; empty if it did not


def tests(board: Board, ended: Ended, origins: Mapping[str, Origin]) -> list[Rows]:
    """One entry per prompt, in order; `origins` says by hash where a text came from."""
    return [_test(test, board, ended, origins) for test in board.plan.tests]


def problems_of(report: Rows) -> list[str]:
    """Where the report breaks its schema; empty for a sound one."""
    return schema_check.problems(schema_check.read_schema(SCHEMA), report)


def _test(test: Test, board: Board, ended: Ended, origins: Mapping[str, Origin]) -> Rows:
    compared = [one for one in board.comparisons if one.test is test]
    arms = [_arm(one, board, ended, origins) for one in compared]
    best = _best(arms)
    for arm in arms:
        arm["promoted"] = arm is best and arm["verdict"] == "promote"
        if arm["verdict"] == "promote" and not arm["promoted"] and best is not None:
            arm["reason"] = f"better than the champion, but {best['variant']} is better still"
    shown = compared[arms.index(best)] if best is not None else None
    score_a, score_b = _scores(shown.pairs) if shown else (None, None)
    promoted = best is not None and best["promoted"]
    return {
        "prompt": test.prompt,
        "agents": list(test.agents),
        "champion_sha256": test.champion.sha256,
        "challenger": best["variant"] if best else None,
        "score_A": score_a,
        "score_B": score_b,
        "delta_B_minus_A": None if score_a is None or score_b is None else _rounded(score_b - score_a),
        "winner": "B" if promoted else "A",
        "promoted": promoted,
        "detail_A": _detail(shown.pairs, challenger=False) if shown else {},
        "detail_B": _detail(shown.pairs, challenger=True) if shown else {},
        "arms": arms,
        "skipped": [asdict(skip) for skip in test.skipped],
    }


def _best(arms: Sequence[Rows]) -> Rows | None:
    """The arm to show as B: one to promote before others, then the one with the higher lower bound."""
    return max(
        arms, key=lambda arm: (arm["verdict"] == "promote", arm["ci_low"], arm["effect"]), default=None
    )


def _arm(one: Comparison, board: Board, ended: Ended, origins: Mapping[str, Origin]) -> Rows:
    result = one.statistics.result()
    settings = board.plan.settings
    attempts = _attempts(one, board)
    checks = guardrails(one.pairs, len(one.lost), settings, attempts)
    failed = [check for check in checks if not check.passed]
    verdict, reason = _verdict(one, result, ended, _failed_share(attempts), failed, settings)
    signs = [pair.difference for pair in one.pairs]
    wins, losses = sum(d > 1e-9 for d in signs), sum(d < -1e-9 for d in signs)
    rate = wilson(wins, wins + losses)
    own = [trial for trial in board.seen if trial.arm == one.arm.label]
    origin = origins.get(one.arm.variant.sha256)
    return {
        "variant": one.arm.variant.name,
        "sha256": one.arm.variant.sha256,
        "pair": one.arm.pair,
        "verdict": verdict,
        "reason": reason,
        "promoted": False,
        "effect": _rounded(result.mean),
        "ci_low": _rounded(result.ci_low),
        "ci_high": _rounded(result.ci_high),
        "confidence": _rounded(1 - one.test.alpha),
        "alpha": one.test.alpha,
        "e_value": float(f"{result.e_value:.6g}"),
        "e_needed": float(f"{1 / (one.test.alpha * LOWER_SHARE):.6g}"),
        "wins": wins,
        "ties": len(signs) - wins - losses,
        "losses": losses,
        "win_rate": None if rate is None else _rounded(wins / (wins + losses)),
        "win_rate_low": None if rate is None else _rounded(rate[0]),
        "win_rate_high": None if rate is None else _rounded(rate[1]),
        "cases_used": len(one.pairs),
        "cases_available": len(one.units),
        "cases_lost": len(one.lost),
        "calls": len(own),
        "failed_calls": _rounded(_failed_share(attempts)),
        "cost_usd": total_cost(own),
        "champion": _arm_figures([t for pair in one.pairs for t in pair.champion]),
        "challenger": _arm_figures([t for pair in one.pairs for t in pair.challenger]),
        "agents": _by_agent(one),
        "guardrails": [asdict(check) for check in checks],
        "newly_right": _flips(one.pairs, right=True),
        "newly_wrong": _flips(one.pairs, right=False),
        "lineage": None if origin is None else asdict(origin),
        "diff": redact(_diff(one.test.champion.text, one.arm.variant.text, one.arm.variant.name)),
    }


def _verdict(
    one: Comparison,
    result: PairedResult,
    ended: Ended,
    failed_calls: float,
    failed: Sequence[Guardrail],
    settings: Settings,
) -> tuple[str, str]:
    """The statistical verdict, unless an outage, a missing case or a guardrail speaks against it."""
    undecided = one.open and not one.exhausted
    if ended.stopped and (undecided or result.verdict == "promote"):
        return "inconclusive", "the run stopped early; run it again to go on"
    if undecided:
        return "inconclusive", f"{len(one.units) - len(one.pairs) - len(one.lost)} cases were not run"
    if failed_calls > MAX_LOST:
        return "inconclusive", f"{failed_calls:.0%} of the calls failed, at most {MAX_LOST:.0%} may"
    if result.verdict == "inconclusive" or len(one.pairs) < settings.min_cases:
        return "inconclusive", f"{len(one.pairs)} cases, at least {settings.min_cases} are needed"
    if settings.split != "holdout":
        return "inconclusive", f"measured on {settings.split} cases; only holdout cases decide"
    if result.verdict == "promote" and failed:
        checks = "; ".join(f"{check.name} {check.measured}, limit {check.limit}" for check in failed)
        return "keep", f"better, but blocked by a guardrail: {checks}"
    return result.verdict, result.reason


def _attempts(one: Comparison, board: Board) -> tuple[int, int, int, int]:
    """(failed, all) trials of the champion, then of the challenger, on the cases of this comparison."""
    counts = [0, 0, 0, 0]
    for unit in one.units:
        for place, label in ((0, CONTROL), (2, one.arm.label)):
            trials = board.finished.get((label, *unit.key), [])
            counts[place] += sum(not trial.counted for trial in trials)
            counts[place + 1] += len(trials)
    return counts[0], counts[1], counts[2], counts[3]


def _failed_share(attempts: tuple[int, int, int, int]) -> float:
    return (attempts[0] + attempts[2]) / max(1, attempts[1] + attempts[3])


def _scores(pairs: Sequence[Pair]) -> tuple[float | None, float | None]:
    """Mean scores of champion and challenger, every agent counting equally."""
    weight = sum(pair.weight for pair in pairs)
    if not weight:
        return None, None
    a = sum(pair.weight * mean_score(pair.champion) for pair in pairs) / weight
    b = sum(pair.weight * mean_score(pair.challenger) for pair in pairs) / weight
    return _rounded(a), _rounded(b)


def _detail(pairs: Sequence[Pair], *, challenger: bool) -> Rows:
    detail: Rows = {}
    for agent, own in _grouped(pairs).items():
        trials = [t for p in own for t in (p.challenger if challenger else p.champion) if t.counted]
        passed = sum(bool(trial.ok) for trial in trials)
        detail[agent] = {
            "cases": len(own),
            "total": len(trials),
            "passed": passed,
            "success_rate": _rounded(passed / len(trials)),
            "score": _rounded(fmean(trial.score or 0.0 for trial in trials)),
        }
    return detail


def _by_agent(one: Comparison) -> Rows:
    """The change agent by agent, each with its own interval (of one agent, not of all at once)."""
    found: Rows = {}
    planned = Counter(unit.spec.name for unit in one.units)
    for agent, own in _grouped(one.pairs).items():
        differences = [max(-1.0, min(1.0, pair.difference)) for pair in own]
        low, high = interval(differences, one.test.alpha, planned[agent])
        found[agent] = {
            "cases": len(own),
            "champion": _rounded(fmean(mean_score(pair.champion) for pair in own)),
            "challenger": _rounded(fmean(mean_score(pair.challenger) for pair in own)),
            "difference": _rounded(fmean(pair.difference for pair in own)),
            "ci_low": _rounded(low),
            "ci_high": _rounded(high),
        }
    return found


def _grouped(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair.unit.spec.name, []).append(pair)
    return dict(sorted(groups.items()))


def _arm_figures(trials: Sequence[Trial]) -> Rows:
    counted = [trial for trial in trials if trial.counted]
    cost, latency = cost_per_case(counted), p95(trial.latency_ms for trial in counted)
    return {
        "trials": len(trials),
        "failed": len(trials) - len(counted),
        "cost_per_case_usd": None if cost is None else float(f"{cost:.6g}"),
        "p95_latency_ms": None if latency is None else round(latency, 3),
    }


def total_cost(trials: Sequence[Trial]) -> float | None:
    """What they cost together; unknown as soon as one that was answered is unknown."""
    costs = [trial.cost_usd for trial in trials if trial.counted]
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 6) if len(known) == len(costs) else None


def _flips(pairs: Sequence[Pair], *, right: bool) -> list[Rows]:
    """Cases that changed sides: passed by most trials of one arm and not of the other."""
    flipped = []
    for pair in pairs:
        before, after = success_rate(pair.champion) > 0.5, success_rate(pair.challenger) > 0.5
        if before == after or after != right:
            continue
        flipped.append(
            {
                "case": pair.unit.case.id,
                "agent": pair.unit.spec.name,
                "expected": _preview([dict(wanted) for wanted in pair.unit.case.expect]),
                "champion": _answer(pair.champion),
                "challenger": _answer(pair.challenger),
                "why": redact("; ".join(_typical(pair.champion if right else pair.challenger).reasons)[:300]),
            }
        )
    return flipped


def _answer(trials: Sequence[Trial]) -> Rows:
    typical = _typical(trials)
    text = _preview(typical.output) if typical.error is None else redact(typical.error[:MAX_PREVIEW])
    return {"score": _rounded(mean_score(trials)), "output_preview": text}


def _typical(trials: Sequence[Trial]) -> Trial:
    """The trial nearest to the arm's mean on that case."""
    mean = mean_score(trials)
    counted = [trial for trial in trials if trial.counted]
    return min(counted, key=lambda trial: abs((trial.score or 0.0) - mean))


def _preview(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    short, lost = cut(redact(text), MAX_PREVIEW)
    return short + ("…" if lost else "")


def _diff(champion: str, challenger: str, name: str) -> str:
    lines = difflib.unified_diff(
        champion.splitlines(), challenger.splitlines(), "champion", name, n=2, lineterm=""
    )
    return "\n".join(lines)


def _rounded(value: float) -> float:
    return round(value, 6) + 0.0  # no -0.0
