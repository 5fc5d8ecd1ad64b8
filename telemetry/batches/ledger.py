"""What has left: a folder per batch, with its manifest and its points; nothing is exported twice for the same purpose.

A batch appears whole or not at all: it is written beside its place and renamed. Its points are the ledger's lines.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from telemetry.edge.errors import BadInput
from telemetry.edge.files import EXPORTS, Repo, as_json, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json

MANIFEST, POINTS, CONSUMED = "manifest.json", "ledger.jsonl", "consumed.json"
_ID: Final = re.compile(r"[a-z-]+-\d{8}-[0-9a-f]{12}")


@frozen
class File:
    """One file of a batch."""

    rows: int
    sha256: str


def batches(repo: Repo) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every batch and its manifest, oldest first."""
    for file in sorted((repo / EXPORTS).glob(f"*/{MANIFEST}")):
        if _ID.fullmatch(file.parent.name):
            yield file.parent, _said(repo, file, "type", file.read_bytes())


def exported(repo: Repo, kind: str) -> set[str]:
    """The points that a batch of this type has held."""
    found: set[str] = set()
    for folder, manifest in batches(repo):
        if manifest["type"] == kind:
            file = folder / POINTS
            found.update(
                _said(repo, file, "point_id", line)["point_id"] for line in file.read_bytes().splitlines()
            )
    return found


def _said(repo: Repo, file: Path, name: str, text: bytes) -> dict[str, Any]:
    """An object with a text of that name; what cannot be read of a batch might be exported twice."""
    try:
        value = load_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get(name), str):
        raise BadInput(f"{file.relative_to(repo.root)}: must say {name}, so that nothing is exported twice")
    return value


def batch_id(kind: str, day: str, points: Iterable[str]) -> str:
    """The same points on the same day make the same batch."""
    names = hashlib.sha256("\n".join(sorted(points)).encode()).hexdigest()[:12]
    return f"{kind}-{day.replace('-', '')}-{names}"


def write_batch(
    repo: Repo,
    name: str,
    files: Mapping[str, Iterable[Mapping[str, Any]]],
    points: Sequence[tuple[str, bool]],
    manifest: dict[str, Any],
) -> dict[str, Any]:
    """Write a batch; gives its manifest, with the hashes of its files. `points` are (id, whether it is trained on)."""
    place = repo / EXPORTS / name
    scratch = place.with_name(f".{name}.{os.getpid()}.tmp")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        written = {f"{one}.jsonl": _lines(scratch / f"{one}.jsonl", rows) for one, rows in files.items()}
        about = {"exported_at": manifest["exported_at"], "training_batch_id": name}
        ledger = ({"point_id": point, "rl_ready": ready, **about} for point, ready in points)
        _lines(scratch / POINTS, ledger)
        whole = {
            **manifest,
            "id": name,
            "files": {one: {"rows": f.rows, "sha256": f.sha256} for one, f in written.items()},
        }
        (scratch / MANIFEST).write_bytes(as_json(whole).encode())
        for file in scratch.iterdir():
            with file.open("rb") as held:
                os.fsync(held.fileno())
        scratch.rename(place)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return whole


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> File:
    import orjson

    count, digest = 0, hashlib.sha256()
    with path.open("wb") as file:
        for row in rows:
            line = orjson.dumps(row) + b"\n"
            file.write(line)
            digest.update(line)
            count += 1
    return File(count, digest.hexdigest())


def consume(repo: Repo, name: str, result: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Record that a batch was trained on, and what that did to quality; once."""
    if not _ID.fullmatch(name) or not (repo / EXPORTS / name / MANIFEST).is_file():
        known = ", ".join(folder.name for folder, _ in batches(repo)) or "none"
        raise BadInput(f"{EXPORTS}: no batch {name[:80]!r} (there are: {known})")
    path = repo / EXPORTS / name / CONSUMED
    if path.exists():
        raise BadInput(f"{EXPORTS / name / CONSUMED}: it was consumed before")
    record = {"training_batch_id": name, "consumed_at": now, "result": dict(result)}
    write_json(path, record)
    return record
