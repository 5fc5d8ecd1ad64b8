"""What agents are given: each input opened where the manifest says, loaded once per day, frozen, named by a hash."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.base import in_thread
from agents.domain import IMPROVING, Domain
from agents.manifest import AgentSpec
from agents.sources.source import Files, Source, SourceError, open_files
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import input_hash

SOURCE_TIMEOUT_S: Final = 60.0  # the last net; a live loader has shorter limits of its own


@frozen
class Loaded:
    """One input as bytes, so that every agent gets a copy of its own, and its hash."""

    body: bytes
    hash: str
    as_of: str

    @property
    def tenant(self) -> dict[str, Any]:
        """Whose they are, if they say so: not worth parsing large inputs for where they do not."""
        return self.copy() if b'"tenant_id"' in self.body else {}

    def copy(self) -> dict[str, Any]:
        import orjson

        payload: dict[str, Any] = orjson.loads(self.body)
        return payload


def packed(payload: Mapping[str, Any]) -> Loaded:
    """The payload frozen as bytes; equal content has an equal hash, whatever the order of keys."""
    import orjson

    return Loaded(orjson.dumps(payload), input_hash(payload), str(payload.get("as_of") or "")[:10])


class Inputs:
    """Opens each source once, and loads each input once per day, whoever asks for it."""

    def __init__(self, repo: Repo, domain: Domain, mode: str) -> None:
        self.repo, self.domain, self.mode = repo, domain, mode
        self._usual = (domain.open_source or open_files)(mode, repo.root)
        self._feeds: dict[str, Source] = {}
        self._tasks: dict[tuple[int, str, str | None], asyncio.Task[Loaded | SourceError]] = {}

    def source(self, spec: AgentSpec) -> Source:
        """Where this agent's inputs come from."""
        if spec.feed is not None:
            from agents.sources.named import open_feed

            return self._feeds.setdefault(repr(spec.feed), open_feed(spec.feed, self.repo.root))
        known = self.domain.open_source is None or spec.inputs in self.domain.inputs
        return self._usual if known else self._feeds.setdefault("files", Files(self.repo.root))

    def mode_of(self, spec: AgentSpec) -> str:
        """`snapshot` or `live`: of the agent's source, or of those whose words it reads."""
        return self.mode if spec.inputs in IMPROVING else self.source(spec).mode

    def days(self, spec: AgentSpec) -> Sequence[str]:
        """The days that this agent can be run on, oldest first."""
        return self.source(spec).days()

    def latest(self, spec: AgentSpec) -> str | None:
        """The last day of a sample; None for "now", which may be another date by the time a live source answers."""
        source = self.source(spec)
        try:
            return source.days()[-1] if source.mode == "snapshot" else None
        except (IndexError, SourceError):
            return None  # a file without days; or trouble, which loading will tell on the agent's row

    async def get(self, spec: AgentSpec, day: str | None) -> Loaded | SourceError:
        """The input, or why there is none: that becomes the row of everyone who asked."""
        source = self.source(spec)
        key = (id(source), spec.inputs, day)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(_load(source, spec.inputs, day))
        return await asyncio.shield(self._tasks[key])


async def _load(source: Source, kind: str, day: str | None) -> Loaded | SourceError:
    try:
        if source.mode == "snapshot":  # in memory after the first day: no thread needed
            return packed(source.load(kind, day))
        async with asyncio.timeout(SOURCE_TIMEOUT_S):
            return packed(await in_thread(lambda: source.load(kind, day)))
    except SourceError as problem:
        return problem
    except TimeoutError:
        return SourceError(f"{kind}: nothing from the source within {SOURCE_TIMEOUT_S:g} s")
    except Exception as problem:  # noqa: BLE001 - told on the rows of those who asked; the others go on
        return SourceError(f"{kind}: {type(problem).__name__}: {problem}")
