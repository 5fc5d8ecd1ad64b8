"""Marks texts by the offline model's own judgement, in memory, without noise, logged nowhere.

Each agent is asked once for its questions; after that a text costs no more than the judgement on them, and none at all
where the change cannot reach a case.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from agents.base import BaseAgent, build_agent
from agents.domain import load_domain
from agents.manifest import AgentSpec
from agents.model.call import Completion, Message, Model
from agents.offline import rules
from agents.offline.model import UNKNOWN_TASK, OfflineModel, fitted
from agents.offline.rules import Rules, chosen, pattern, tuned_keys
from agents.prompted import PromptedAgent
from agents.texts.prompt_set import PromptSet
from eval.grading.graders import grade
from meta.proposals.screen import Mark, Unit
from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen


@frozen
class _Question:
    payload: Mapping[str, Any]
    schema: Mapping[str, Any] | None
    text: str  # as it was asked, to look up terms in
    lower: str | None  # of plain ASCII: most texts without a term show that at once


def _question(user: str, schema: Mapping[str, Any] | None) -> _Question:
    text = user.replace("’", "'")
    return _Question(json.loads(user), schema, text, text.lower() if text.isascii() else None)


class _Answering(Model):
    """A model that gives the answer it was handed; without one it asks the offline model, and notes the question."""

    def __init__(self, offline: OfflineModel) -> None:
        self.offline = offline
        self.data: Any = None
        self.asked: list[tuple[str, Mapping[str, Any] | None]] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **_: Any
    ) -> Completion:
        data = self.data
        if data is None:
            system, user = str(messages[0]["content"]), str(messages[-1]["content"])
            self.asked.append((user, schema))
            data = self.offline.answer(system, user, schema)
        return Completion(data, "", "offline", "offline", "offline")


async def offline_screen(units: Sequence[Unit], prompt: str, prompts: PromptSet) -> OfflineScreen | None:
    """A screen that marks these units in memory; None if an agent asks more per case: that takes real trials."""
    screen = OfflineScreen(units, prompt, prompts)
    return screen if await screen.prepared() else None


class OfflineScreen:
    """Marks by the offline model's own judgement, without noise, logged nowhere."""

    def __init__(self, units: Sequence[Unit], prompt: str, prompts: PromptSet) -> None:
        self.units, self.prompt, self.prompts = units, prompt, prompts
        self.spent = 0
        self._agents: dict[str, tuple[BaseAgent, _Answering]] = {}
        self._asked: list[_Question | Mark] = []  # a mark: the agent asks nothing here, whatever its prompt
        self._known: dict[tuple[int, bytes], Mark] = {}
        self._places: dict[str, frozenset[int]] = {}
        # Of the text to beat and of one tried: each is asked for again, place by place.
        self._rules = functools.lru_cache(maxsize=16)(self._read)

    async def prepared(self) -> bool:
        """Ask every agent for its questions; are they such that they can be marked here?"""
        for unit in self.units:
            spec = unit.spec
            if spec.eval_adapter or any(wanted["grader"] == "llm_judge" for wanted in unit.case.expect):
                return False
            if spec.name not in self._agents:
                made = _Answering(OfflineModel(analysts=load_domain(spec.domain).analysts))
                self._agents[spec.name] = (build_agent(spec, self.prompts, made), made)
            mark = await self._marked(unit, None)
            asked = self._agents[spec.name][1].asked
            if len(asked) > 1:
                return False
            self._asked += [_question(user, schema) for user, schema in asked] or [mark]
        return True

    async def marks(self, text: str, places: Iterable[int]) -> dict[int, Mark]:
        """The marks of a text."""
        found = {}
        for place in places:
            unit, question = self.units[place], self._asked[place]
            if isinstance(question, Mark):
                found[place] = question
                continue
            told = self._rules(unit.spec.name, text)
            analyst = chosen(self._agents[unit.spec.name][1].offline.analysts, told, question.payload)
            self.spent += 1
            if analyst is None:  # an edit took the prompt's rules away
                found[place] = Mark(False, 0.0, (UNKNOWN_TASK,))
                continue
            answer = analyst.answer(told, question.payload)
            key = (place, orjson.dumps(answer, option=orjson.OPT_SORT_KEYS, default=str))
            if key not in self._known:
                fit = answer if question.schema is None else fitted(answer, question.schema)
                self._known[key] = await self._marked(unit, fit)
            found[place] = self._known[key]
        return found

    def reached(self, before: str, after: str, places: Iterable[int]) -> list[int]:
        """The places where the change can make a difference: a term only where it stands."""
        standing: dict[str, set[int] | None] = {}  # by agent; None: anywhere
        found = []
        for place in places:
            spec = self.units[place].spec
            if spec.name not in standing:
                terms = self._changed_terms(spec, before, after)
                standing[spec.name] = None if terms is None else set().union(*map(self._standing, terms))
            if (where := standing[spec.name]) is None or place in where:
                found.append(place)
        return found

    def _standing(self, term: str) -> frozenset[int]:
        """The places whose question holds the term."""
        if term not in self._places:
            finder = pattern((term,))
            words = term.lower().strip().rstrip("*").split() if term.isascii() else []
            longest = max(words, key=len, default="")
            self._places[term] = frozenset(
                place
                for place, asked in enumerate(self._asked)
                if isinstance(asked, _Question)
                and (asked.lower is None or longest in asked.lower)
                and finder.search(asked.text)
            )
        return self._places[term]

    def _changed_terms(self, spec: AgentSpec, before: str, after: str) -> set[str] | None:
        """The terms that come, go or weigh differently; None when more than terms changed."""
        old, new = (self._rules(spec.name, text).values for text in (before, after))
        keys = tuned_keys(self._agents[spec.name][1].offline.analysts.get(str(new.get("analyst", ""))))
        terms: set[str] = set()
        for name in old.keys() | new.keys():
            one, other = old.get(name), new.get(name)
            if one == other:
                continue
            if name not in keys or not keys[name].in_text:
                return None
            if isinstance(one, dict) and isinstance(other, dict):
                terms |= {term for term in one.keys() | other.keys() if one.get(term) != other.get(term)}
            elif isinstance(one, list) and isinstance(other, list):
                terms |= set(map(str, one)) ^ set(map(str, other))
            else:
                return None
        return terms

    def _read(self, agent: str, text: str) -> Rules:
        values: dict[str, Any] = {}
        for path in self._agents[agent][0].spec.prompt_paths:
            values |= rules.read(text if path == self.prompt else self.prompts.text(path)).values
        return Rules(values)

    async def _marked(self, unit: Unit, answer: Any) -> Mark:
        """The mark of what the agent makes of this answer; None: of what the offline model says."""
        agent, model = self._agents[unit.spec.name]
        model.data, model.asked = answer, []
        try:
            # An agent without code would prepare the same question once more, and return the items.
            known = answer is not None and type(agent) is PromptedAgent
            output = agent.checked(answer["items"] if known else await agent._analyzed(unit.case.input))
        except BadInput:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever an agent raises is a wrong answer
            return Mark(False, 0.0, (f"{type(problem).__name__}: {problem}"[:300],))
        graded = grade(unit.case.expect, output, unit.case.threshold)
        return Mark(graded.ok, graded.score, tuple(graded.reasons), output)
