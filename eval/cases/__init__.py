"""The example domain: builders of the market suites; nothing at run time imports this."""

from __future__ import annotations


def rows(text: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a table written as text, columns apart by `|`."""
    return tuple(tuple(map(str.strip, line.split("|"))) for line in text.strip().splitlines())
