"""Models that say what a test tells them to say."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from agents.model.call import Completion, LLMError, Message, Model, log_call, trial_label


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
            data,
            json.dumps(data),
            *("says", "says", "test", 1, 1),
            cost_usd=0.0,
            cost_source="provider",
            messages=messages,
        )
        log_call(call)
        return call


class Scripted(Model):
    """A model as good as the prompt says, for A/B tests; `dies_after` calls it only fails.

    `skill: 0.7` in a prompt makes it right in 70 % of its answers; what is drawn depends on the prompt, the case and
    the trial alone, so a rerun errs alike. `break: 1` breaks the schema, `cost: 2` doubles the price.
    """

    provider, model = "scripted", "scripted-1"

    def __init__(
        self,
        dies_after: int | None = None,
        delay_s: float = 0.0,
        says: str = "wrong",
        killed_at: int | None = None,
    ) -> None:
        self.dies_after, self.delay_s, self.says, self.calls = dies_after, delay_s, says, 0
        self.killed_at = killed_at  # the call that its process does not survive

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **_: Any
    ) -> Completion:
        self.calls += 1
        if self.calls == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(self.delay_s)
        if self.dies_after is not None and self.calls > self.dies_after:
            raise LLMError("connection refused", "provider")
        system, user = str(messages[0]["content"]), str(messages[1]["content"])
        told = {name: float(value) for name, value in re.findall(r"(skill|break|cost): ([\d.]+)", system)}
        draw = hashlib.sha256(f"{trial_label.get()} {system} {user}".encode()).digest()
        share = int.from_bytes(draw[:4]) / 2**32
        data: Any = {"items": [{"answer": "right" if share < told.get("skill", 0.7) else self.says}]}
        if share < told.get("break", 0.0):
            data = {"items": [{"reply": "broken"}]}
        call = Completion(
            data=data,
            raw=json.dumps(data),
            model_asked="scripted-1",
            model_answered="scripted-1",
            provider="scripted",
            tokens_in=100,
            tokens_out=10,
            cost_usd=0.001 * told.get("cost", 1.0),
            cost_source="provider",
            latency_ms=1.0,
            messages=messages,
        )
        log_call(call)
        return call
