"""How much of a model's text is kept where; a cut is always marked by the caller's `*_truncated` field."""

from __future__ import annotations

RAW_OUTPUT = 4096  # characters of a model's answer on its llm_call row: enough to see what went wrong
PARSE_ERROR = 500  # of an unparsable answer, carried by the error
ERROR = 1000  # of any error message
RATIONALE = 1000  # of a rationale in a deliberation log
PREVIEW = 300  # of an output shown in a result or a report
FIELD = 65_536  # of any other string in an event; a row stays readable and one write stays small


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The first `limit` characters, and whether anything was lost."""
    return (text, False) if len(text) <= limit else (text[:limit], True)
