"""What an analyst of the offline model is, and the words for its table of rule keys.

Each analyst has one table: what a key means, the naive default that holds when a prompt does not say, and how far a
search for a better prompt may go. Documentation, defaults and search all read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agents.offline.rules import BY_SUBJECT, Key, Rules

Answer = Callable[[Rules, Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Analyst:
    """One task that the offline model knows: a pure judgement by rules and payload alone, and its table of keys.

    It is chosen by the rule `analyst` of the prompt, else by the task (the agent's name), else by a part of the
    payload that only such a question has.
    """

    judge: Answer
    keys: Mapping[str, Key] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    payload: str = ""
    subject: tuple[str, str, str] | None = (
        None  # list in the payload, what names an entry there, in the answer
    )

    def answer(self, rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The judgement, with the table's defaults where the rules do not say."""
        return self.judge(replace(rules, keys=self.keys), payload)


def number(default: float, means: str, scale: float = 0.0, **more: Any) -> Key:
    return Key("number", default, means, scale, **more)


def flag(means: str, default: bool = False) -> Key:
    return Key("flag", default, means)


def word(default: str, means: str, *choices: str, **more: Any) -> Key:
    return Key("word", default, means, choices=choices, **more)


def names(means: str, default: tuple[str, ...] = (), **more: Any) -> Key:
    """Fields, series or venues: not words of a text."""
    return Key("terms", default, means, **more)


def terms(means: str, *mends: str, default: tuple[str, ...] = ()) -> Key:
    """Words looked up in a text."""
    return Key("terms", default, means, in_text=True, mends=mends)


def weights(means: str, *mends: str, default: Mapping[str, float] | None = None) -> Key:
    """A map from a term looked up in a text to its weight."""
    return Key("weights", default or {}, means, in_text=True, mends=mends)


def numbers(means: str) -> Key:
    return Key("numbers", {}, means)


def words(means: str, *choices: str, default: Mapping[str, str] | None = None, **more: Any) -> Key:
    return Key("words", default or {}, means, choices=choices, **more)


def chosen(analysts: Mapping[str, Analyst], rules: Rules, payload: Mapping[str, Any]) -> Analyst | None:
    """The analyst for a question, or None: then the answer is empty."""
    named, task = str(rules.values.get("analyst") or ""), str(payload.get("task") or "")
    for name in (named, task):
        if name in analysts:
            return analysts[name]
    found = [one for one in analysts.values() if task in one.tasks]
    found += [one for one in analysts.values() if one.payload and one.payload in payload]
    return found[0] if found else None


def tuned_keys(analyst: Analyst | None) -> dict[str, Key]:
    """Every key that a search may change, those by series included."""
    found = {name: key for name, key in analyst.keys.items() if key.tuned} if analyst else {}
    for name, key in list(found.items()):
        if key.by_series:
            found[f"{name}{BY_SUBJECT}"] = Key("numbers", {}, key.means, scale=key.scale, by_series=True)
    return found


def known_keys(analysts: Mapping[str, Analyst], values: Iterable[str]) -> dict[str, Key]:
    """Of these keys the ones that some analyst knows: for a prompt that several agents share."""
    tables = [tuned_keys(analyst) for analyst in analysts.values()]
    return {name: keys[name] for keys in tables for name in values if name in keys}


def told(name: str, analyst: Analyst) -> str:
    """The table for people, one line a key."""
    lines = [f"{name}: {analyst.judge.__doc__}".strip()]
    for key, about in analyst.keys.items():
        label = f"{key} ({BY_SUBJECT})" if about.by_series else key
        lines.append(f"  {label:32} {about.kind:8} {_shown(about.default):16} {about.means}")
    return "\n".join(lines)


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, float | int):
        return f"{default:g}"
    if isinstance(default, str):
        return default or "-"
    if isinstance(default, Mapping):
        default = [f"{key}: {value}" for key, value in default.items()]
    return f"[{', '.join(default)}]" if default else "-"
