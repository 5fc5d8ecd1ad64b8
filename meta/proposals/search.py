"""Finds which of the proposed changes make a text better, together: a greedy climb over the tune cases.

An idea is taken if it mends more than it costs in *each* half of the tune cases: what helps one half by chance rarely
helps the other. Words mined from cases have to earn more than a moved threshold, because they fit what was seen.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from meta.proposals.edits import Edit, EditError, applied
from meta.proposals.screen import Marks, Screen
from telemetry.edge.frozen import frozen

LEAST_GAIN = 0.75  # cases: what one idea must be worth after its price
PRICE_PER_WORD = 0.25  # cases per word more: simple changes are likelier to hold on unseen cases


@frozen
class Proposal:
    """A change as somebody proposed it."""

    reason: str
    edits: tuple[Edit, ...] = ()
    text: str = ""  # instead of edits
    answers: tuple[str, ...] = ()  # ids of critiques

    def on(self, text: str) -> str:
        """The text after this change; raises `EditError` when it does not fit."""
        return self.text if self.text else applied(text, self.edits)


@dataclass(slots=True)
class Climb:
    """A text, how it does, and how it came about."""

    text: str
    marks: Marks
    taken: list[Proposal] = field(default_factory=list)


Ask = Callable[[Climb, int], Awaitable[Sequence[Proposal]]]  # the state, the round -> ideas
Fits = Callable[[str], list[str]]  # what is wrong with a text; empty: nothing


@frozen
class Effort:
    """How much may be tried."""

    rounds: int = 1
    judgements: int = 10**9  # of the screen
    ideas: int = 5  # in one text: a person reads it in a minute
    least_gain: float = LEAST_GAIN
    check_first: bool = False  # where a judgement costs money, a text that may not be kept is not worth one


async def climb(
    start: Climb, screen: Screen, ask: Ask, fits: Fits, effort: Effort
) -> tuple[Climb, list[str]]:
    """The best text found from `start` on, and why ideas were refused."""
    state = start
    refused: dict[str, None] = {}
    hopeless: set[str] = set()
    for number in range(effort.rounds):
        ideas = [idea for idea in await ask(state, number) if idea.reason not in hopeless or idea.text]
        better: list[tuple[float, Proposal]] = []
        for idea in ideas:
            if screen.spent > effort.judgements:
                break
            tried = await _tried(state, idea, screen, fits, effort, refused)
            if tried is None:
                hopeless.add(idea.reason)
            else:
                better.append((_worth(state, tried), idea))
        before = len(state.taken)
        for _, idea in sorted(better, key=lambda one: -one[0]):  # of equals the first
            if len(state.taken) >= effort.ideas:
                break
            tried = await _tried(state, idea, screen, fits, effort, refused)
            if tried is not None:
                state = tried
        if len(state.taken) in (before, effort.ideas) or screen.spent > effort.judgements:
            break
    return state, list(refused)


async def _tried(
    state: Climb, idea: Proposal, screen: Screen, fits: Fits, effort: Effort, refused: dict[str, None]
) -> Climb | None:
    """The state with this idea, if it is worth its price; first on what fails, then on the rest it may spoil."""

    def unfit(text: str) -> bool:
        problems = fits(text)
        if problems:
            refused.setdefault(f"{idea.reason[:120]}: {problems[0]}")
        return bool(problems)

    try:
        text = idea.on(state.text)
    except EditError as problem:
        refused.setdefault(f"{idea.reason[:120]}: {problem}")
        return None
    if text == state.text or (effort.check_first and unfit(text)):
        return None
    everything = screen.reached(state.text, text, state.marks)
    mended = await screen.marks(text, [place for place in everything if not state.marks[place].ok])
    if gain(state.marks, mended) < effort.least_gain + _price(state.text, text):
        return None
    rest = await screen.marks(text, [place for place in everything if place not in mended])
    tried = Climb(text, {**state.marks, **mended, **rest}, [*state.taken, idea])
    return tried if lasting(state, tried, screen, effort.least_gain) and not unfit(text) else None


def lasting(state: Climb, tried: Climb, screen: Screen, least_gain: float) -> bool:
    """Whether a change is worth its price, and loses in neither half of the cases."""
    for second in (False, True):
        half = [place for place in tried.marks if screen.units[place].second_half is second]
        if gain(state.marks, tried.marks, half) < 0:
            return False
    return _worth(state, tried) >= least_gain


def gain(before: Marks, after: Marks, places: Sequence[int] | None = None) -> float:
    """By how many cases one set of marks is better than another, where both have one."""
    chosen = after if places is None else places
    return sum(
        after[place].value - before[place].value for place in chosen if place in before and place in after
    )


def _worth(state: Climb, tried: Climb) -> float:
    return gain(state.marks, tried.marks) - _price(state.text, tried.text)


def _price(before: str, after: str) -> float:
    return PRICE_PER_WORD * max(0, _words(after) - _words(before))


@functools.lru_cache(maxsize=16)
def _words(text: str) -> int:
    return len(text.split())


def changed(before: Marks, after: Marks) -> tuple[list[int], list[int]]:
    """Newly right and newly wrong."""
    both = [place for place in after if place in before]
    right = [place for place in both if after[place].ok and not before[place].ok]
    return right, [place for place in both if before[place].ok and not after[place].ok]
