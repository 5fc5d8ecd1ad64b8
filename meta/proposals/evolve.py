"""Finds a better text by GEPA's search (package `gepa`, arXiv 2507.19457): their search, our acceptor.

GEPA keeps a pool of texts, picks one that is best at some case, and has it rewritten in the light of a few cases. What
is asked, what a text may say, how it is marked and what it may cost stay ours: tune cases only, every text checked
before it costs a trial, and of what is found the best one is taken that our own climb would have taken, too.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from meta.proposals.edits import EditError
from meta.proposals.screen import Mark, Screen
from meta.proposals.search import Ask, Climb, Effort, Fits, Proposal, lasting
from telemetry.edge.errors import BadInput
from telemetry.record.run import error_kind

PROMPT = "prompt"  # GEPA's name for the one text that evolves

T = TypeVar("T")
Texts = Mapping[str, str]


def require_gepa() -> None:
    """Refuse in one line where the package is missing."""
    if importlib.util.find_spec("gepa") is None:
        raise BadInput(
            "agents/manifest.yaml: proposer: gepa is not installed here: pip install -e '.[gepa]', or set ratchet"
        )


async def evolve(
    start: Climb, screen: Screen, ask: Ask, fits: Fits, effort: Effort, seed: int = 0
) -> tuple[Climb, list[str]]:
    """The best text that GEPA finds from `start` on, and why ideas were refused."""
    bridge = _Bridge(start, screen, ask, fits, effort, asyncio.get_running_loop())
    found = await asyncio.to_thread(bridge.optimized, seed)
    if bridge.failure is not None:
        raise bridge.failure
    for text in found:
        tried = Climb(text, bridge.known[text], bridge.made[text])
        if text != start.text and lasting(start, tried, screen, effort.least_gain):
            return tried, list(bridge.refused)
    return start, list(bridge.refused)


@dataclass
class _Bridge:
    """What GEPA calls an adapter: it lives in a thread of its own, its work is done in the loop that waits for it."""

    start: Climb
    screen: Screen
    ask: Ask
    fits: Fits
    effort: Effort
    loop: asyncio.AbstractEventLoop
    refused: dict[str, None] = field(default_factory=dict)
    failure: BaseException | None = None  # GEPA goes on after an error: it would only cost more
    asked: int = 0
    propose_new_texts: None = None

    def __post_init__(self) -> None:
        self.gepa: Any = importlib.import_module("gepa")
        self.places = list(self.start.marks)
        self.known: dict[str, dict[int, Mark]] = {self.start.text: dict(self.start.marks)}
        self.made: dict[str, list[Proposal]] = {self.start.text: []}  # how each text came about

    def optimized(self, seed: int) -> list[str]:
        """GEPA's pool, the best first."""
        try:
            result = self.gepa.optimize(
                {PROMPT: self.start.text},
                trainset=self.places,
                valset=self.places,
                adapter=self,
                custom_candidate_proposer=self.rewritten,
                max_metric_calls=self.effort.judgements,
                stop_callbacks=[lambda _: self.failure is not None],
                logger=self,
                seed=seed,
            )
        except BaseException as problem:  # noqa: BLE001 - it is raised again where somebody waits for it
            self.failure = self.failure or problem
            return []
        ranked = sorted(
            zip(result.val_aggregate_scores, result.candidates, strict=True), key=lambda one: -one[0]
        )
        return [candidate[PROMPT] for _, candidate in ranked]

    def evaluate(self, batch: list[int], candidate: Texts, capture_traces: bool = False) -> Any:
        """The marks of a text; each case is tried once, and one that an outage spoilt counts as it did before."""
        text = candidate[PROMPT]
        known = self.known.setdefault(text, {})
        if missing := [place for place in batch if place not in known]:
            known |= self._wait(self.screen.marks(text, missing))
        marks = [known.setdefault(place, self.start.marks[place]) for place in batch]
        return self.gepa.EvaluationBatch(
            marks, [mark.value for mark in marks], batch if capture_traces else None
        )

    def make_reflective_dataset(
        self, candidate: Texts, eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, int]]]:
        """The cases it was tried on; what is told about them is up to the question."""
        return {PROMPT: [{"place": place} for place in eval_batch.trajectories]}

    def rewritten(
        self, candidate: Texts, told: Mapping[str, Sequence[Mapping[str, int]]], _components: list[str]
    ) -> dict[str, str]:
        """A new text made from this one in the light of these cases; none where no idea is fit."""
        text, number = candidate[PROMPT], self.asked
        self.asked += 1
        if len(self.made[text]) >= self.effort.ideas or self.failure is not None:
            return {}
        shown = {row["place"]: self.known[text][row["place"]] for row in told[PROMPT]}
        try:
            ideas = self._wait(self.ask(Climb(text, shown, self.made[text]), number))
        except BaseException as problem:  # noqa: BLE001 - GEPA would swallow it, and ask again
            if error_kind(problem) == "parse":
                self.refused.setdefault(f"the answer cannot be used: {problem}"[:300])
            else:
                self.failure = problem
            return {}
        for idea in ideas:
            if (new := self._fit(idea, text)) is not None:
                self.made.setdefault(new, [*self.made[text], idea])
                return {PROMPT: new}
        return {}

    def _fit(self, idea: Proposal, text: str) -> str | None:
        try:
            new = idea.on(text)
        except EditError as problem:
            self.refused.setdefault(f"{idea.reason[:120]}: {problem}")
            return None
        if problems := self.fits(new):
            self.refused.setdefault(f"{idea.reason[:120]}: {problems[0]}")
            return None
        return new

    def _wait(self, work: Awaitable[T]) -> T:
        async def done() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result()

    def log(self, message: str) -> None:
        """GEPA talks a lot; what it does stands in our own log, call by call."""
