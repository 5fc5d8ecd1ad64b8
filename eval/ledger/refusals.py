"""What people said no to: one line per refused text (or agent, or finding), with who and why. No means no.

A pull request closed unmerged, or merged and reverted; on a laptop, a branch deleted unmerged. The lines stand beside
the log and travel with it: a text that was refused beside a champion is neither tested nor proposed beside it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, TypeVar

from telemetry import logger
from telemetry.edge.files import REFUSALS, Repo, read_again
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.edge.text import clean, redact

T = TypeVar("T")

MAX_WHY = 500  # characters of a reason: it is shown to people, and told to whoever proposes next
_FORMS = {
    "kind": re.compile(r"[a-z_]{1,40}"),
    "subject": re.compile(r"[A-Za-z0-9_./-]{1,160}"),
    "sha256": re.compile(r"[0-9a-f]{0,64}"),
    "champion_sha256": re.compile(r"[0-9a-f]{0,64}"),
    "ts": re.compile(r"\d{4}-\d{2}-\d{2}T[0-9:.]{8,12}Z"),
    "by": re.compile(r"[^\n]{0,100}"),
    "reference": re.compile(r"[^\s]{1,300}"),
}


@frozen
class Refusal:
    """One thing that was refused."""

    kind: str  # of pull request
    subject: str  # the prompt, the agent
    sha256: str  # of the text or the finding; empty: the subject as a whole
    champion_sha256: str  # beside which it was refused; empty: whatever is live
    reference: str  # the pull request, or the commit on a laptop
    by: str = ""
    why: str = ""
    ts: str = field(default_factory=logger.utc_now)  # when it went on record

    @property
    def told(self) -> str:
        """As a person reads it."""
        who = f" by {self.by}" if self.by else ""
        why = f": {self.why}" if self.why else ""
        return f"refused{who} on {self.ts[:10]}{why}"

    def stands_beside(self, *champions: str) -> bool:
        """Whether it still holds while one of these is live."""
        return not self.champion_sha256 or self.champion_sha256 in champions


def plain_reason(text: str) -> str:
    """A person's words on one line, without what cannot be seen and without credentials."""
    return redact(" ".join(clean(text).split()))[:MAX_WHY]


def read_line(row: Any) -> Refusal | None:
    """The refusal of a parsed line; None if it is none: lines come from a shared branch."""
    if not well_formed(row, Refusal.__dataclass_fields__, _FORMS):
        return None
    return Refusal(**{**row, "why": plain_reason(row["why"])})


def well_formed(row: Any, names: Iterable[str], forms: Mapping[str, re.Pattern[str]]) -> bool:
    """Whether a parsed line has these fields and no others, all of them texts, and those of a form in that form."""
    if not isinstance(row, Mapping) or not all(isinstance(value, str) for value in row.values()):
        return False
    return set(row) == set(names) and all(form.fullmatch(row[name]) for name, form in forms.items())


def refusals(repo: Repo) -> list[Refusal]:
    """All that is on record, oldest first, each once; a torn or foreign line is none."""
    return list(dict.fromkeys(parsed_lines(repo / REFUSALS, read_line)))


def parsed_lines(file: Path, parse: Callable[[Any], T | None]) -> Iterator[T]:
    """What the lines of a shared log say, as far as they say anything."""
    for line in read_again(file).splitlines() if file.exists() else ():
        try:
            found = parse(load_json(line))
        except ValueError:
            continue
        if found:
            yield found


def push(repo: Repo, new: Iterable[Refusal]) -> None:
    """Put these on the data branch at once."""
    push_lines(repo, "rejections", map(asdict, new), "What a person rejected")


def push_lines(repo: Repo, log: str, rows: Iterable[Mapping[str, Any]], message: str) -> None:
    """The same for the lines of any such log."""
    from telemetry.branch import segments
    from telemetry.branch.remote import DataBranch

    data = b"".join(map(logger.encode, rows))
    if data:
        path = segments.name(log, logger.utc_now()[:10], data)
        DataBranch(repo.root).publish({path: data}, message)


def record(repo: Repo, new: Iterable[Refusal]) -> list[Refusal]:
    """Put on record what is not there yet; what was added."""
    known = {(one.reference, one.subject, one.sha256) for one in refusals(repo)}
    added = [one for one in new if (one.reference, one.subject, one.sha256) not in known]
    for one in added:
        logger.append(logger.encode(asdict(one)), repo / REFUSALS)
    return added
