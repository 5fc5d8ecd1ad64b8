"""Tasks routed by the real router to agents whose worth is known: as a log in memory, or as rows on disk."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from agents.routing.choice import Decision
from agents.routing.decide import Router
from agents.routing.experience import Experience
from agents.routing.log import Log, _packed
from agents.routing.policy import Policy
from agents.routing.task import Task
from telemetry.edge.records import plain
from tests.worlds import eventlog

NOISE = 0.3


@dataclass(frozen=True, slots=True)
class World:
    """What each agent really earns on each type of task."""

    worth: dict[str, dict[str, float]]  # type -> agent -> mean reward
    noise: float = NOISE  # 0: a run earns 1 or nothing

    @property
    def agents(self) -> list[str]:
        return list(next(iter(self.worth.values())))

    def reward(self, task_type: str, agent: str, chance: random.Random) -> float:
        mean = self.worth[task_type][agent]
        return chance.gauss(mean, self.noise) if self.noise else float(chance.random() < mean)


def some_world(seed: int, types: int = 4, agents: int = 5, noise: float = NOISE) -> World:
    chance = random.Random(seed)
    names = [f"agent_{number}" for number in range(agents)]
    return World(
        {f"type_{one}": {name: chance.uniform(0.3, 0.7) for name in names} for one in range(types)}, noise
    )


def played(
    world: World, tasks: int, seed: int, ucb: bool = False, policy: Policy | None = None
) -> list[tuple[Task, Decision, float]]:
    """So many tasks of random types, one after the other, each told to the router when it is done."""
    chance = random.Random(seed)
    router = Router(dict.fromkeys(world.agents, ()), Experience(world.agents), chance.random, ucb, policy)
    done = []
    for number in range(tasks):
        task = Task(f"t{number}", chance.choice(list(world.worth)))
        decision = router.decide(task)
        earned = world.reward(task.task_type, decision.selected_agent_id, chance)
        router.experience.observe(decision.selected_agent_id, task.task_type, earned)
        done.append((task, decision, earned))
    return done


def regret(world: World, done: Sequence[tuple[Task, Decision, float]]) -> float:
    """What was lost against the best agent for each task, as a share of what choosing blindly loses."""
    lost = blind = 0.0
    for task, decision, _ in done:
        known = world.worth[task.task_type]
        lost += max(known.values()) - known[decision.selected_agent_id]
        blind += max(known.values()) - float(np.mean(list(known.values())))
    return lost / blind


def as_log(done: Sequence[tuple[Task, Decision, float]]) -> Log:
    """As it would be read back from disk."""
    rows = []
    for number, (task, decision, earned) in enumerate(done):
        told = plain(decision)
        when = eventlog.START.replace(tzinfo=None) + (eventlog.timedelta(seconds=number))
        said = (told["selected_agent_id"], orjson.dumps(told["candidate_agents"]), told["routing_strategy"])
        rows.append((when, task.task_type, *said, earned))
    return _packed(rows)


def as_rows(done: Sequence[tuple[Task, Decision, float]], **fields: Any) -> list[dict[str, Any]]:
    """The events of such choices and of the runs they led to; `fields` are the runs'."""
    rows = []
    for number, (task, decision, earned) in enumerate(done):
        when = eventlog.START + eventlog.timedelta(seconds=number)
        ts = when.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        about = {"ts": ts, "run_id": f"r{number}", "agent": decision.selected_agent_id} | task.about
        choice = {"event_id": f"c{number:06}", "kind": "routing", "reward": None} | plain(decision)
        rows.append(eventlog.event(**about, **choice))
        rows.append(eventlog.event(**about, event_id=f"e{number:06}", reward=earned) | fields)
    return rows


def sure(decision: Decision, strategy: str) -> Decision:
    """The same choice, made without a draw."""
    candidates = tuple(
        replace(one, probability=float(one.agent_id == decision.selected_agent_id))
        for one in decision.candidate_agents
    )
    return replace(decision, routing_strategy=strategy, candidate_agents=candidates, propensity=1.0)
