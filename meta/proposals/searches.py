"""The searches for challengers: what each one took, and when a prompt is due for the next.

Most ideas are no better, so a few that lost in a row say little. After that every further one doubles the wait, up to
two weeks: a prompt that brings nothing costs some thirty searches a year instead of one a night, and is never given up.
A new text to start from, or another model, and the count begins anew. Searches stand in `eval/history.jsonl`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from agents.model.call import Completion, LLMError, Message, Model
from eval.ledger.provenance import append_history, history
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import made, plain

FREE_FAILURES = 3  # in a row: no reason to wait yet
MOST_NIGHTS = 14  # between two searches of a prompt


@frozen
class Search:
    """One search: for which prompt, from which text on, what it took, and the text that came of it."""

    prompt: str = ""
    base_sha256: str = ""
    calls: int = 0
    cost_usd: float | None = None  # None is unknown
    sha256: str | None = None  # None: nothing was worth a test
    date: str = ""


def nights_between(failures: int) -> int:
    """How long a prompt rests after so many searches in a row that brought nothing better."""
    return 0 if failures <= FREE_FAILURES else min(2 ** min(failures - FREE_FAILURES, 30), MOST_NIGHTS)


def due(failed: Sequence[date]) -> date | None:
    """When a prompt is searched again that failed on these days; None: it never did."""
    return max(failed) + timedelta(days=nights_between(len(failed))) if failed else None


def fruitless(earlier: Sequence[Search], prompt: str, base_sha256: str) -> list[date]:
    """The days on which a search from this text on found nothing worth a test; one started twice a day is one."""
    about = (one for one in earlier if (one.prompt, one.base_sha256) == (prompt, base_sha256))
    return [date.fromisoformat(day) for day in sorted({one.date for one in about if one.sha256 is None})]


def earlier(repo: Repo, model: Mapping[str, Any]) -> list[Search]:
    """Every search with this model, oldest first."""
    lines = (line for line in history(repo, "proposals") if line.metadata.get("model") == model)
    return [replace(made(Search, one), date=line.date) for line in lines for one in line.listed("searches")]


def remember(repo: Repo, searches: Sequence[Search], model: Mapping[str, Any]) -> None:
    """One line of history for the searches of a run that asked the model for anything."""
    if asked := [plain(one) for one in searches if one.calls]:
        append_history(repo, "proposals", {"searches": asked}, {"model": dict(model)})


class Meter(Model):
    """A model that counts what it is asked and what that costs."""

    def __init__(self, model: Model) -> None:
        self._model, self.inner = model, getattr(model, "inner", model)
        self._costs: list[float | None] = []  # of each call; None is unknown

    async def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        try:
            done = await self._model.complete(messages, **options)
        except LLMError as problem:
            if problem.error_kind != "budget":  # that one was never sent
                self._costs.append(None)
            raise
        self._costs.append(done.cost_usd)
        return done

    def start(self) -> None:
        """Count from here on."""
        self._costs.clear()

    def search(self, prompt: str, base_sha256: str = "", sha256: str | None = None) -> Search:
        """What was counted, as the search it was for; without a text to start from it failed before it found out."""
        known = [cost for cost in self._costs if cost is not None]
        cost = sum(known) if len(known) == len(self._costs) else None
        return Search(prompt, base_sha256, len(self._costs), cost, sha256)

    async def aclose(self) -> None:
        await self._model.aclose()
