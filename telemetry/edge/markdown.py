"""Puts untrusted text into Markdown so that it stays text: no mention, link, image, HTML, heading or open fence.

GitHub renders what models write in pull requests and job summaries. `@team` would notify people, `#12` would leave a
trace on another issue, a link would invite a click, `</details>` would end our own markup. Mentions and references
are found by GitHub after entities are decoded, so they are broken by a zero-width space, as Renovate does.
`cell` is for one line (also in tables), `quote` for a block quote, `code` and `fenced` for text shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.edge.text import clean

# Characters of a pull request; GitHub cuts at 65,536, in the middle of whatever stands there.
MAX_BODY: Final = 58_000

BREAK = "&#8203;"  # zero-width space: keeps `@`, `#`, `://` from being followed by what they act on

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()!|~$])")
_LINE_START = re.compile(r"^(\s*)([-+=](?=[-+=\s]|$)|\d+[.)](?=\s|$))")  # a list, a heading, a rule
_REFERENCE = re.compile(r"\b(gh)-(?=\d)", re.IGNORECASE)
_WWW = re.compile(r"\b(www)\.", re.IGNORECASE)
_BACKTICKS = re.compile(r"`+")


def cell(text: str, limit: int | None = None) -> str:
    """One line of inert text, for a table cell, a list item or a summary."""
    return _inert(_cut(" ".join(clean(text).split()), limit))


def quote(text: str, limit: int | None = None) -> str:
    """A block quote of inert text, line by line."""
    lines = _cut(clean(text).strip(), limit).splitlines() or [""]
    return "\n".join(f"> {_inert(line.strip())}".rstrip() for line in lines)


def code(text: str, limit: int | None = 120) -> str:
    """Inline code on one line; what would end it, or a table cell, is replaced."""
    line = _cut(" ".join(clean(text).split()), limit).replace("`", "'").replace("|", "¦")
    return f"`{line}`" if line else "` `"


def fenced(text: str, language: str = "", limit: int | None = None) -> str:
    """The text as it is, in a fence longer than any run of backticks in it."""
    body = _cut(clean(text), limit).rstrip()
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def _cut(text: str, limit: int | None) -> str:
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"


def _inert(line: str) -> str:
    line = _LINE_START.sub(lambda m: f"{m[1]}{m[2][:-1]}\\{m[2][-1]}", _PUNCTUATION.sub(r"\\\1", line))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = line.replace("#", f"\\#{BREAK}")  # first: a break holds a # itself
    line = line.replace("@", f"@{BREAK}").replace("://", f":{BREAK}//")
    return _WWW.sub(rf"\1{BREAK}.", _REFERENCE.sub(rf"\1{BREAK}-", line))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> str:
    """A table of finished cells; the last `right` columns are numbers."""
    rule = "---|" * (len(titles) - right) + "---:|" * right
    return "\n".join([f"| {' | '.join(titles)} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)])


def details(summary: str, text: str) -> str:
    """A part that is folded until someone wants it; `summary` is plain, GitHub renders no Markdown there."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def some(items: Sequence[str], most: int) -> str:
    """The first of a list in one line, and how many more there are."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return f"{', '.join(items[:most])}{more}"


def first_screen(*lines: str) -> str:
    """The block quote that a body starts with: enough to decide. Empty lines are left out."""
    return "\n".join(f"> {line}" for line in lines if line)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a body that may be left out: the lowest `worth` first, of equals the last."""

    text: str
    worth: int = 50
    name: str = ""  # told when it had to go


def fitting(parts: Iterable[str | Section], record: str) -> str:
    """A body of whole parts, short enough for GitHub; the first part always stays. `record` holds all of it."""
    sections = [part if isinstance(part, Section) else Section(part) for part in parts]
    kept = [section for section in sections if section.text]
    gone: list[Section] = []
    while len(body := _joined(kept, gone, record)) > MAX_BODY and len(kept) > 1:
        gone.append(kept.pop(min(range(1, len(kept)), key=lambda at: (kept[at].worth, -at))))
    return body if len(body) <= MAX_BODY else body[: MAX_BODY - 2] + "…\n"


def _joined(kept: Iterable[Section], gone: Iterable[Section], record: str) -> str:
    texts = [section.text for section in kept]
    if names := dict.fromkeys(section.name or "the rest" for section in gone):
        texts.append(f"_Left out to fit: {_cut(', '.join(names), 300)}; all of it is in `{record}`._")
    return "\n\n".join(texts).rstrip() + "\n"
