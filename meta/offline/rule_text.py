"""Reads and edits the fenced `rules` block of a prompt line by line: one rule changes, and nothing else.

Values keep the form they are written in (one line, or one entry a line), so that a diff shows what changed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from meta.proposals.edits import Edit, EditError
from telemetry.edge.records import load_terms

_BLOCK = re.compile(r"^```rules[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"^(?=[A-Za-z_][\w-]*:)", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]+#[^'\"\]}]*$")
_PLAIN = re.compile(r"[A-Za-z][\w .*/'-]*")  # needs no quotes in YAML, also inside brackets


@functools.lru_cache(maxsize=64)
def read(text: str) -> Mapping[str, Any]:
    """The rules of a text: what `agents.offline.rules.read` gives, but entry by entry, remembered by their words."""
    values: dict[str, Any] = {}
    for block in _BLOCK.finditer(text):
        for chunk in _chunks(block.group(1)):
            values |= _parsed(chunk)
    return values


def entry(text: str, key: str) -> str | None:
    """The lines of a key in the last block that has it."""
    found = None
    for block in _BLOCK.finditer(text):
        for chunk in _chunks(block.group(1)):
            if chunk.startswith(f"{key}:"):
                found = chunk
    return found


def set_value(text: str, key: str, value: Any) -> Edit:
    """The edit that gives a key another value, or adds the key at the end of the last block."""
    old = entry(text, key)
    if old is None:
        blocks = list(_BLOCK.finditer(text))
        if not blocks:
            raise EditError("there is no rules block")
        last = _chunks(blocks[-1].group(1))
        anchor = last[-1] if last else ""
        return _smallest(text, f"{anchor}```", f"{anchor}{key}: {written(value)}\n```")
    return _smallest(text, old, _rewritten(old, key, value))


def drop(text: str, key: str) -> Edit:
    """The edit that takes a key out."""
    old = entry(text, key)
    if old is None:
        raise EditError(f"there is no rule {key}")
    return _smallest(text, old, "")


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
    before = _parsed(old).get(key)
    if len(lines) == 1 or not isinstance(value, list | Mapping) or type(before) is not type(value):
        comment = _COMMENT.search(lines[0])
        return f"{key}: {written(value)}{comment[0] if comment and len(lines) == 1 else ''}\n"
    indent = re.match(r"\s*", lines[1])[0]  # type: ignore[index]
    kept, rest = [lines[0]], lines[1:]
    names = [_name(line) for line in rest]
    wanted: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
    if isinstance(value, list):
        wanted = dict.fromkeys(map(str, value))
    for line, name in zip(rest, names, strict=True):
        if name is None or name not in wanted:
            if name is None:
                kept.append(line)  # a comment of its own
            continue
        one = wanted.pop(name)
        same = not isinstance(before, Mapping) or before.get(name) == one
        kept.append(line if same else f"{indent}{written(name)}: {written(one)}")
    for name, one in wanted.items():
        kept.append(
            f"{indent}- {written(name)}" if one is None else f"{indent}{written(name)}: {written(one)}"
        )
    return "\n".join(kept) + "\n"


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


def _chunks(block: str) -> list[str]:
    """The entries of a block, each with the lines that belong to it; a comment goes with what stands above it."""
    return [chunk for chunk in _KEY.split(block) if chunk]


@functools.lru_cache(maxsize=8192)
def _parsed(chunk: str) -> dict[str, Any]:
    value = _yaml(chunk)
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}


def _yaml(text: str) -> Any:
    try:
        return load_terms(text)
    except ValueError:
        return None
