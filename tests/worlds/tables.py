"""What must hold of every analyst's table of rule keys, and of every prompt that uses one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from agents.offline import rules
from agents.offline.rules import Analyst, chosen, told, tuned_keys
from telemetry.edge.records import load_terms

STAYS = {"analyst", "list", "id_field", "only", "up_signal", "down_signal", "blocked_venues", "required"}
_READ = re.compile(r"rules\.(?:number|flag|word|terms|weights|words|number_for)\(\s*\"([a-z_]+)\"")


def _keys_read(judge: Callable[..., Any]) -> set[str]:
    """The keys that a judgement reads, and those that the functions of its module read for it."""
    beside = dict(inspect.getmembers(inspect.getmodule(judge), inspect.isfunction))
    todo, keys, seen = [judge], set(), {judge}
    while todo:
        source = inspect.getsource(todo.pop())
        keys |= set(_READ.findall(source))
        called = {beside[name] for name in re.findall(r"\w+", source) if name in beside} - seen
        seen |= called
        todo += called
    return keys


def check_analyst(name: str, analyst: Analyst) -> set[str]:
    """Its table names every key that it reads, each with its meaning, and those of the search too; the keys."""
    own = _keys_read(analyst.judge)
    assert own <= set(analyst.keys), own - set(analyst.keys)
    lines = told(name, analyst).splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert [line.split()[0] for line in lines[1:]] == list(analyst.keys)
    assert all(line.endswith(key.means) for line, key in zip(lines[1:], analyst.keys.values(), strict=True))
    assert all(key.means for key in analyst.keys.values())
    by_series = {f"{line.split()[0]}_by_series" for line in lines[1:] if line.split()[1] == "(_by_series)"}
    assert tuned_keys(analyst) or not analyst.keys
    for key, about in tuned_keys(analyst).items():
        assert key in {*analyst.keys, *by_series} and about.means, key
    return own


def as_a_whole(text: str) -> dict[str, Any]:
    """What the blocks of a text say where each is read at once, as plain YAML."""
    blocks = [load_terms(block[1]) for block in rules.BLOCK.finditer(text)]
    return {str(key): value for block in blocks for key, value in (block or {}).items()}


def check_prompt(text: str, analysts: Mapping[str, Analyst], task: str = "") -> None:
    """Its rules read alike entry by entry, and its analyst knows them all; a search knows them or leaves them be."""
    read = rules.read(text)
    assert not read.problems and as_a_whole(text) == dict(read.values)
    analyst = chosen(analysts, read, {"task": task})
    if analyst is None:
        assert not task
        return
    known = {"analyst", *analyst.keys, *tuned_keys(analyst)}
    families = tuple(key.partition("<")[0] for key in analyst.keys if "<" in key)
    assert not {name for name in read.values if name not in known and not name.startswith(families or "<")}
    searched = {*tuned_keys(analyst), *STAYS}
    assert not {name for name in read.values if name not in searched and not name.startswith(families or "<")}
