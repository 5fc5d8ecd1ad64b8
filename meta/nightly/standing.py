"""What a night stands on: manifest, prompts, schemas, suites and inputs; as committed, or as they lie in the tree."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from agents.manifest import Manifest
from telemetry.edge.files import INPUTS, MANIFEST, PROMPTS, SCHEMAS, SUITES
from telemetry.edge.git import GitRefused, git

FILES: Final = (MANIFEST, PROMPTS, SCHEMAS, SUITES, INPUTS)
SHOWN: Final = 5  # names in one line


def uncommitted(root: Path, manifest: Manifest) -> list[str]:
    """Which of it differs from the last commit, new files too; nothing where there is no commit to differ from."""
    command = ("status", "--porcelain", "-z", "--no-renames", "-uall", "--")
    try:
        found = git(root, *command, *map(str, FILES), *manifest.data_files()).decode()
    except GitRefused:
        return []
    return [entry[3:] for entry in found.split("\0") if entry]


def left_out(paths: list[str]) -> str:
    """One line for the person who expects them to count."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"not part of tonight: {', '.join(paths[:SHOWN])}{more} (commit, or --apply)"


def digest(root: Path) -> str:
    """The same as long as nothing of it changes, committed or not."""
    found = hashlib.sha256()
    for name in FILES:
        files = sorted((root / name).rglob("*")) if (root / name).is_dir() else [root / name]
        for file in files:
            if file.is_file():
                found.update(f"{file.relative_to(root)}\0".encode())
                found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:12]
