"""Edits the fenced `rules` block of a prompt line by line: one rule changes, and nothing else.

Values keep the form they are written in (one line, or one entry a line), so that a diff shows what changed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from agents.offline.rules import BLOCK, entries, loaded
from meta.proposals.edits import Edit, EditError

_COMMENT = re.compile(r"[ \t]+#[^'\"\]}]*$")
_PLAIN = re.compile(r"[A-Za-z][\w .*/'-]*")  # needs no quotes in YAML, also inside brackets


def set_value(text: str, key: str, value: Any) -> Edit:
    """The edit that gives a key another value, or adds the key at the end of the last block; None takes it out."""
    blocks = _blocks(text)
    old = next((one for block in blocks[::-1] for one in block[::-1] if one.startswith(f"{key}:")), None)
    if old is not None:
        return _smallest(text, old, "" if value is None else _rewritten(old, key, value))
    if value is None:
        raise EditError(f"there is no rule {key}")
    if not blocks:
        raise EditError("there is no rules block")
    anchor = "".join(blocks[-1][-1:])
    return _smallest(text, f"{anchor}```", f"{anchor}{key}: {written(value)}\n```")


def written(value: Any) -> str:
    """A value on one line of YAML."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{written(name)}: {written(one)}' for name, one in value.items())}}}"
    if isinstance(value, int | float):
        return f"{value:g}"
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text == text.strip() else '"' + text.replace('"', "'") + '"'


def _rewritten(old: str, key: str, value: Any) -> str:
    """The entry with another value, in the form it had: one line, or one line each."""
    lines = old.splitlines()
    before: Any = _parsed(old).get(key)
    if len(lines) == 1 or not isinstance(value, list | Mapping) or type(before) is not type(value):
        comment = _COMMENT.search(lines[0])
        return f"{key}: {written(value)}{comment[0] if comment and len(lines) == 1 else ''}\n"
    indent = re.match(r"\s*", lines[1])[0]  # type: ignore[index]
    wanted: dict[str, Any] = dict.fromkeys(map(str, value)) if isinstance(value, list) else dict(value)
    kept = lines[:1]
    for line in lines[1:]:
        name = _name(line)
        if name is None:
            kept.append(line)  # a comment of its own
        elif name in wanted:
            one = wanted.pop(name)
            same = not isinstance(before, Mapping) or before.get(name) == one
            kept.append(line if same else f"{indent}{written(name)}: {written(one)}")
    new = (
        f"- {written(name)}" if one is None else f"{written(name)}: {written(one)}"
        for name, one in wanted.items()
    )
    return "\n".join([*kept, *(f"{indent}{line}" for line in new)]) + "\n"


@functools.lru_cache(maxsize=8192)
def _name(line: str) -> str | None:
    """What a line of a list or map is about."""
    parsed = _yaml(line.strip() + "\n")
    if isinstance(parsed, list) and len(parsed) == 1:
        return str(parsed[0])
    if isinstance(parsed, dict) and len(parsed) == 1:
        return str(next(iter(parsed)))
    return None


def _smallest(text: str, old: str, new: str) -> Edit:
    """The edit without the lines that stay, but with as many of them as make it unique."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head = tail = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    while True:
        search = "".join(before[head : len(before) - tail])
        if search.strip() and text.count(search) == 1:
            return Edit(search, "".join(after[head : len(after) - tail]))
        if head > 0:
            head -= 1
        elif tail > 0:
            tail -= 1
        else:
            raise EditError(f"{old.strip()[:80]!r} is there more than once")


@functools.lru_cache(maxsize=64)
def _blocks(text: str) -> tuple[tuple[str, ...], ...]:
    """The entries of each block."""
    return tuple(tuple(entries(block[1])) for block in BLOCK.finditer(text))


def _parsed(chunk: str) -> dict[str, Any]:
    value = _yaml(chunk)
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}


def _yaml(text: str) -> Any:
    try:
        return loaded(text)
    except ValueError:
        return None
