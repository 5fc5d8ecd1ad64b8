"""What one workflow of a night leaves for the next: agents' outputs, eval results, critiques, as lines beside the log.

The workflows of a night are links of a chain that share no disk. What a link made is kept as one line (files by path,
packed), travels with the data branch, and is unpacked by a later link of the same night, which then does not do that
part again. Lines come from jobs that ran model-driven code: only paths that a step is known to write are taken.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from telemetry import logger
from telemetry.edge.files import LEAVINGS, MANIFEST, PROMPTS, Repo, write_atomic
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

SAME_NIGHT: Final = timedelta(hours=18)  # cron is hours late at times, and the next night begins after 24
MAX_FILES, MAX_BYTES = 400, 20 << 20  # of one step, unpacked

# By script, what it leaves; whoever measures anew is not in here.
STEPS: Final = {
    "agents.orchestrator": re.compile(r"agents/outputs/[A-Za-z0-9_-]{1,64}\.json"),
    "eval.harness": re.compile(r"eval/results/[A-Za-z0-9_-]{1,64}\.json"),
    "meta.critique_loops": re.compile(r"meta/reports/cross_critiques\.(json|md)"),
}


@frozen
class Leaving:
    """What one step of one run left."""

    ts: str
    run_type: str  # `leaving`: what sync takes for a line of history
    step: str
    texts: str  # hash of the prompts and the manifest that it was made with
    packed: str


def leave(repo: Repo, command: Sequence[str], since: float) -> None:
    """Keep what a script has written since then, for the rest of the night."""
    form = STEPS.get(command[0])
    if form is None or "--shadow" in command:
        return
    files = {
        path: file.read_text(encoding="utf-8")
        for folder in ("agents/outputs", "eval/results", "meta/reports")
        for file in sorted((repo / folder).glob("*"))
        if form.fullmatch(path := file.relative_to(repo.root).as_posix()) and file.stat().st_mtime >= since
    }
    if files:
        packed = base64.b64encode(gzip.compress(json.dumps(files).encode(), mtime=0)).decode()
        row = Leaving(logger.utc_now(), "leaving", command[0], made_with(repo), packed)
        logger.append(json.dumps(asdict(row)).encode() + b"\n", repo / LEAVINGS)


def take(repo: Repo, now: datetime | None = None) -> dict[str, str]:
    """Unpack what earlier links of this night left, the latest of each step: by step, when it was made."""
    texts, oldest = made_with(repo), (now or datetime.now(UTC)) - SAME_NIGHT
    taken: dict[str, str] = {}
    for row in _rows(repo):
        tonight = row.texts == texts and row.ts >= oldest.strftime("%Y-%m-%dT%H:%M:%S")
        if tonight and (files := _unpacked(row)):
            for path, text in files.items():
                write_atomic(repo / path, text)
            taken[row.step] = row.ts
    return taken


def made_with(repo: Repo) -> str:
    """Names the manifest and the prompts: what was made with others is no longer what would be made."""
    names = [MANIFEST, *sorted(path.relative_to(repo.root) for path in (repo / PROMPTS).glob("*.md"))]
    told = hashlib.sha256()
    for name in names:
        told.update(f"{name}\0".encode() + hashlib.sha256((repo / name).read_bytes()).digest())
    return told.hexdigest()[:32]


def _rows(repo: Repo) -> Iterator[Leaving]:
    file = repo / LEAVINGS
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            row = Leaving(**load_json(line))
        except (ValueError, TypeError):
            continue
        if all(isinstance(value, str) for value in asdict(row).values()) and row.step in STEPS:
            yield row


def _unpacked(row: Leaving) -> dict[str, str]:
    """Its files; none if anything about them is not as it should be."""
    try:
        with gzip.open(io.BytesIO(base64.b64decode(row.packed, validate=True))) as file:
            raw = file.read(MAX_BYTES + 1)
        files: Any = load_json(raw) if len(raw) <= MAX_BYTES else None
    except (ValueError, OSError, EOFError):
        return {}
    if not isinstance(files, dict) or len(files) > MAX_FILES:
        return {}
    form = STEPS[row.step]
    fits = all(form.fullmatch(path) and isinstance(text, str) for path, text in files.items())
    return files if fits else {}
