"""What tests of the shipped example share: its agents, with the rules of the tests or as they ship."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import yaml

from agents.base import BaseAgent, build_agent
from agents.domain import load_domain
from agents.manifest import AgentSpec, Manifest, load_manifest
from agents.market import DOMAIN
from agents.model.call import Model
from agents.offline.model import OfflineModel
from agents.texts.prompt_set import PromptSet
from telemetry.edge.files import MANIFEST, Repo
from tests.conftest import REPOSITORY
from tests.worlds import world

AGENTS = DOMAIN.agents


@functools.cache
def _manifest() -> Manifest:
    return load_manifest(Repo(REPOSITORY))


def spec(name: str) -> AgentSpec:
    """An agent as it ships."""
    return _manifest().agent(name)


def built(name: str, prompt: str | None = None, model: Model | None = None) -> BaseAgent:
    """That agent, on the offline model, with the rules of the tests or another prompt."""
    entry = spec(name)
    overrides = {str(entry.prompt): rules(name) if prompt is None else prompt}
    offline = OfflineModel(analysts=load_domain(entry.domain).analysts)
    return build_agent(entry, PromptSet(Repo(REPOSITORY), overrides), model or offline)


def rules(name: str) -> str:
    """A fixed prompt for that agent: the live one moves with every promotion, and must not break a test."""
    return (REPOSITORY / f"tests/rules/{name}.md").read_text("utf-8")


def live_prompt(name: str) -> str:
    """The text of that agent's own prompt as it is now."""
    return (REPOSITORY / str(spec(name).prompt)).read_text("utf-8")


def shipped(root: Path, fixed: bool = True) -> Path:
    """A checkout with what ships, everyone switched on; with the rules of the tests, or whoever is champion."""
    for folder in ("agents/prompts", "agents/schemas", "agents/sample", "eval/suites"):
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=shutil.ignore_patterns("variants"))
    raw = yaml.safe_load((REPOSITORY / MANIFEST).read_text())
    for entry in raw["agents"]:
        entry.pop("enabled", None)
    world.put(root, MANIFEST, yaml.safe_dump(raw, sort_keys=False))
    for name in AGENTS if fixed else ():
        world.put(root, str(spec(name).prompt), rules(name))
    return root
