"""What people said of a run or a case in words, and what they hold to be right: one line each, beside the log.

The lines travel like refusals. Words on a run go into the case that is made of it; words on a case reach whoever
proposes the next prompt, as far as that case may be seen.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final

from eval.ledger.refusals import BY, TS, Said
from telemetry import logger
from telemetry.edge.files import REMARKS, Repo
from telemetry.edge.frozen import frozen

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


LOG: Said[Remark] = Said(
    REMARKS, "remarks", "What a person said of a case", Remark, "said", ("reference", "subject", "said"),
    {
        "subject": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{2,99}"),
        "right": re.compile(r"[^\s]{0,300}"),
        "ts": TS,
        "by": BY,
        "reference": re.compile(r"[^\s]{0,300}"),
    },
)  # fmt: skip
record, push = LOG.add, LOG.push


def fits(subject: str, right: str = "") -> bool:
    """Whether that can be the subject of a remark, and its right answer."""
    return bool(LOG.forms["subject"].fullmatch(subject) and LOG.forms["right"].fullmatch(right))


def remarks(repo: Repo) -> dict[str, list[Remark]]:
    """All that was said, by subject, oldest first."""
    found: dict[str, list[Remark]] = {}
    for one in LOG.read(repo):
        found.setdefault(one.subject, []).append(one)
    return found
