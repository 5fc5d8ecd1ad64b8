"""An agent without code: a prompt, an output schema and a suite in the manifest are all there is.

The model gets the agent's inputs with the domain's arithmetic done, and answers `{"items": [...]}`, each item as the
output schema says.
"""

from __future__ import annotations

import functools
from typing import Any

from agents.base import BaseAgent, Inputs, Item
from agents.domain import load_domain
from agents.manifest import AgentSpec
from agents.model.schema import listed
from agents.sources.source import SourceError
from agents.texts.prompt_set import PromptSet


class PromptedAgent(BaseAgent):
    """Asks the model once and returns its items."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """The model's items on the prepared inputs."""
        answer = await self.ask(_question(self.spec, inputs), self._answer_schema)
        items: list[Item] = answer["items"]
        return items

    def checked(self, output: Any) -> list[Item]:
        """The items of an answer have been, when it was read; what a subclass makes of them has not."""
        return output if type(self) is PromptedAgent else super().checked(output)

    @functools.cached_property
    def _answer_schema(self) -> dict[str, Any]:
        return listed(self.output_schema())


def _question(spec: AgentSpec, inputs: Inputs) -> Inputs:
    kind = load_domain(spec.domain).inputs.get(spec.inputs)
    return kind.prepare(inputs) if kind else inputs


def unknown_offline(spec: AgentSpec, prompts: PromptSet, inputs: Inputs) -> str:
    """Why the offline model would have no answer for this agent on such inputs; empty where it has one.

    Who has code decides there what to ask: nothing can be said of it before it does.
    """
    from agents.offline.analysts import GENERIC
    from agents.offline.model import UNKNOWN_TASK
    from agents.offline.rules import chosen, read

    if spec.module != __name__:
        return ""
    analysts = {**GENERIC, **load_domain(spec.domain).analysts}
    rules = read(prompts.system(spec))
    if chosen(analysts, rules, {}):  # the prompt names one, whatever the question
        return ""
    try:
        payload = {"task": spec.name, **_question(spec, inputs)}
    except (KeyError, TypeError, ValueError, SourceError):
        return ""  # inputs that cannot be prepared: whoever runs it will tell
    return "" if chosen(analysts, rules, payload) else UNKNOWN_TASK
