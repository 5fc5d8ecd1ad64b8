"""Answers that need not be asked for again: the same model, asked the same thing in the same way, a few days ago.

Only a temperature of 0 makes an answer worth keeping by itself; `--cache` keeps any. An entry is found by a hash of all
that shapes an answer, so it never crosses models, settings, prompts or cases, and it is forgotten after a week: a
model that drifts behind its name must be noticed. What is reused leaves a row that cost nothing.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.model.call import CACHED, Completion, Message, Model, log_call, trial_label
from telemetry.edge.files import SCRATCH

if TYPE_CHECKING:
    import sqlite3  # loaded by the first answer that may be kept: most runs keep none

CACHE = SCRATCH / "answers.sqlite"
KEPT_S = 7 * 24 * 3600


class Cached:
    """A model that remembers; `reused` counts what it did not have to ask for."""

    def __init__(self, model: Model, path: Path, about: Mapping[str, Any], *, always: bool) -> None:
        self.inner, self.budget, self._path, self._always = (
            model,
            getattr(model, "budget", None),
            path,
            always,
        )
        self._about, self.reused = dict(about), 0
        self._open: sqlite3.Connection | None = None

    async def complete(self, messages: Sequence[Message], **options: Any) -> Completion:
        """The answer that is kept, else the model's."""
        key = self._key(messages, options)
        if key is not None and (kept := self._kept(key)) is not None:
            self.reused += 1
            log_call(kept)
            return kept
        done = await self.inner.complete(messages, **options)
        if key is not None:
            self._keep(key, done)
        return done

    async def aclose(self) -> None:
        await self.inner.aclose()
        if self._open is not None:
            self._open.close()
            self._open = None

    def _key(self, messages: Sequence[Message], options: Mapping[str, Any]) -> bytes | None:
        """None where an answer is not to be kept."""
        import orjson

        settings = getattr(self.inner, "settings", None)
        said = settings(options.get("model") or getattr(self.inner, "model", "")) if settings else None
        temperature = options.get("temperature")
        if temperature is None:
            temperature = getattr(said, "temperature", None)
        if temperature != 0 and not self._always:
            return None
        trial = trial_label.get().rpartition("/")[2]  # a case that is run twice is asked twice
        asked = [self._about, {} if said is None else said, options, trial, list(messages)]
        try:
            return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).digest()
        except TypeError:  # half a character, an odd object: ask
            return None

    def _kept(self, key: bytes) -> Completion | None:
        import sqlite3

        import orjson

        try:
            row = (
                self._db()
                .execute(
                    "select answer from answers where key = ? and kept_at > ?", (key, time.time() - KEPT_S)
                )
                .fetchone()
            )
            kept = Completion(**orjson.loads(row[0])) if row else None
        except (sqlite3.Error, OSError, ValueError, TypeError):  # it is only a cache: ask
            return None
        free = {
            "cost_usd": 0.0,
            "cost_source": CACHED,
            "booked_usd": None,
            "latency_ms": 0.0,
            "repaired": False,
        }
        return kept and replace(kept, **free)  # type: ignore[arg-type]

    def _keep(self, key: bytes, done: Completion) -> None:
        import sqlite3

        import orjson

        try:
            with self._db() as db:
                entry = (key, time.time(), orjson.dumps(asdict(done)))
                db.execute("insert or replace into answers values (?, ?, ?)", entry)
        except (sqlite3.Error, OSError, TypeError):  # a full disk, a locked file: asked again next time
            return

    def _db(self) -> sqlite3.Connection:
        import sqlite3

        if self._open is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._open = sqlite3.connect(self._path, timeout=1.0, check_same_thread=False)
            self._open.execute("pragma journal_mode = wal")
            self._open.execute("pragma synchronous = off")
            self._open.execute(
                "create table if not exists answers (key blob primary key, kept_at real, answer blob)"
            )
            with self._open:
                self._open.execute("delete from answers where kept_at <= ?", (time.time() - KEPT_S,))
        return self._open
