"""Model text in Markdown stays text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.edge import markdown

HOSTILE = [
    "@everyone look",
    "see #12 and owner/repo#3 and GH-7",
    "[click](https://evil.example/x)",
    "![pixel](http://evil.example/p.png)",
    "https://evil.example www.evil.example",
    "<script>alert(1)</script>",
    "</details><h1>Approved</h1>",
    "```\nbreak out\n```",
    "| a | b |\n|---|---|",
    "# Approved by the owner",
    "text\n===",
    "text\n---",
    "a@b.example",
    "zero\u200bwidth \u202eright to left",
    "*bold* _it_ ~~gone~~ $x$ `code`",
    "1. one\n- two",
]

LINKS = re.compile(r"@\w|(?<!&)#\d|://|www\.|gh-\d|<(?!!--)[a-z/]|(?<!\\)[\[\]`*|]|(?<!\\)!\[", re.IGNORECASE)


@pytest.mark.parametrize("text", HOSTILE)
def test_cell_and_quote_leave_nothing_for_github_to_act_on(text: str) -> None:
    assert "\n" not in markdown.cell(text)
    assert not LINKS.search(markdown.cell(text))
    for line in markdown.quote(text).splitlines():
        assert line.startswith(">")
        assert not LINKS.search(line[1:])
        assert not re.match(r"> ?(#|[-+=]([-+=]|\s|$)|\d+[.)](\s|$))", line)


@given(st.text())
def test_no_text_escapes_its_place(text: str) -> None:
    assert "\n" not in markdown.cell(text)
    assert not LINKS.search(markdown.cell(text))
    assert all(line.startswith(">") for line in markdown.quote(text).split("\n"))
    inline = markdown.code(text)
    assert inline.count("`") == 2 and "|" not in inline and "\n" not in inline


@given(st.text(alphabet="`~a\n ", max_size=60))
def test_a_fence_is_closed_only_by_its_own_end(text: str) -> None:
    opening, *body, closing = markdown.fenced(text, "diff").split("\n")
    fence = opening.removesuffix("diff")
    assert closing == fence and set(fence) == {"`"}
    assert not any(line.strip().startswith(fence) for line in body)


def test_a_cut_is_marked() -> None:
    assert markdown.cell("x" * 50, limit=10) == "x" * 9 + "…"
    assert markdown.code("plain") == "`plain`"


def test_a_mention_and_a_reference_are_broken_and_still_readable() -> None:
    assert markdown.cell("@all: see #1") == "@&#8203;all: see \\#&#8203;1"
