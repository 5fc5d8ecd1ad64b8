"""Draws which of its models an agent asks, for every run in the field, and logs the draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from agents.manifest import AgentSpec
from agents.model.settings import ModelSettings
from agents.routing.decide import Router
from agents.routing.experience import AT, Experience, load_drawn
from agents.routing.log import log_decision
from agents.routing.task import UNTYPED, Task
from telemetry.edge.files import Repo


class ModelRouter:
    """One bandit per agent over its `models`; `pick` of a `Runner`."""

    def __init__(
        self, specs: Iterable[AgentSpec], experience: Experience, chance: Callable[[], float]
    ) -> None:
        self._routers = {
            spec.name: Router(dict.fromkeys(arms_of(spec), ()), experience, chance)
            for spec in specs
            if spec.models
        }

    def __call__(self, spec: AgentSpec, run_id: str, about: Mapping[str, Any]) -> AgentSpec:
        known = {name: about[name] for name in ("complexity", "tenant_id") if name in about}
        asked = Task(about.get("task_id") or run_id, about.get("task_type") or UNTYPED, **known)
        decision = self._routers[spec.name].decide(asked)
        log_decision(decision, asked, run_id)
        return asking(spec, arms_of(spec)[decision.selected_agent_id])


def arms_of(spec: AgentSpec) -> dict[str, ModelSettings]:
    """`agent@model` -> how that model is asked."""
    return {f"{spec.name}{AT}{one.name}": one for one in spec.models}


def asking(spec: AgentSpec, model: ModelSettings) -> AgentSpec:
    """The agent, asking that model."""
    return replace(spec, model=model.name, model_settings=model.over(replace(spec.model_settings, name=None)))


def open_router(repo: Repo, specs: Iterable[AgentSpec], chance: Callable[[], float]) -> ModelRouter | None:
    """The router for those of these agents that have several models; None where none has."""
    routed = [spec for spec in specs if spec.models]
    if not routed:
        return None
    arms = [arm for spec in routed for arm in arms_of(spec)]
    return ModelRouter(routed, load_drawn(repo, arms), chance)
