"""Text that nobody vouches for: secrets taken out, length bounded, nothing in it that cannot be seen."""

from __future__ import annotations

import os
import re

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
_URL_LOGIN = re.compile(r"(?<=://)[^/\s:@\"]{1,200}:[^/\s@\"]{1,200}(?=@)")

# Plain substring tests decide whether the patterns are worth running: most rows hold no secret.
_HINTS = ("sk-", "_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "akia", "xox", "eyj", "bearer", "key", "@")

_known = {
    value
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "BOT_TOKEN")
    if len(value := os.environ.get(name, "")) >= 8
}


def remember(secret: str) -> None:
    """Redact this exact value from now on, whatever it looks like; whoever reads a key calls this."""
    if len(secret) >= 8:  # a shorter one would blank out ordinary words
        _known.add(secret)


def redact(text: str) -> str:
    """`text` with every known secret, and anything that looks like a credential, replaced."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MARK)
    lower = text.lower()
    for hint in _HINTS:
        if hint in lower:
            break
    else:
        return text
    text = _SECRET.sub(MARK, text)
    text = _BEARER.sub(rf"\1{MARK}", text)
    return _URL_LOGIN.sub(MARK, text)
