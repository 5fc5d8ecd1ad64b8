"""Changes of a text: edits that fit in one place only, and what differs between two texts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from telemetry.edge.frozen import frozen


@frozen
class Edit:
    """One replacement in a text: what stands there (exactly once) and what shall stand there instead."""

    search: str
    replace: str


class EditError(Exception):
    """An edit that cannot be made as it was meant."""


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits; what an edit looks for must be there exactly once."""
    for edit in edits:
        if not edit.search:
            raise EditError("an edit looks for nothing")
        count = text.count(edit.search)
        if count != 1:
            shown = edit.search.strip().splitlines()[0][:80] if edit.search.strip() else "white space"
            raise EditError(f"{shown!r} is there {count} times, not once")
        text = text.replace(edit.search, edit.replace)
    return text


def unified(before: str, after: str, name: str = "challenger", context: int = 1) -> str:
    """The change of a champion's text as a unified diff."""
    lines = (before.splitlines(), after.splitlines())
    return "\n".join(difflib.unified_diff(*lines, "champion", name, n=context, lineterm=""))


def changed_lines(before: str, after: str) -> list[str]:
    """The lines that go (`-`) and come (`+`)."""
    return [line for line in unified(before, after, context=0).split("\n")[2:] if line[:1] in ("+", "-")]
