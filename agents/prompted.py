"""An agent without code: a prompt, an output schema and a suite in the manifest are all there is.

The model gets the agent's inputs with the domain's arithmetic done, and answers `{"items": [...]}`, each item as the
output schema says.
"""

from __future__ import annotations

from agents.base import BaseAgent, Inputs, Item
from agents.domain import load_domain
from agents.model.schema import listed


class PromptedAgent(BaseAgent):
    """Asks the model once and returns its items."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """The model's items on the prepared inputs."""
        kind = load_domain(self.spec.domain).inputs.get(self.spec.inputs)
        answer = await self.ask(kind.prepare(inputs) if kind else inputs, listed(self.output_schema()))
        items: list[Item] = answer["items"]
        return items
