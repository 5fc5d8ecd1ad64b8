"""The toy's agent with code: Python measures the gauges, the model says which of them are an alarm."""

from __future__ import annotations

from agents.base import BaseAgent, Inputs, Item
from agents.model.schema import listed
from tests.worlds import toy


class FloodWatch(BaseAgent):
    async def analyze(self, inputs: Inputs) -> list[Item]:
        given = toy.measured(inputs)
        levels = {gauge["gauge"]: gauge["value"] for gauge in given["gauges"]}
        answer = await self.ask(given, listed(self.output_schema()))
        return [
            {**item, "value": levels[item["gauge"]]} for item in answer["items"] if item["gauge"] in levels
        ]
