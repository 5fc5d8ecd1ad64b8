"""Takes secrets out of text before anything is written: API keys, bearer tokens, credentials in URLs."""

from __future__ import annotations

import os
import re

MARK = "[redacted]"

_SECRET = re.compile(
    r"sk-[A-Za-z0-9_\-]{12,}"  # OpenAI and compatible
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|AKIA[0-9A-Z]{16}"
    r"|xox[abprs]-[A-Za-z0-9\-]{10,}"
    r"|eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}"  # JSON Web Token
)
_BEARER = re.compile(r"(?i)\b(bearer\s+|api[_-]?key[\"']?\s*[=:]\s*[\"']?)([A-Za-z0-9._~+/\-]{8,}=*)")
_URL_LOGIN = re.compile(r"(?<=://)[^/\s:@\"]{1,200}:[^/\s@\"]{1,200}(?=@)")

# One cheap scan decides whether the patterns are worth running: most rows hold no secret.
_HINT = re.compile(
    r"(?i)sk-|gh[pousr]_|github_pat_|AKIA|xox[abprs]-|eyJ|bearer|api[_-]?key|://[^/\s]{3,400}@"
)

_ENVIRONMENT = ("OPENAI_API_KEY", "GITHUB_TOKEN", "BOT_TOKEN", "GH_TOKEN")


def redact(text: str) -> str:
    """`text` with anything that looks like a credential, or is one from the environment, replaced."""
    for name in _ENVIRONMENT:
        value = os.environ.get(name, "")
        if len(value) >= 8 and value in text:
            text = text.replace(value, MARK)
    if _HINT.search(text) is None:
        return text
    text = _SECRET.sub(MARK, text)
    text = _BEARER.sub(rf"\1{MARK}", text)
    return _URL_LOGIN.sub(MARK, text)
