"""Reads what a prompt tells in numbers and lists: the fenced `rules` blocks of a system text.

A block is flat YAML: numbers, yes/no, words, lists of terms, and maps from a term to a number or word.

    ```rules
    z_alert: 2.5
    negation_cues: [no, denies, "ruled out"]
    risk_terms: {missile*: 60, coup: 70}
    ```

Later blocks override earlier ones key by key. A block that is not such YAML is left out, and says so in
`problems`; a value of the wrong kind counts as not given. A real model reads the same lines as instructions.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from telemetry.edge.frozen import frozen
from telemetry.edge.records import MAX_DEPTH, load_terms, load_yaml, made

BY_SUBJECT = "_by_series"  # ends the name of a key that says a number for each subject, such as a series
MAX_BLOCK = 50_000  # characters; longer is no list of rules
_PLAIN = (str, int, float)  # what a term or number may be written as
_FLAGS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
BLOCK: Final = re.compile(r"^```rules[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"[A-Za-z_][\w-]*:")
_NEXT = re.compile(rf"\n(?={_KEY.pattern})")  # where an entry ends and another begins
_WHOLE = re.compile(r"^(?:---|\.\.\.|%)|<<|&", re.MULTILINE)  # documents, merged maps, anchors


@frozen
class Key:
    """One key of a `rules` block."""

    kind: str  # number | flag | word | terms | weights | numbers | words
    default: Any
    means: str
    scale: float = 0.0  # a usual size of a number: where to look when the prompt does not set it
    whole: bool = False  # numbers: only whole ones make sense
    choices: tuple[str, ...] = ()
    by_series: bool = False  # there is also `<key>_by_series`, a map from series id to number, which wins
    in_text: bool = False  # terms looked up in the input's texts: only cases that hold one can change with it
    mends: tuple[str, ...] = ()  # words of a failed grade that say that this key may be at fault; empty: any
    labels: bool = False  # its words are labels: those that failed grades expected are what it may say
    tuned: bool = True  # may be changed by a search


@frozen
class Rules:
    """The rules of one system text; what it does not say, or says in the wrong kind, has the table's default.

    A text's rules are asked the same at every item of every question: each value is worked out once.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    keys: Mapping[str, Key] = field(default_factory=dict)  # the table of the analyst that reads them
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def read_by(self, analyst: Analyst) -> Rules:
        """These rules with that analyst's table of keys."""
        name = id(analyst.keys)  # which is kept: by the rules that read it
        if name not in self._known:
            self._known[name] = replace(self, keys=analyst.keys)
        bound: Rules = self._known[name]
        return bound

    def number(self, key: str) -> float:
        """A finite number."""
        if key not in self._known:
            value = _number(self.values.get(key))
            self._known[key] = float(self.keys[key].default) if value is None else value
        known: float = self._known[key]
        return known

    def number_for(self, key: str, name: str) -> float:
        """The number for one name: from `<key>_by_series`, else `<key>`."""
        if (key, name) not in self._known:
            specific = self.values.get(f"{key}{BY_SUBJECT}")
            value = _number(specific.get(name)) if isinstance(specific, dict) else None
            self._known[key, name] = self.number(key) if value is None else value
        known: float = self._known[key, name]
        return known

    def flag(self, key: str) -> bool:
        """Yes or no."""
        value, default = self.values.get(key), bool(self.keys[key].default)
        return value if isinstance(value, bool) else _FLAGS.get(str(value).lower(), default)

    def word(self, key: str) -> str:
        """One word or phrase."""
        value = self.values.get(key)
        return value if isinstance(value, str) and value else str(self.keys[key].default)

    def terms(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of terms; `default` is for a key that the table knows by its family only (`allowed_<field>`)."""
        name = ("terms", key, default)
        if name not in self._known:
            value = self.values.get(key)
            if isinstance(value, list):
                texts = (str(term) for term in value if isinstance(term, _PLAIN))
                self._known[name] = tuple(text for text in texts if text.strip())
            else:
                self._known[name] = tuple(self.keys[key].default) if default is None else default
        known: tuple[str, ...] = self._known[name]
        return known

    def weights(self, key: str) -> Mapping[str, float]:
        """A map from a term to a number."""
        name = ("weights", key)
        if name not in self._known:
            weighed = {term: _number(weight) for term, weight in self._map(key).items()}
            self._known[name] = {term: weight for term, weight in weighed.items() if weight is not None}
        known: dict[str, float] = self._known[name]
        return known

    def words(self, key: str) -> Mapping[str, str]:
        """A map from a term to a word."""
        name = ("words", key)
        if name not in self._known:
            given = self._map(key).items()
            self._known[name] = {term: word for term, word in given if isinstance(word, str)}
        known: dict[str, str] = self._known[name]
        return known

    def _map(self, key: str) -> Mapping[str, Any]:
        value = self.values.get(key)
        given = value if isinstance(value, dict) else self.keys[key].default
        return {str(term): meant for term, meant in given.items()}


@functools.lru_cache(maxsize=256)
def read(system: str) -> Rules:
    """The rules of a system text; none at all if it has no block."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for number, match in enumerate(BLOCK.finditer(system), 1):
        text = match.group(1)
        try:
            block = _block(text) if len(text) <= MAX_BLOCK else None
        except ValueError as error:
            problems.append(f"rules block {number}: {str(error)[:200]}")
            continue
        if isinstance(block, dict):
            values |= {str(key): value for key, value in block.items()}
        elif block is not None or len(text) > MAX_BLOCK:
            problems.append(f"rules block {number}: must be a YAML mapping of at most {MAX_BLOCK} characters")
    return Rules(values, tuple(problems))


def entries(block: str) -> Iterator[str]:
    """The entries of a block with the lines that belong to them; a comment goes with what stands above it."""
    cuts = [0, *(entry.end() for entry in _NEXT.finditer(block)), len(block)]
    return (block[start:end] for start, end in pairwise(cuts) if start < end)


def _block(block: str) -> Any:
    """The YAML of a block: a search changes one entry of many, and each is read once.

    As a whole where an entry does not say by itself what it would say there.
    """
    if _WHOLE.search(block) or block.count("[") + block.count("{") > MAX_DEPTH:
        return load_terms(block)
    values: dict[Any, Any] = {}
    for entry in entries(block):
        try:
            value = loaded(entry)
        except ValueError:  # what is wrong, it is told of the whole
            return load_terms(block)
        if isinstance(value, dict) and _KEY.match(entry):
            values |= value
        elif value is not None:
            return load_terms(block)
    return values


loaded: Final = functools.lru_cache(maxsize=8192)(load_terms)  # of an entry, or a line of one


@functools.lru_cache(maxsize=1024)
def pattern(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of the terms as whole words, longest first; no terms are found nowhere.

    `attack*` finds every word that begins so. A term with a capital is found as it is written (`US`, not `us`),
    any other in either case. A space in a term stands for any white space or hyphen.
    """
    parts = []
    for term in sorted(dict.fromkeys(terms), key=lambda term: (-len(term), term)):
        stem = term.strip().removesuffix("*")
        if not stem:
            continue
        body = r"[\s-]+".join(map(re.escape, stem.split())) + (r"\w*" if term.strip().endswith("*") else "")
        parts.append(body if any(letter.isupper() for letter in stem) else f"(?i:{body})")
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts) or '(?!)'})(?!\w)")


@functools.lru_cache(maxsize=1 << 16)
def found(terms: tuple[str, ...], text: str) -> tuple[str, ...]:
    """The terms' matches in a text, in order; a search of better rules asks the same of the same text all the time."""
    return tuple(pattern(terms).findall(text))


@functools.lru_cache(maxsize=1 << 12)
def standing(terms: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Which of the terms stand in a text. One by one: a pattern of them all is dear for each list that is tried."""
    return tuple(term for term in terms if found((term,), text))


def _number(value: object) -> float | None:
    """A finite number; YAML takes `1e3` for a text."""
    if isinstance(value, bool) or not isinstance(value, _PLAIN):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


Answer = Callable[[Rules, Mapping[str, Any]], dict[str, Any]]


@frozen
class Analyst:
    """One task that the offline model knows: a pure judgement by rules and payload alone, and its table of keys.

    It is chosen by the rule `analyst` of the prompt, else by the task (the agent's name), else by a part of the
    payload that only such a question has.
    """

    judge: Answer
    keys: Mapping[str, Key] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    payload: str = ""
    # List in the payload, what names an entry there, in the answer.
    subject: tuple[str, str, str] | None = None

    def answer(self, rules: Rules, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The judgement, with the table's defaults where the rules do not say."""
        return self.judge(rules.read_by(self), payload)


def tables(path: Path) -> dict[str, dict[str, Key]]:
    """The keys of each analyst in a YAML file, where a key begins with its kind and default: `{number: 2.0, ...}`."""

    def key(about: Mapping[str, Any]) -> Key:
        kind, default = next(iter(about.items()))
        return made(Key, {**about, "kind": kind, "default": default})

    raw = load_yaml(path.read_bytes())
    return {analyst: {name: key(about) for name, about in keys.items()} for analyst, keys in raw.items()}


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
