"""Models that say what a test tells them to say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.model.call import Completion, Message, Model, log_call


class Says(Model):
    """Gives the answers it was given, in turn, the last one for ever; an exception among them is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[list[Message]] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **_: Any
    ) -> Completion:
        """The next answer."""
        self.asked.append(list(messages))
        data = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(data, Exception):
            raise data
        call = Completion(
            data, json.dumps(data), "says", "says", "test", 1, 1, cost_usd=0.0, cost_source="provider"
        )
        log_call(call)
        return call
