"""A pull request's text as GitHub shows it: its own Markdown parser, its column of 850 px, its alerts."""

from __future__ import annotations

import re

WIDTH = 850  # px of the column that a pull request's text stands in, on a laptop

# The part of GitHub's stylesheet that decides how high and how wide a text gets (github-markdown-css, MIT).
STYLE = """
body { margin: 0; padding: 16px; box-sizing: border-box; max-width: 850px; color: #1f2328; background: #fff;
  font: 14px/1.5 -apple-system, BlinkMacSystemFont, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif;
  overflow-wrap: break-word; }
h2, h3, h4 { margin: 24px 0 16px; line-height: 1.25; } h3 { font-size: 1.25em; } h4 { font-size: 1em; }
p, blockquote, ul, ol, table, pre, details, .alert { margin: 0 0 16px; }
ul, ol { padding-left: 2em; } li + li { margin-top: .25em; }
blockquote { padding: 0 1em; color: #59636e; border-left: .25em solid #d1d9e0; }
blockquote > :last-child, .alert > :last-child { margin-bottom: 0; }
.alert { padding: 8px 16px; border-left: .25em solid; } .alert .title { font-weight: 500; line-height: 1; }
.NOTE { border-color: #0969da; } .NOTE .title { color: #0969da; }
.TIP { border-color: #1a7f37; } .TIP .title { color: #1a7f37; }
.WARNING { border-color: #9a6700; } .WARNING .title { color: #9a6700; }
code, pre { font: 12px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
code { padding: .2em .4em; background: #818b981f; border-radius: 6px; white-space: break-spaces; }
pre { padding: 16px; overflow: auto; background: #f6f8fa; border-radius: 6px; }
pre code { padding: 0; background: none; white-space: pre; }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%; overflow: auto; }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; } tr:nth-child(2n) { background: #f6f8fa; }
summary { cursor: pointer; } .diff span { display: inline-block; min-width: 100%; }
.diff .gone { background: #ffebe9; } .diff .new { background: #dafbe1; }
"""
HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'


def page(markdown: str, title: str = "A pull request") -> str:
    """The text as a page of its own."""
    from cmarkgfm import cmark, github_flavored_markdown_to_html

    options = cmark.Options.CMARK_OPT_UNSAFE | cmark.Options.CMARK_OPT_HARDBREAKS  # a line is a line there
    html = github_flavored_markdown_to_html(markdown, options)
    html = re.sub(r"<blockquote>\s*<p>\[!(\w+)\]<br />(.*?)</blockquote>", _alert, html, flags=re.DOTALL)
    html = re.sub(r'<pre lang="diff"><code>(.*?)</code></pre>', _diff, html, flags=re.DOTALL)
    head = f"<head>{HEAD}<title>{title}</title><style>{STYLE}</style></head>"
    return f'<!doctype html><html lang="en">{head}<body><main>{html}</main></body></html>'


def _alert(found: re.Match[str]) -> str:
    title = f'<p class="title">{found[1].capitalize()}</p>'
    return f'<div class="alert {found[1]}">{title}<p>{found[2]}</div>'


def _diff(found: re.Match[str]) -> str:
    marks = {"+": "new", "-": "gone"}
    lines = (f'<span class="{marks.get(line[:1], "same")}">{line}</span>' for line in found[1].splitlines())
    shown = "\n".join(lines)
    return f'<pre class="diff" tabindex="0"><code>{shown}</code></pre>'
