"""An agent without code: a prompt, an output schema and a suite in the manifest are all there is.

The model gets the agent's inputs with the arithmetic done (features of macro series, priced venue pairs), and
answers `{"items": [...]}`, each item as the output schema says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.base import BaseAgent, Inputs, Item
from agents.model.schema import listed


class PromptedAgent(BaseAgent):
    """Asks the model once and returns its items."""

    async def analyze(self, inputs: Inputs) -> list[Item]:
        """The model's items on the prepared inputs."""
        payload = prepared(self.spec.inputs, inputs)
        answer = await self.ask(payload, listed(self.output_schema()))
        items: list[Item] = answer["items"]
        return items


def prepared(kind: str, inputs: Inputs) -> Mapping[str, Any]:
    """The inputs of a kind with the arithmetic done; other kinds as they are."""
    if kind == "macro":
        from agents.market.macro_watcher import payload

        return payload(inputs)
    if kind == "quotes":
        from agents.market.arbitrage_finder import payload as priced

        return priced(inputs)
    return inputs
