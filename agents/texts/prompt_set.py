"""What the model reads: prompt texts by path, from files or, for a trial, from memory.

An override never touches the disk: a trial runs with its own `PromptSet`, and the tree stays as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

from agents.manifest import AgentSpec
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, read_again

BETWEEN = "\n\n---\n\n"  # stands between the shared guidelines and the agent's own prompt
MAX_CHARS = 200_000  # a prompt longer than this is a mistake, and would be paid for on every call
_NONE: Mapping[str, str] = MappingProxyType({})


class PromptSet:
    """Prompt texts of one checkout, each read once, with some replaced in memory."""

    def __init__(self, repo: Repo, overrides: Mapping[str, str] = _NONE) -> None:
        self.repo, self.overrides = repo, dict(overrides)
        self._files: dict[str, str] = {}
        self._systems: dict[tuple[str, ...], str] = {}
        self._hashes: dict[tuple[str, ...], str] = {}

    def text(self, path: str) -> str:
        """The prompt at a repository-relative path."""
        if path in self.overrides:
            return self.overrides[path]
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def sha256(self, path: str) -> str:
        """The SHA-256 of that prompt's text."""
        return hashlib.sha256(self.text(path).encode()).hexdigest()

    def system(self, spec: AgentSpec) -> str:
        """What an agent's model is told: the shared prompts, then its own; empty for an agent without one."""
        paths = spec.prompt_paths
        if paths not in self._systems:
            self._systems[paths] = BETWEEN.join(self.text(path).strip() for path in paths)
        return self._systems[paths]

    def hash(self, spec: AgentSpec) -> str:
        """Twelve hex digits that name the system text in rows and reports."""
        paths = spec.prompt_paths
        if paths not in self._hashes:
            self._hashes[paths] = hashlib.sha256(self.system(spec).encode()).hexdigest()[:12]
        return self._hashes[paths]

    def with_overrides(self, overrides: Mapping[str, str]) -> PromptSet:
        """The same prompts with some texts replaced; what was read once is not read again."""
        changed = PromptSet(self.repo, {**self.overrides, **overrides})
        changed._files = self._files
        return changed

    def _read(self, path: str) -> str:
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts:
            raise BadInput(f"{path}: a prompt path must stay inside the repository")
        try:
            text = read_again(self.repo / path).decode().replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: prompt cannot be read: {error}") from error
        if not text.strip():
            raise BadInput(f"{path}: the prompt is empty")
        if len(text) > MAX_CHARS:
            raise BadInput(f"{path}: the prompt has {len(text)} characters, at most {MAX_CHARS} allowed")
        return text
