"""What tests of agents share: an agent of the real manifest, a model that says what it is told to say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.base import BaseAgent, build_agent
from agents.domain import load_domain
from agents.manifest import AgentSpec, Manifest, load_manifest
from agents.model.call import Completion, Message, Model, log_call
from agents.offline.model import OfflineModel
from agents.texts.prompt_set import PromptSet
from telemetry.edge.repo import Repo, here
from tests.conftest import REPOSITORY

_MANIFEST: list[Manifest] = []


def spec(name: str) -> AgentSpec:
    """An agent of the real manifest."""
    if not _MANIFEST:
        _MANIFEST.append(load_manifest(Repo(REPOSITORY)))
    return _MANIFEST[0].agent(name)


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


def rows(root: Path | None = None) -> list[dict[str, Any]]:
    """The events logged in this test."""
    log = (root or here().root) / "telemetry/events.jsonl"
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []


class Says(Model):
    """A model that gives the answers it was given, in turn, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[list[Message]] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **_: Any
    ) -> Completion:
        """The next answer."""
        self.asked.append(list(messages))
        data = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        call = Completion(
            data, json.dumps(data), "says", "says", "test", 1, 1, cost_usd=0.0, cost_source="provider"
        )
        log_call(call)
        return call
