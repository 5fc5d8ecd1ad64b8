"""The life of a report: a record that is held to its schema, written as JSON with its Markdown beside it, read back.

One kind of report is one `Form`. What a script found is a frozen dataclass until the last line; the text of the pull
request is made from that record and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from agents.model.schema import problems, read_schema
from telemetry.edge.files import Repo, as_json, read_again, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json, made, plain
from telemetry.edge.text import code

R = TypeVar("R")


@frozen
class Asked:
    """The model that a report stands on, see `provenance.model_identity`."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None

    @property
    def told(self) -> str:
        """As a pull request names it."""
        return "the **offline model**" if self.provider == "offline" else code(str(self.model))


@frozen
class Form(Generic[R]):
    """One kind of report: its file, its schema, its record, and how it reads as a pull request."""

    path: Path  # of the JSON, relative to the checkout; the Markdown stands beside it
    schema: Path
    record: type[R]
    body: Callable[[R], str]

    @property
    def markdown(self) -> Path:
        return self.path.with_suffix(".md")

    def files(self, report: R) -> dict[Path, str]:
        """What is to be written, by path; a report that breaks its own schema is a bug and is written nowhere."""
        value = plain(report)
        if wrong := self._faults(value):
            raise AssertionError(f"{self.path}: the report breaks its own schema: {'; '.join(wrong)}")
        text = as_json(value)
        told = self.body(made(self.record, json.loads(text)))  # as whoever has only the file would tell it
        return {self.path: text, self.markdown: told}

    def write(self, repo: Repo, report: R) -> None:
        """Both files, each whole or not at all."""
        for path, text in self.files(report).items():
            write_atomic(repo / path, text)

    def read(self, repo: Repo) -> R | None:
        """The report on disk; None if there is none, or it is not what it should be."""
        try:
            return self.parsed(read_again(repo / self.path))
        except (OSError, ValueError):
            return None

    def parsed(self, text: str | bytes) -> R:
        """The report that a text holds; a ValueError if it is not one."""
        value = load_json(text)
        if wrong := self._faults(value):
            raise ValueError("; ".join(wrong))
        return made(self.record, value)

    def _faults(self, value: Any) -> list[str]:
        return problems(read_schema(self.schema), value)
