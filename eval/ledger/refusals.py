"""What people said no to: one line per refused text (or agent, or finding), with who and why. No means no.

A pull request closed unmerged, or merged and reverted; on a laptop, a branch deleted unmerged. The lines stand beside
the log and travel with it: a text that was refused beside a champion is neither tested nor proposed beside it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from telemetry import logger
from telemetry.edge.files import REFUSALS, Repo, read_again
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json, plain
from telemetry.edge.text import clean, redact

T = TypeVar("T")

MAX_WHY = 500  # characters of a reason: it is shown to people, and told to whoever proposes next
TS = re.compile(r"\d{4}-\d{2}-\d{2}T[0-9:.]{8,12}Z")
BY = re.compile(r"[^\n]{0,100}")


def plain_reason(text: str) -> str:
    """A person's words on one line, without what cannot be seen and without credentials."""
    return redact(" ".join(clean(text).split()))[:MAX_WHY]


@frozen
class Said(Generic[T]):
    """A log of what people said, shared by the data branch: one record of texts a line, read as lines of strangers."""

    file: Path
    segments: str  # their name on the data branch
    message: str  # of the commit that takes them there
    record: Any  # type of a line
    words: str  # the field in a person's own words
    known_by: tuple[str, ...]  # fields that make a line with a reference the same as another
    forms: Mapping[str, re.Pattern[str]]  # of the other fields

    def line(self, row: Any) -> T | None:
        """The record of a parsed line; None if it has other fields, or one of them another form."""
        texts = isinstance(row, Mapping) and all(isinstance(value, str) for value in row.values())
        if not texts or row.keys() != self.record.__dataclass_fields__.keys():
            return None
        if not all(form.fullmatch(row[name]) for name, form in self.forms.items()):
            return None
        found: T = replace(self.record(**row), **{self.words: plain_reason(row[self.words])})
        return found

    def read(self, repo: Repo) -> list[T]:
        """All that is on record, oldest first, each once; a torn or foreign line is none."""
        found: dict[T, None] = {}
        for line in read_again(file).splitlines() if (file := repo / self.file).exists() else ():
            try:
                one = self.line(load_json(line))
            except ValueError:
                continue
            if one is not None:
                found[one] = None
        return list(found)

    def add(self, repo: Repo, new: Iterable[T]) -> list[T]:
        """Put on record what is not there yet; what was added."""

        def key(one: Any) -> tuple[str, ...]:
            return tuple(getattr(one, name) for name in self.known_by)

        known = set(map(key, self.read(repo)))
        added = [one for one in new if not getattr(one, "reference", "") or key(one) not in known]
        for one in added:
            logger.append(logger.encode(plain(one)), repo / self.file)
        return added

    def push(self, repo: Repo, new: Iterable[T]) -> None:
        """Put these on the data branch at once."""
        from telemetry.branch import segments
        from telemetry.branch.remote import DataBranch

        if data := b"".join(logger.encode(plain(one)) for one in new):
            path = segments.name(self.segments, logger.utc_now()[:10], data)
            DataBranch(repo.root).publish({path: data}, self.message)


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


LOG: Said[Refusal] = Said(
    REFUSALS, "rejections", "What a person rejected", Refusal, "why", ("reference", "subject", "sha256"),
    {
        "kind": re.compile(r"[a-z_]{1,40}"),
        "subject": re.compile(r"[A-Za-z0-9_./-]{1,160}"),
        "sha256": re.compile(r"[0-9a-f]{0,64}"),
        "champion_sha256": re.compile(r"[0-9a-f]{0,64}"),
        "ts": TS,
        "by": BY,
        "reference": re.compile(r"[^\s]{1,300}"),
    },
)  # fmt: skip
read_line, refusals, record, push = LOG.line, LOG.read, LOG.add, LOG.push
