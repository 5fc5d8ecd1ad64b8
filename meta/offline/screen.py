"""Marks texts by the offline model's own judgement, in memory, without noise, logged nowhere.

Each agent is asked once for its questions; after that a text costs no more than the judgement on them, and none at all
where the change cannot reach a case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agents.base import BaseAgent, build_agent
from agents.domain import load_domain
from agents.manifest import AgentSpec
from agents.model.call import Completion, Message, Model
from agents.offline.model import OfflineModel, fitted
from agents.offline.rules import Rules, chosen, pattern, tuned_keys
from agents.texts.prompt_set import PromptSet
from eval.grading.graders import grade
from eval.grading.suite import Case
from meta.offline import rule_text
from meta.proposals.screen import Mark, Unit
from telemetry.edge.errors import BadInput

T = TypeVar("T")


class _Answering(Model):
    """A model that gives the answer it was handed, and notes what it was asked."""

    def __init__(self, offline: OfflineModel) -> None:
        self.offline = offline
        self.data: Any = None
        self.asked: list[tuple[str, str, Mapping[str, Any] | None]] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **_: Any
    ) -> Completion:
        system, user = str(messages[0]["content"]), str(messages[-1]["content"])
        self.asked.append((system, user, schema))
        data = self.offline.answer(system, user, schema) if self.data is None else self.data
        return Completion(data, "", "offline", "offline", "offline")


@dataclass(frozen=True, slots=True)
class _Question:
    payload: Mapping[str, Any]
    schema: Mapping[str, Any] | None
    text: str  # as it was asked, to look up terms in


class _Remembering(Rules):
    """Rules that work out a list or map once: they are asked for it at every text of a question."""

    def terms(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        return self._once("terms", key, lambda: super(_Remembering, self).terms(key, default))

    def weights(self, key: str) -> Mapping[str, float]:
        return self._once("weights", key, lambda: super(_Remembering, self).weights(key))

    def _once(self, kind: str, key: str, work: Callable[[], T]) -> T:
        value = self.values.get(key)
        if value is None:
            return work()
        if (kind, id(value)) not in _worked_out:
            _worked_out[kind, id(value)] = (value, work())
        found: T = _worked_out[kind, id(value)][1]
        return found


# By identity; the value is kept beside, so that its identity stays its own.
_worked_out: dict[tuple[str, int], tuple[Any, Any]] = {}


async def offline_screen(units: Sequence[Unit], prompt: str, prompts: PromptSet) -> OfflineScreen | None:
    """A screen that marks these units in memory, if that can be done."""
    return await OfflineScreen(units, prompt, prompts).prepare()


class OfflineScreen:
    """Marks by the offline model's own judgement, without noise, logged nowhere."""

    def __init__(self, units: Sequence[Unit], prompt: str, prompts: PromptSet) -> None:
        self.units, self.prompt, self.prompts = units, prompt, prompts
        self.spent = 0
        self._models: dict[str, _Answering] = {}
        self._agents: dict[str, BaseAgent] = {}
        self._questions: list[_Question | None] = []  # None: the agent asks nothing here, whatever its prompt
        self._fixed: dict[int, Mark] = {}
        self._known: dict[tuple[int, str], Mark] = {}
        self._places: dict[str, frozenset[int]] = {}

    async def prepare(self) -> OfflineScreen | None:
        """Ask every agent for its questions; None if one asks more per case: only real trials can mark it."""
        _worked_out.clear()
        for unit in self.units:
            name = unit.spec.name
            if name not in self._agents:
                self._models[name] = _Answering(OfflineModel(analysts=load_domain(unit.spec.domain).analysts))
                self._agents[name] = build_agent(unit.spec, self.prompts, self._models[name])
            model = self._models[name]
            model.data = None
            model.asked.clear()
            output, error = await self._run(unit)
            if len(model.asked) > 1 or unit.spec.eval_adapter or _judged(unit.case):
                return None
            if model.asked:
                _, user, schema = model.asked.pop()
                self._questions.append(_Question(json.loads(user), schema, user.replace("’", "'")))
            else:
                self._fixed[len(self._questions)] = _mark(unit, output, error)
                self._questions.append(None)
        return self

    async def marks(self, text: str, places: Iterable[int]) -> dict[int, Mark]:
        """The marks of a text."""
        found, rules = {}, dict[str, Rules]()
        for place in places:
            unit, question = self.units[place], self._questions[place]
            if question is None:
                found[place] = self._fixed[place]
                continue
            name = unit.spec.name
            if name not in rules:
                rules[name] = _Remembering(self._values(unit.spec, text))
            told = rules[name]
            analyst = chosen(self._models[name].offline.analysts, told, question.payload)
            answer = {"items": []} if analyst is None else analyst.answer(told, question.payload)
            self.spent += 1
            key = (place, json.dumps(answer, sort_keys=True, default=str))
            if key not in self._known:
                self._known[key] = await self._graded(unit, question, answer)
            found[place] = self._known[key]
        return found

    def reached(self, before: str, after: str, places: Iterable[int]) -> list[int]:
        """The places where the change can make a difference: a term only where it stands."""
        chosen = list(places)
        specs = {self.units[place].spec.name: self.units[place].spec for place in chosen}
        terms = {name: self._changed_terms(spec, before, after) for name, spec in specs.items()}
        standing = {
            name: None if words is None else set().union(*map(self._standing, words))
            for name, words in terms.items()
        }
        return [
            place
            for place in chosen
            if (where := standing[self.units[place].spec.name]) is None or place in where
        ]

    def _standing(self, term: str) -> frozenset[int]:
        """The places whose question holds the term."""
        if term not in self._places:
            finder = pattern((term,))
            self._places[term] = frozenset(
                place
                for place, question in enumerate(self._questions)
                if finder is not None and question is not None and finder.search(question.text)
            )
        return self._places[term]

    def _changed_terms(self, spec: AgentSpec, before: str, after: str) -> set[str] | None:
        """The terms that come, go or weigh differently; None when more than terms changed."""
        old, new = self._values(spec, before), self._values(spec, after)
        keys = tuned_keys(self._models[spec.name].offline.analysts.get(str(new.get("analyst", ""))))
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

    def _values(self, spec: AgentSpec, text: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for path in spec.prompt_paths:
            values |= rule_text.read(text if path == self.prompt else self.prompts.text(path))
        return values

    async def _graded(self, unit: Unit, question: _Question, answer: Any) -> Mark:
        model = self._models[unit.spec.name]
        model.data = answer if question.schema is None else fitted(answer, question.schema)
        output, error = await self._run(unit)
        return _mark(unit, output, error)

    async def _run(self, unit: Unit) -> tuple[Any, str]:
        agent = self._agents[unit.spec.name]
        try:
            return agent.checked(await agent._analyzed(unit.case.input)), ""
        except BadInput:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever an agent raises is a wrong answer
            return None, f"{type(problem).__name__}: {problem}"[:300]


def _mark(unit: Unit, output: Any, error: str) -> Mark:
    if error:
        return Mark(False, 0.0, (error,))
    graded = grade(unit.case.expect, output, unit.case.threshold)
    return Mark(graded.ok, graded.score, tuple(graded.reasons), output)


def _judged(case: Case) -> bool:
    return any(wanted["grader"] == "llm_judge" for wanted in case.expect)
