"""Text that nobody vouches for, made harmless: for logs, for terminals, and in Markdown.

GitHub renders what models write in pull requests and job summaries. `@team` would notify people, `#12` would leave a
trace on another issue, a link would invite a click, `</details>` would end our own markup. Mentions and references
are found by GitHub after entities are decoded, so they are broken by a zero-width space, as Renovate does.
`cell` is for one line (also in tables), `quote` for a block quote, `code` and `fenced` for text shown as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote as quote_url
from urllib.parse import quote_plus

from telemetry.edge.frozen import frozen

# How much of a model's text is kept where; a cut is always marked by the caller's `*_truncated` field.
MAX_RAW_OUTPUT = 4096  # characters of a model's answer on its llm_call row: enough to see what went wrong
MAX_PARSE_ERROR = 500  # of an unparsable answer, carried by the error
MAX_ERROR = 1000  # of any error message
MAX_RATIONALE = 1000  # of a rationale in a deliberation log
MAX_PREVIEW = 300  # of an output shown in a result or a report
MAX_FIELD = 65_536  # of any other string in an event; a row stays readable and one write stays small


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The first `limit` characters, and whether anything was lost."""
    return (text, False) if len(text) <= limit else (text[:limit], True)


# What cannot be seen, or makes a text read differently from what it says: control characters but tab and line feed,
# fillers, zero-width and right-to-left marks, separators, invisible operators, variation selectors, tag characters.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def clean(text: str) -> str:
    """The text without what cannot be seen, LF line ends."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


_COMMAND = re.compile(r"((?:^|[\r\n])\s*:)(?=:)|(#)(?=#\[)")


def logged(text: str) -> str:
    """The text for a log that a workflow's runner reads: no line of it is a command to the runner (`::`, `##[`)."""
    return _COMMAND.sub("\\g<0>\u200b", text)


def spelt_out(text: str) -> str:
    """The text with what cannot be seen as JSON writes it: `\\u202e`. Of a text that is JSON, the value stays."""

    def escaped(found: re.Match[str]) -> str:
        units = found[0].encode("utf-16-be").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return _UNSEEN.sub(escaped, text)


def unseen(text: str) -> str | None:
    """The first character that cannot be seen, by its code point (`U+200B`); None if there is none."""
    found = _UNSEEN.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


MARK = "[redacted]"

_SECRET = re.compile(
    r"\bsk-[A-Za-z0-9_\-]{12,}"  # OpenAI and compatible; a word such as risk-adjusted is none
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|AKIA[0-9A-Z]{16}"
    r"|xox[abprs]-[A-Za-z0-9\-]{10,}"
    r"|eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}"  # JSON Web Token
)
_BEARER = re.compile(r"(?i)\b(bearer\s+|api[_-]?key[\"']?\s*[=:]\s*[\"']?)([A-Za-z0-9._~+/\-]{8,}=*)")
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@\"]{1,400}(?=@)")  # a token may stand there alone

# Plain substring tests decide whether the patterns are worth running: most rows hold no secret. To find a letter takes
# a twentieth of the time of a word: a word with a letter that most texts lack is looked for only where that is.
_HINTS = ("sk-", "_pat_")
_BY_LETTER = {"@": "@", "K": "AKIA", "J": "eyJ", "x": "xox"}
_IN_ANY_CASE = ("bearer", "key")
_GITHUB = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")  # asked only of a text with a "gh" in it

_known: set[str] = set()  # every secret, in every spelling that an endpoint may echo it in


def remember(secret: str) -> None:
    """Redact this exact value from now on, whatever it looks like; whoever reads a key calls this."""
    secret = secret.strip()
    if len(secret) >= 8:  # a shorter one would blank out ordinary words
        _known.update(_spellings(secret))


