"""What a source is: days that can be asked for, and the inputs as they stood on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from telemetry.edge.errors import BadInput
from telemetry.edge.files import INPUTS, MANIFEST
from telemetry.edge.frozen import frozen

Payload = dict[str, Any]


class SourceError(Exception):
    """A source gave nothing usable; the message says which one and why."""

    error_kind = "source"


class Source(Protocol):
    """Where inputs come from; one that cannot answer raises `SourceError`, never gives a quiet day."""

    @property
    def mode(self) -> str:
        """`snapshot` (a committed sample) or `live`."""

    def days(self) -> Sequence[str]:
        """The days that can be asked for, oldest first."""

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        """The payload of one kind as it stood on a day (default: the latest), checked."""


@frozen
class Files:
    """The source where no domain brings one: a kind is the file of that name, a payload as its agents get it."""

    root: Path
    mode: str = "snapshot"

    def days(self) -> Sequence[str]:
        return ()

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        import orjson

        path = INPUTS / f"{kind}.json"
        try:
            payload = orjson.loads((self.root / path).read_bytes())
        except (OSError, ValueError) as problem:
            raise SourceError(f"{kind}: {path} cannot be read ({problem})") from None
        if not isinstance(payload, dict):
            raise SourceError(f"{kind}: {path} must hold one JSON object")
        return payload


def open_files(mode: str, root: Path) -> Source:
    """The files below `root`; there is nothing live about them."""
    if mode != "snapshot":
        raise BadInput(f"--source-mode {mode}: {MANIFEST} names no domain that has such a source")
    return Files(root)
