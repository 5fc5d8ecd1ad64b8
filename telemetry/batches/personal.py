"""Finds what identifies a person in a text, by pattern and check digit, and replaces it by its kind.

Kinds: e-mail, phone, card (Luhn), IBAN (mod 97), US social security number, IP address, the login of an address.
Names, streets and birthdays have no pattern: finding them needs a model, and none is used here. What must not leave on
that account must not be exported. Precision and recall per kind: tests/telemetry/personal.txt, `make bench`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from telemetry.edge.frozen import frozen

# Each begins with a character that is rare enough to be jumped to; only then it looks back: a text of a kilobyte takes
# a tenth of a millisecond. Where there is a group, it is what counts.
_LOGIN: Final = r"://(?!@|\[login\])([^\s/@\"'<>:]{0,200}(?::[^\s/@\"'<>]{0,200})?)(?=@[\w\[])"
_EMAIL: Final = r"@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])"  # and what stands before it
_IBAN: Final = (
    r"[A-Z](?<![A-Za-z0-9][A-Z])[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)
_CARD: Final = r"\d(?<![\w.,-]\d)(?:[ -]?\d){12,18}(?![\w-]|[.,]\d)"
_SSN: Final = r"\d(?<![\w-]\d)(?<!9)\d\d(?<!000|666)-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"
_IP4: Final = r"\d(?<![\w.:-]\d)\d{0,2}(?:\.\d{1,3}){3}(?!\w|\.\d)"
_IP6: Final = (
    r"[0-9A-Fa-f:](?<![\w.:-][\w:])(?:(?<!:)[0-9A-Fa-f]{0,3}|(?<=:)(?=:))"
    r"(?::[0-9A-Fa-f]{0,4}){1,7}(?![\w:]|\.\d)"
)
# With its country, in brackets, or parted as only numbers to call are: a bare row of digits is an amount or an id.
_PHONE: Final = (
    r"[+(\d](?<![\w.+-][+(\d])(?:(?<=\+)\d{1,3}[ .-]?(?:\(0?\d{1,4}\)[ .-]?)?\d(?:[ ./-]?\d){5,12}"
    r"|(?<=\()\d{2,5}\)[ .-]?\d{3,4}[ .-]?\d{3,5}"
    r"|(?<=\d)\d{2}[.-]\d{3}[.-]\d{4}"
    r"|(?<=0)[1-9]\d{1,3}[ /-]\d{3,4}[ ]?\d{3,5})(?![\w-]|[.,]\d)"
)
# In this order: what one has taken is not looked at by the next. Beside each, what a text that holds one must hold.
PATTERNS: Final = tuple(
    (kind, needs, re.compile(pattern))
    for kind, needs, pattern in (
        ("login", "://", _LOGIN), ("email", "@", _EMAIL), ("iban", "", _IBAN), ("card", "", _CARD),
        ("ssn", "-", _SSN), ("phone", "", _PHONE), ("ip", ".", _IP4), ("ip", ":", _IP6),
    )
)  # fmt: skip
KINDS: Final = tuple(dict.fromkeys(kind for kind, *_ in PATTERNS))
_LOCAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+'-]{0,63}\Z")


@frozen
class Found:
    """One place in a text."""

    kind: str
    start: int
    end: int


def find(text: str) -> list[Found]:
    """What a text holds, in order; no two overlap."""
    taken: list[Found] = []
    for kind, needs, pattern in PATTERNS:
        if needs and needs not in text:
            continue
        for match in pattern.finditer(text):
            start, end = match.span(match.lastindex or 0)
            if kind == "email":
                local = _LOCAL.search(text[max(0, start - 64) : start])
                if local is None:
                    continue
                start -= len(local[0])
            if _real(kind, text[start:end]) and all(end <= one.start or start >= one.end for one in taken):
                taken.append(Found(kind, start, end))
    return sorted(taken, key=lambda one: one.start)


def without(text: str) -> str:
    """The text with each of them replaced by its kind: `[email]`."""
    found = find(text)
    return "".join(_parts(text, found)) if found else text


def _parts(text: str, found: list[Found]) -> Iterator[str]:
    at = 0
    for one in found:
        yield text[at : one.start]
        yield f"[{one.kind}]"
        at = one.end
    yield text[at:]


def _real(kind: str, text: str) -> bool:
    """What a pattern cannot tell: check digits, and ranges."""
    if kind == "card":
        digits = [int(one) for one in text if one.isdecimal()]
        return len(set(digits)) > 1 and _luhn(digits)
    if kind == "iban":
        return _mod97(text.replace(" ", ""))
    if kind == "phone":
        return 7 <= sum(map(str.isdecimal, text)) <= 15
    if kind == "ip":
        return _address(text)
    return True


def _luhn(digits: list[int]) -> bool:
    doubled = [
        digit if at % 2 == 0 else sum(divmod(2 * digit, 10)) for at, digit in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


def _mod97(iban: str) -> bool:
    moved = iban[4:] + iban[:4]
    return 15 <= len(iban) <= 34 and int("".join(str(int(one, 36)) for one in moved)) % 97 == 1


def _address(text: str) -> bool:
    """A version such as 1.2.3.4 is an address too, as far as anybody can see; a time such as 12:30:05 is none."""
    if "." not in text and "::" not in text and text.count(":") != 7:
        return False
    try:
        return not ip_address(text).is_unspecified
    except ValueError:
        return False
