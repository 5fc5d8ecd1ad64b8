"""What people said of a run or a case in words, and what they hold to be right: one line each, beside the log.

The lines travel like refusals. Words on a run go into the case that is made of it; words on a case reach whoever
proposes the next prompt, as far as that case may be seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, field
from typing import Any, Final

from eval.ledger.refusals import parsed_lines, plain_reason, push_lines, well_formed
from telemetry import logger
from telemetry.edge.files import REMARKS, Repo
from telemetry.edge.frozen import frozen

_FORMS: Final = {
    "subject": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{2,99}"),
    "right": re.compile(r"[^\s]{0,300}"),
    "ts": re.compile(r"\d{4}-\d{2}-\d{2}T[0-9:.]{8,12}Z"),
    "by": re.compile(r"[^\n]{0,100}"),
    "reference": re.compile(r"[^\s]{0,300}"),
}
NOTHING: Final = "none"  # the right answer was to say nothing


@frozen
class Remark:
    """One thing that somebody said."""

    subject: str  # the id of a run or of a case
    said: str
    right: str = ""  # what the answer should have named, by commas; empty: no word on that
    by: str = ""
    reference: str = ""  # where it was said
    ts: str = field(default_factory=logger.utc_now)

    @property
    def values(self) -> list[str] | None:
        """What the answer should have named; None if they did not say."""
        if not self.right:
            return None
        return [] if self.right == NOTHING else [one for one in self.right.split(",") if one]

    @property
    def told(self) -> str:
        """As a person reads it."""
        return f"{self.said} ({self.by or 'somebody'}, {self.ts[:10]})" if self.said else ""


def fits(subject: str, right: str = "") -> bool:
    """Whether that can be the subject of a remark, and its right answer."""
    return bool(_FORMS["subject"].fullmatch(subject) and _FORMS["right"].fullmatch(right))


def read_line(row: Any) -> Remark | None:
    """The remark of a parsed line; None if it is none: lines come from a shared branch."""
    if not well_formed(row, Remark.__dataclass_fields__, _FORMS):
        return None
    return Remark(**{**row, "said": plain_reason(row["said"])})


def remarks(repo: Repo) -> dict[str, list[Remark]]:
    """All that was said, by subject, oldest first."""
    found: dict[str, list[Remark]] = {}
    for one in dict.fromkeys(parsed_lines(repo / REMARKS, read_line)):
        found.setdefault(one.subject, []).append(one)
    return found


def record(repo: Repo, new: Iterable[Remark]) -> list[Remark]:
    """Put on record what is not there yet; what was added."""
    known = {(one.reference, one.subject, one.said) for own in remarks(repo).values() for one in own}
    added = [one for one in new if not one.reference or (one.reference, one.subject, one.said) not in known]
    for one in added:
        logger.append(logger.encode(asdict(one)), repo / REMARKS)
    return added


def push(repo: Repo, new: Iterable[Remark]) -> None:
    """Put these on the data branch at once."""
    push_lines(repo, "remarks", (asdict(one) for one in new), "What a person said of a case")
