"""Inputs as agents get them: loaded once per kind and day from the domain's source, frozen, named by a hash."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agents.base import in_thread
from agents.domain import Domain, Payload, Source, SourceError
from telemetry.edge.errors import BadInput
from telemetry.edge.files import INPUTS, MANIFEST

SOURCE_TIMEOUT_S: Final = 60.0  # the last net; a live loader has shorter limits of its own


def open_source(domain: Domain, mode: str, root: Path) -> Source:
    """The domain's source of that mode, reading below `root`."""
    if domain.open_source is not None:
        return domain.open_source(mode, root)
    if mode != Files.mode:
        raise BadInput(f"--source-mode {mode}: {MANIFEST} names no domain that has such a source")
    return Files(root)


class Files:
    """The source where no domain brings one: a kind is the file of that name, a payload as its agents get it."""

    mode = "snapshot"

    def __init__(self, root: Path) -> None:
        self._root = root

    def days(self) -> Sequence[str]:
        return ()

    def load(self, kind: str, as_of: str | None = None) -> Payload:
        import orjson

        path = INPUTS / f"{kind}.json"
        try:
            payload = orjson.loads((self._root / path).read_bytes())
        except (OSError, ValueError) as problem:
            raise SourceError(f"{kind}: {path} cannot be read ({problem})") from None
        if not isinstance(payload, dict):
            raise SourceError(f"{kind}: {path} must hold one JSON object")
        return payload


def input_hash(payload: Mapping[str, Any]) -> str:
    """Twelve hex digits that name an input: equal content, equal hash, whatever the order of keys."""
    import orjson

    return hashlib.sha256(orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Loaded:
    """One input as bytes, so that every agent gets a copy of its own, and its hash."""

    body: bytes
    hash: str
    as_of: str

    def copy(self) -> dict[str, Any]:
        import orjson

        payload: dict[str, Any] = orjson.loads(self.body)
        return payload


class Inputs:
    """Loads each kind of input once per day, whoever asks for it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._tasks: dict[tuple[str, str | None], asyncio.Task[Loaded]] = {}

    async def get(self, kind: str, day: str | None) -> Loaded:
        """The input; raises SourceError for everyone who asks when the source has failed."""
        key = (kind, day)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._load(kind, day))
        return await asyncio.shield(self._tasks[key])

    async def tried(self, kind: str, day: str | None) -> Loaded | SourceError:
        """The input, or why there is none: that becomes the row of whoever asked."""
        try:
            return await self.get(kind, day)
        except SourceError as problem:
            return problem

    async def _load(self, kind: str, day: str | None) -> Loaded:
        try:
            if self.source.mode == "snapshot":  # in memory after the first day: no thread needed
                return packed(self.source.load(kind, day))
            async with asyncio.timeout(SOURCE_TIMEOUT_S):
                return packed(await in_thread(lambda: self.source.load(kind, day)))
        except SourceError:
            raise
        except TimeoutError:
            raise SourceError(f"{kind}: nothing from the source within {SOURCE_TIMEOUT_S:g} s") from None
        except Exception as problem:
            raise SourceError(f"{kind}: {type(problem).__name__}: {problem}") from problem


def packed(payload: Mapping[str, Any]) -> Loaded:
    """The payload frozen as bytes."""
    import orjson

    return Loaded(orjson.dumps(payload), input_hash(payload), str(payload.get("as_of") or "")[:10])