def _spellings(secret: str) -> Iterator[str]:
    """Plain, URL-encoded, and in base64, also in the middle of something longer (`Basic dXNlcjpz...`)."""
    import base64

    yield secret
    yield from {quote_url(secret, safe=""), quote_plus(secret)} - {secret}
    for shift in range(3):
        # Of the first and the last character of the code, some bits belong to the neighbours.
        code = base64.b64encode(b"\0" * shift + secret.encode()).decode()
        start, end = (0, 2, 3)[shift], -4 if code.endswith("=") else None
        for one in (code, code.replace("+", "-").replace("/", "_")):
            if len(one[start:end]) >= 8:
                yield one[start:end]


for _name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "BOT_TOKEN"):
    remember(os.environ.get(_name, ""))


def hidden(text: str) -> str:
    """`text` without the secrets that are known; what merely looks like one stays."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MARK)
    return text


def may_hold_secret(text: str) -> bool:
    """Whether `redact` would look at the text more closely."""
    for secret in _known:
        if secret in text:
            return True
    for hint in (*_HINTS, *_GITHUB) if "gh" in text else _HINTS:
        if hint in text:
            return True
    for letter, hint in _BY_LETTER.items():
        if letter in text and hint in text:
            return True
    lower = text.lower()
    return _IN_ANY_CASE[0] in lower or _IN_ANY_CASE[1] in lower


def redact(text: str) -> str:
    """`text` with every known secret, and anything that looks like a credential, replaced."""
    if not may_hold_secret(text):
        return text
    text = _SECRET.sub(MARK, hidden(text))
    text = _BEARER.sub(rf"\1{MARK}", text)
    return _URL_LOGIN.sub(MARK, text)


# Characters of a pull request; GitHub cuts at 65,536, in the middle of whatever stands there.
MAX_BODY: Final = 58_000

BREAK = "&#8203;"  # zero-width space: keeps `@`, `#`, `://` from being followed by what they act on

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()!|~$])")
_LINE_START = re.compile(r"^(\s*)([-+=](?=[-+=\s]|$)|\d+[.)](?=\s|$))")  # a list, a heading, a rule
_REFERENCE = re.compile(r"(?<![^\W_])(gh)-(?=\d)", re.IGNORECASE)  # an underscore before it is no letter
_WWW = re.compile(r"(?<![^\W_])(www)\.", re.IGNORECASE)
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
    return _harmless(line.replace("#", "\\#"))


def _harmless(line: str) -> str:
    """HTML that is only text, and nothing that GitHub acts on after entities are decoded."""
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = line.replace("#", f"#{BREAK}")  # first: a break holds a # itself
    line = line.replace("@", f"@{BREAK}").replace("://", f":{BREAK}//")
    return _WWW.sub(rf"\1{BREAK}.", _REFERENCE.sub(rf"\1{BREAK}-", line))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> str:
    """A table of finished cells; the last `right` columns are numbers."""
    rule = "---|" * (len(titles) - right) + "---:|" * right
    return "\n".join([f"| {' | '.join(titles)} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)])


def xychart(title: str, across: str, up: str, *series: str, sideways: bool = False) -> str:
    """A chart that GitHub draws: its two axes and its series (`line [1, 2]`, `bar [1, 2]`) in the words of Mermaid."""
    head = f'xychart-beta{" horizontal" * sideways}\n    title "{title}"'
    lines = [head, f"x-axis {across}", f"y-axis {up}", *series]
    return fenced("\n    ".join(lines), "mermaid")


def details(summary: str, text: str) -> str:
    """A part that is folded until someone wants it; `summary` is any text: GitHub renders no Markdown there."""
    line = _harmless(" ".join(clean(summary).split())).replace("[", "&#91;").replace("]", "&#93;")
    return f"<details><summary>{line}</summary>\n\n{text}\n\n</details>"


def some(items: Sequence[str], most: int) -> str:
    """The first of a list in one line, and how many more there are."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return f"{', '.join(items[:most])}{more}"


def first_screen(*lines: str) -> str:
    """The block quote that a body starts with: enough to decide. Empty lines are left out."""
    return "\n".join(f"> {line}" for line in lines if line)


@frozen
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
