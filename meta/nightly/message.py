"""A pull request's text as a commit message: plain, and readable where `git show` has 80 columns. Pure.

What is folded on GitHub stays in the report, and a diff is what `git show` prints anyway; both are left out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from telemetry.edge.text import BREAK

WIDTH = 74  # git show indents by four
GAP = "  "

_FOLDED = re.compile(r"<details><summary>(.*?)</summary>.*?</details>", re.DOTALL)
_FENCED = re.compile(r"^(`{3,})[a-z]*\n.*?^\1$", re.DOTALL | re.MULTILINE)
_ALERT = re.compile(r"^\[!\w+\]$")
_TURN = "Your turn:"  # of GitHub's reader; whoever reads a branch has other means


def message(body: str, branch: str, report: str) -> str:
    """The text below a commit's first line."""
    folded = [html.unescape(name.replace(BREAK, "")) for name in _FOLDED.findall(body)]
    blocks = _FENCED.sub("", _FOLDED.sub("", body)).split("\n\n")
    parts = [told for block in blocks if (told := _block(block.strip("\n")))]
    if folded:
        names = (line for name in folded for line in _wrapped(f"- {name}"))
        parts.append("\n".join([f"More in {report}:", *names]))
    parts.append(f"To take it:   git merge {branch}\nTo refuse it: git branch -D {branch}")
    return "\n\n".join(parts) + "\n"


def _block(text: str) -> str:
    """One paragraph, list, table or heading."""
    lines = [line.removeprefix(">").strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not _ALERT.match(line)]
    if not lines or _plain(lines[0]).startswith(_TURN):
        return ""
    if lines[0].startswith("#"):
        title = _plain(lines[0].lstrip("# "))
        return "\n".join([title, "-" * min(len(title), WIDTH), *_lines(lines[1:])])
    if lines[0].startswith("|"):
        return "\n".join(_table([_cells(line) for line in lines if not re.fullmatch(r"[|:\- ]+", line)]))
    return "\n".join(_lines(lines))


def _lines(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield from _wrapped(_plain(line))


def _wrapped(text: str) -> list[str]:
    hang = "  " if text.startswith("- ") else ""
    return wrap(text, WIDTH, subsequent_indent=hang, break_on_hyphens=False)


def _cells(line: str) -> list[str]:
    return [_plain(cell) for cell in re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|"))]


def _table(rows: list[list[str]]) -> Iterator[str]:
    """Columns side by side; those that have room between words are narrowed until all of them fit."""
    columns = list(zip_longest(*rows, fillvalue=""))
    widths = [max(map(len, column)) for column in columns]
    least = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    while sum(widths) + len(GAP) * (len(widths) - 1) > WIDTH:
        room = [(width, at) for at, width in enumerate(widths) if width > least[at]]
        if not room:
            break
        widths[max(room)[1]] -= 1
    for row in zip(*columns, strict=True):
        cells = [
            wrap(cell, width or 1, break_on_hyphens=False) for cell, width in zip(row, widths, strict=True)
        ]
        for line in zip_longest(*cells, fillvalue=""):
            yield GAP.join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()


def _plain(text: str) -> str:
    """Words without Markdown: what made them inert is undone, a terminal acts on none of it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<!\\)(\*\*|`)", "", text)
    text = re.sub(r"(?<![\\\w])_(.+?)(?<!\\)_(?!\w)", r"\1", text)
    text = re.sub(r"(?<!\\)\*(?=\w)|(?<=\w)\*(?=\W|$)", "", text)
    return html.unescape(re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text.replace(BREAK, ""))).strip()
