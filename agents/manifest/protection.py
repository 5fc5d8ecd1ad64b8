"""Which paths no automated change may touch: one matcher for the agents that propose and for the guard.

In a glob `*` stays within a folder and `**` does not; a glob also protects everything below a folder that it names.
Paths are taken as a careless file system would: `./x`, `a/../x`, `x/` and `X` are `x`. What leaves the repository is
protected whatever the globs say. Protection errs on the wide side.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

OUTSIDE = "outside the repository"

_PATH = re.compile(
    r"(?<![\w/.-])(?:\.{0,2}/)?[\w.-]+(?:/[\w.*-]+)+|\.github\b|\b[\w-]+\.(?:py|ya?ml|toml|jsonl?|cfg|sh)\b"
)
_WILD = re.compile(r"(\*\*/|\*\*|\*)")
_MEANS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


def matches(path: str, glob: str) -> bool:
    """Does the glob match the path, letter by letter?"""
    return _pattern(glob).fullmatch(path) is not None


def protecting(path: str, globs: Sequence[str]) -> str | None:
    """The glob that protects the path, or `OUTSIDE`; None when it may be touched."""
    plain = normal(path)
    if plain == "." or plain.startswith(("/", "~/", "../")) or plain in ("..", "~"):
        return OUTSIDE
    spellings = {path.casefold(), plain}  # as given, too: a detour through a protected folder gains nothing
    return next((glob for glob in globs if any(_covers(glob, one) for one in spellings)), None)


def normal(path: str) -> str:
    """One spelling for all spellings of a path."""
    return posixpath.normpath(path.strip()).casefold()


def mentions(row: Mapping[str, Any], globs: Sequence[str]) -> list[str]:
    """The protected paths that a finding, a proposal or a recommendation would touch."""
    return list(dict.fromkeys(path for path in _paths(row) if protecting(path, globs)))


def _paths(row: Mapping[str, Any]) -> Iterator[str]:
    """The paths it would touch: named outright, or mentioned in the change."""
    for key in ("path", "target"):
        if isinstance(row.get(key), str) and row[key].strip():
            yield row[key]
    change = row.get("change")
    if isinstance(change, str):
        yield from (match.group().rstrip(".") for match in _PATH.finditer(change))


def _covers(glob: str, path: str) -> bool:
    """Does the glob match the path or a folder above it? `a/**` is about the folder `a` as well."""
    whole = normal(glob)
    folder = whole.removesuffix("/**")
    return any(matches(path, one) for one in (glob.casefold(), whole, folder, f"{folder}/**"))


@functools.lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile("".join(_MEANS.get(part, re.escape(part)) for part in _WILD.split(glob)), re.DOTALL)
