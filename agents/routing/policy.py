"""A routing policy as a file: by task type, the shares of agents; how one is read, played, and learned from a log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from agents.routing.experience import Experience
from agents.routing.log import Log
from agents.routing.task import check, read_json
from telemetry.edge.files import as_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import made, plain

Shares = Mapping[str, float]

_SHARES: Final = {
    "description": "a mapping of agent -> share > 0",
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {"description": "a share > 0", "type": "number", "exclusiveMinimum": 0},
}
SCHEMA: Final[dict[str, Any]] = {
    "description": "a mapping with policy_version and otherwise, and maybe by_task_type",
    "type": "object",
    "additionalProperties": False,
    "required": ["policy_version", "otherwise"],
    "properties": {
        "policy_version": {"description": "a text", "type": "string", "minLength": 1},
        "by_task_type": {
            "description": "a mapping of task type -> shares",
            "type": "object",
            "additionalProperties": _SHARES,
        },
        "otherwise": _SHARES,
        "learned_from": {"description": "a mapping", "type": "object"},
    },
}


@frozen
class Policy:
    """Who takes which type of task, with which share; played with a floor for every candidate like all others."""

    policy_version: str
    otherwise: Shares
    by_task_type: Mapping[str, Shares] = field(default_factory=dict)
    learned_from: Mapping[str, Any] = field(default_factory=dict)

    def shares(self, task_type: str, names: Sequence[str]) -> list[float]:
        """Its vector over these candidates; equal shares where it knows none of them."""
        for table in (self.by_task_type.get(task_type, {}), self.otherwise):
            given = [table.get(name, 0.0) for name in names]
            if any(given):
                return [one / sum(given) for one in given]
        return [1 / len(names)] * len(names)


def load_policy(path: Path) -> Policy:
    """The policy of a file."""
    raw = read_json(path)
    check(SCHEMA, raw, f"{path}: ", "policy")
    return made(Policy, raw)


def as_text(policy: Policy) -> str:
    """The file of a policy."""
    return as_json(plain(policy))


def learned(log: Log) -> Policy:
    """The policy that gives each type of task to whoever is believed to earn most on it."""
    experience = Experience(log.arms)
    for row in range(len(log.reward)):
        experience.observe(log.arms[log.chosen[row]], log.types[log.type_of[row]], float(log.reward[row]))
    by_type = {name: _best(experience, name, log.arms) for name in sorted(log.types)}
    overall = _best(experience, "", log.arms)
    about = {"decisions": len(log.reward), "from": log.ts[0], "to": log.ts[-1]}
    text = json.dumps([by_type, overall, about], sort_keys=True)
    version = f"fit-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return Policy(version, {overall: 1.0}, {name: {arm: 1.0} for name, arm in by_type.items()}, about)


def _best(experience: Experience, task_type: str, arms: Sequence[str]) -> str:
    mean = experience.beliefs(task_type, arms).mean
    return arms[int(mean.argmax())]
