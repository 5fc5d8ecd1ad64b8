"""Decides who takes a task: candidates by capability, ranked by a strategy, one of them drawn.

multi-armed-bandit  who is probably the best by what runs earned, with a floor for everyone (`ucb`: by upper bound)
capability-match    who covers most of what is required; the better earner of equals
load-balance        who has the fewest tasks under way
fallback            the best first, and the next one where it fails
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agents.routing import BALANCE, BANDIT, MATCH
from agents.routing.choice import (
    MOST,
    Candidate,
    Decision,
    certain,
    drawn,
    floored,
    thompson,
    ucb,
)
from agents.routing.experience import Beliefs, Experience
from agents.routing.task import Task
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen

if TYPE_CHECKING:
    from agents.routing.policy import Policy

# How fallback weighs what it knows: capability, performance, load.
WEIGHTS: Final = (0.5, 0.3, 0.2)
OPTIMISM: Final = 2.0  # standard deviations: who makes the shortlist should include who might be the best


@frozen
class _Pool:
    """Who could take one task, and what is known of them."""

    names: Sequence[str]
    capability: Sequence[float]
    beliefs: Beliefs
    load: Sequence[float]
    left_out: int

    @property
    def performance(self) -> list[float | None]:
        """The expected reward; None of one who never ran."""
        pairs = zip(self.beliefs.mean.tolist(), self.beliefs.runs.tolist(), strict=True)
        return [round(mean, 6) if runs else None for mean, runs in pairs]


@dataclass(slots=True)
class Router:
    """Chooses among arms, each with its capabilities; knows what they earned and what is under way."""

    arms: Mapping[str, Collection[str]]
    experience: Experience
    chance: Callable[[], float]
    optimistic: bool = False  # UCB instead of Thompson
    policy: Policy | None = None  # a fitted one, in place of the bandit's own vector
    under_way: Counter[str] = field(default_factory=Counter)
    _names: tuple[str, ...] = ()
    _columns: Any = None  # by arm, where its experience stands
    _able: dict[str, Any] = field(default_factory=dict)  # capability -> by arm, whether it has it

    def __post_init__(self) -> None:
        import numpy as np

        self._names, self._columns = tuple(self.arms), self.experience.columns(self.arms)
        for at, capabilities in enumerate(self.arms.values()):
            for capability in capabilities:
                self._able.setdefault(capability, np.zeros(len(self.arms), dtype=int))[at] = 1

    def decide(self, task: Task, strategy: str = BANDIT, without: Collection[str] = ()) -> Decision:
        """Who takes the task, of those who are not ruled out; bad input where nobody has what it requires."""
        pool = self._pool(task, without)
        scores, vector, reason = self._ranked(task, strategy, pool)
        chosen = drawn(vector, self.chance)
        return Decision(
            requirements={"capabilities": list(task.requirements.capabilities)},
            selected_agent_id=pool.names[chosen],
            routing_strategy=strategy,
            confidence=round(max(0.0, min(1.0, scores[chosen])), 6),
            candidate_agents=tuple(_candidates(pool, scores, vector)),
            primary_reason=_why(reason, scores, chosen),
            secondary_factors=tuple(_factors(task, pool, chosen)),
            propensity=vector[chosen],
            policy_version=self._version(strategy),
        )

    def _version(self, strategy: str) -> str:
        if strategy == BANDIT and self.policy:
            return self.policy.policy_version
        by = ("ucb" if self.optimistic else "thompson") if strategy == BANDIT else strategy
        return f"{by}-1"

    def _pool(self, task: Task, without: Collection[str]) -> _Pool:
        import numpy as np

        wanted = task.requirements.capabilities
        covered = sum(
            (self._able[one] for one in wanted if one in self._able), np.zeros(len(self.arms), dtype=int)
        )
        covered = covered + (not wanted)  # a task that requires nothing is for everyone
        for name in without:
            covered[self._names.index(name)] = 0
        most = int(covered.max(initial=0))
        if not most:
            known = ", ".join(sorted(self._able)) or "none"
            asked = ", ".join(wanted) or "anything"
            raise BadInput(
                f"task {task.task_id}: no agent is left that can do {asked} (capabilities: {known})"
            )
        able = np.flatnonzero(covered == most)
        beliefs, left_out = self.experience.beliefs_at(task.task_type, self._columns[able]), 0
        if len(able) > MOST:  # the floor holds for so many; those that might be the best
            upper = (beliefs.mean + OPTIMISM * beliefs.sd).argsort(kind="stable")[::-1][:MOST]
            beliefs = Beliefs(beliefs.mean[upper], beliefs.sd[upper], beliefs.runs[upper])
            left_out, able = len(able) - MOST, able[upper]
        names, share = [self._names[at] for at in able], most / max(1, len(wanted))
        load = [1 / (1 + self.under_way[name]) for name in names]
        return _Pool(names, [share] * len(names), beliefs, load, left_out)

    def _ranked(self, task: Task, strategy: str, pool: _Pool) -> tuple[list[float], list[float], str]:
        """By candidate what the strategy ranks by, and the probability with which it is drawn; and the reason."""
        if strategy == BANDIT:
            if self.policy:
                best, reason = self.policy.shares(task.task_type, pool.names), "the fitted policy's share is"
            else:
                best = ucb(pool.beliefs) if self.optimistic else thompson(pool.beliefs)
                reason = "upper bound is the highest" if self.optimistic else "probability of being the best"
            return [round(one, 6) for one in best], floored(best), reason
        earned = pool.beliefs.mean.tolist()
        if strategy == MATCH:
            scores, reason = list(pool.capability), "share of the required capabilities"
        elif strategy == BALANCE:
            scores, reason = list(pool.load), "least load"
        else:
            parts = zip(pool.capability, earned, pool.load, strict=True)
            scores = [sum(w * one for w, one in zip(WEIGHTS, part, strict=True)) for part in parts]
            reason = "capability, performance and load"
        top = max(range(len(scores)), key=lambda at: (scores[at], earned[at]))
        return [round(one, 6) for one in scores], certain(top, len(scores)), reason


def _candidates(pool: _Pool, scores: Sequence[float], vector: Sequence[float]) -> list[Candidate]:
    columns = (pool.names, pool.capability, pool.performance, pool.load, scores, vector)
    top = max(scores)
    return [
        Candidate(name, share, earned, load, score, _reason(score == top, earned), probability)
        for name, share, earned, load, score, probability in zip(*columns, strict=True)
    ]


def _reason(leads: bool, performance: float | None) -> str:
    if leads:
        return "leads"
    return "explored" if performance is None else "behind"


def _why(reason: str, scores: Sequence[float], chosen: int) -> str:
    if scores[chosen] < max(scores):
        return f"explored: {reason} {scores[chosen]:.2f}, the leader's {max(scores):.2f}"
    return f"{reason}: {scores[chosen]:.2f}"


def _factors(task: Task, pool: _Pool, chosen: int) -> list[str]:
    """What else was looked at, in a few words each."""
    found = [f"{int(pool.beliefs.runs[chosen])} runs known", f"load {pool.load[chosen]:.2f}"]
    if task.requirements.capabilities and pool.capability[chosen] < 1:
        found.append(f"covers {pool.capability[chosen]:.0%} of what is required")
    if pool.left_out:
        found.append(f"{pool.left_out} more could do it")
    return found
