"""Model text in Markdown stays text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.edge import text as markdown

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


@given(
    st.lists(st.builds(markdown.Section, st.text("ab\n", max_size=30_000), st.integers(0, 9), st.text("xy")))
)
def test_a_body_fits_keeps_its_first_part_and_names_what_went(sections: list[markdown.Section]) -> None:
    first = markdown.first_screen("decide", "", "now")
    body = markdown.fitting([first, *sections], "the record")
    assert len(body) <= markdown.MAX_BODY and body.startswith("> decide\n> now")
    whole = sum(len(one.text) + 2 for one in sections) + len(first) + 1 <= markdown.MAX_BODY
    assert whole == ("Left out to fit" not in body)


def test_the_least_worth_goes_first_and_of_equals_the_last() -> None:
    big = "x" * (markdown.MAX_BODY // 3)
    parts = [markdown.Section(f"{name}{big}", worth, name) for name, worth in (("a", 9), ("b", 5), ("c", 5))]
    body = markdown.fitting(["first", *parts], "r.json")
    assert [name for name in "abc" if f"{name}{big}" in body] == ["a", "b"]
    assert body.endswith("_Left out to fit: c; all of it is in `r.json`._\n")


def test_a_table_lines_up_its_numbers() -> None:
    assert (
        markdown.table(["agent", "runs"], [["a", "1"]], right=1) == "| agent | runs |\n|---|---:|\n| a | 1 |"
    )


@pytest.mark.parametrize(
    "text",
    [
        "::set-env name=A::b",
        "agents/x\n  ::add-mask::y.md: refused",
        "a\r::error::b",
        "BAD ##[command]x",
        ":::notice::",
    ],
)
def test_no_line_of_a_log_is_a_command_to_the_runner(text: str) -> None:
    lines = re.split(r"[\r\n]", markdown.logged(text))
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)
    assert markdown.logged("a::b # [c]") == "a::b # [c]"
