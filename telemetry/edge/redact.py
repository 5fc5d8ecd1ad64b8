"""Takes secrets out of text before anything is written: API keys, bearer tokens, credentials in URLs."""

from __future__ import annotations

import os
import re

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
