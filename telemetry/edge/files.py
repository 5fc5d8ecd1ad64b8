"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Replace `path` whole or not at all; its directory is made if need be.

    `durable` also holds across a power cut, at some milliseconds a file: not needed for what the next run rewrites.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def as_json(value: object) -> str:
    """Pretty, sorted, stable JSON: small diffs, and never NaN."""
    import json

    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: object, *, durable: bool = True) -> None:
    """A file of such JSON."""
    write_atomic(path, as_json(value), durable=durable)
