"""Whatever a model, a person or an endpoint writes stays text: in every body, every summary, every line of a log.

Real reports of a small checkout, with each of their free texts (outputs, critiques, proposals, reasons, ids of cases,
names of models, comments) replaced by what hypothesis draws, and rendered with GitHub's own parser.
"""

from __future__ import annotations

import argparse
import copy
import io
import re
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cmarkgfm
import orjson
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.model.schema import problems, read_schema
from eval.ab import body as ab
from eval.ledger.report import Form
from meta.critique import report as critiques
from meta.proposals import report as proposals
from meta.worth import report as worth
from telemetry import summarize
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, working_in
from telemetry.edge.records import load_json, made
from telemetry.edge.text import unseen
from tests.torture import lived
from tests.worlds.eventlog import event, write

PIECES = [
    "@everyone", "@team/all", "#12", "owner/repo#3", "GH-7", "https://evil.example/x", "www.evil.example",
    "a@b.example", "[x](javascript:alert(1))", "![p](http://evil.example/p.png)", "<script>alert(1)</script>",
    "<img src=x onerror=a>", "</details>", "<details>", "</summary>", "<!--", "-->", "</td></tr></table>",
    "<h1>Approved</h1>", "```", "~~~", "````\n", "\n\n", "\r\n", "\n# Approved by the owner\n", "\n---\n",
    "\n===\n", "| a | b |\n|---|---|\n", "`", "**", "__", "$$", "\\", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07",
    "\u202ereversed", "\u2066isolate", "\u200b", "\U000e0041\U000e0042", "\ufeff", "::error::stop",
    "::add-mask::x", "\n::set-output name=a::b\n", "##[command]rm", "\n##[error]x", "Closes #1", "Fixes GH-2",
    "&#64;all", "&lt;b&gt;", "> quote", "- [x] done", "1. one", "words", " ", "\xf6", "| ", "\x00", "\u2028",
]  # fmt: skip
COMMANDS = ("::", "##[")
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
FORMS: dict[str, Form[Any]] = {
    "A/B": ab.FORM, "critiques": critiques.FORM, "proposals": proposals.FORM, "retirement": worth.FORM,
}  # fmt: skip


class Seen(HTMLParser):
    """What a page consists of: its tags, and its text outside of code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.words, self._code = "", 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self._code += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        self.words += "" if self._code else data


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where texts stand in a report."""
    if isinstance(value, str):
        yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from leaves(value[key], (*path, key))


def put(value: Any, path: tuple[Any, ...], text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text


def free(form: Form[Any], sound: Any) -> list[tuple[Any, ...]]:
    """Those that may be any text: its schema asks for nothing else there, and neither does whoever tells it."""
    found = []
    for path in leaves(sound):
        other = copy.deepcopy(sound)
        put(other, path, "any <text> at all")
        try:
            if not problems(read_schema(form.schema), other):
                form.body(made(form.record, other))
                found.append(path)
        except (ValueError, LookupError):  # a time, a hash, the name of a verdict
            continue
    return found


@pytest.fixture(scope="module", params=FORMS)
def report(request: pytest.FixtureRequest) -> tuple[Form[Any], Any, list[tuple[Any, ...]]]:
    form = FORMS[request.param]
    sound = load_json((lived.template(whole=False) / form.path).read_bytes())
    paths = free(form, sound)
    assert paths
    return form, sound, paths


def rendered(form: Form[Any], value: Any) -> tuple[str, Seen]:
    body = form.body(made(form.record, value))
    return body, Seen(cmarkgfm.github_flavored_markdown_to_html(body, Options.CMARK_OPT_UNSAFE))


@settings(max_examples=25)
@given(text=TEXTS, seed=st.randoms(use_true_random=False))
def test_in_a_pull_request_any_text_is_only_text(report: Any, text: str, seed: Any) -> None:
    form, sound, paths = report
    value = copy.deepcopy(sound)
    for path in paths:
        if seed.random() < 0.7:
            put(value, path, text)
    body, page = rendered(form, value)
    assert unseen(body) is None
    assert not {"a", "img", "script", "h1", "input", "iframe"} & page.tags.keys()
    assert not re.search(r"@\w|(?<![\w&])#\d|\bGH-\d", page.words)
    plain, whole = rendered(form, sound)[1].tags, page.tags
    assert {tag: whole.get(tag, 0) for tag in ("details", "summary")} == {
        tag: plain.get(tag, 0) for tag in ("details", "summary")
    }


@given(text=TEXTS)
def test_in_the_log_of_a_workflow_no_text_is_a_command(text: str) -> None:
    @cli.entry(lambda: cli.Parser("", prog="p"))
    def main(args: argparse.Namespace, repo: Repo) -> int:
        raise BadInput(text)

    with redirect_stderr(io.StringIO()) as said:
        assert main([]) == cli.BAD_INPUT
    assert said.getvalue().count("\n") == 1
    assert not any(line.startswith(COMMANDS) for line in said.getvalue().splitlines())


@settings(max_examples=10)
@given(text=TEXTS)
def test_in_a_terminal_no_text_moves_the_cursor_or_turns_the_line(text: str) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        working_in(Path(folder)),
        redirect_stdout(io.StringIO()) as told,
    ):
        write(*(orjson.dumps(event(event_id=f"{n}", agent=text, error=text, model=text)) for n in range(3)))
        assert summarize.main(["--root", folder]) == cli.OK
    shown = told.getvalue()
    assert "\x1b" not in shown and unseen(shown.replace("\u200b", "")) is None  # that one breaks commands
    assert not any(line.startswith(COMMANDS) for line in shown.splitlines())
