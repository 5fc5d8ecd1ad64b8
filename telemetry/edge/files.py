"""Where everything stands in a checkout, and files that are replaced whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from telemetry.edge.frozen import frozen

_read: dict[str, tuple[tuple[int, ...], bytes]] = {}


def read_again(path: Path) -> bytes:
    """The content of a file, from memory as long as it is the file that was read: a night asks many times."""
    name, status = os.path.abspath(path), path.stat()  # noqa: PTH100 - Path.absolute keeps `..`
    stamp = (status.st_ino, status.st_dev, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
    if name in _read and _read[name][0] == stamp:
        return _read[name][1]
    content = path.read_bytes()
    if _settled(status.st_ctime_ns):
        _read[name] = (stamp, content)
    return content


def _settled(changed_ns: int) -> bool:
    """Whether one more change would get another time: clocks of file systems tick every 10 ms, old ones every 2 s."""
    return time.time_ns() - changed_ns > (100_000_000 if changed_ns % 1_000_000_000 else 2_000_000_000)


def write_atomic(path: Path, data: str | bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Replace `path` whole or not at all, if `durable` also across a power cut; its directory is made if need be.

    Data in parts is written as it comes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            parts = [data.encode()] if isinstance(data, str) else [data] if isinstance(data, bytes) else data
            file.writelines(parts)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def as_json(value: object) -> str:
    """Pretty, sorted, stable JSON: small diffs, and never NaN."""
    import json

    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: object) -> None:
    """A file of such JSON."""
    write_atomic(path, as_json(value))


# What people and pull requests change.
MANIFEST = Path("agents/manifest.yaml")
PROMPTS = Path("agents/prompts")
VARIANTS = PROMPTS / "variants"
SCHEMAS = Path("agents/schemas")
INPUTS = Path("agents/inputs")  # where no domain has a source: <kind>.json
SUITES = Path("eval/suites")
BASELINES = Path("eval/baselines")
DECISIONS = Path("meta/decisions")
REPORTS = Path("meta/reports")

# What running leaves behind; git ignores it.
EVENTS = Path("telemetry/events.jsonl")
TEXTS = Path("telemetry/texts.jsonl")  # what models were asked and answered, each text once
SEALED = Path("telemetry/sealed")  # below it: dt=YYYY-MM-DD/*.parquet
SUMMARY = Path("telemetry/summary.json")
FEEDBACK = Path("telemetry/feedback.json")
EXPORTS = Path("telemetry/exports")  # a folder for each training batch
CHARTS = Path("telemetry/charts")
SITE = Path("site")
OUTPUTS = Path("agents/outputs")
RESULTS = Path("eval/results")  # no hidden folder: artifacts leave those out
HISTORY = Path("eval/history.jsonl")
LEAVINGS = Path("telemetry/leavings.jsonl")  # what one workflow of a night leaves for the next
REFUSALS = Path("telemetry/rejections.jsonl")  # what people said no to
REMARKS = Path("telemetry/remarks.jsonl")  # what people said of runs and cases, in words
SCRATCH = Path(".ratchet")


@frozen
class Repo:
    """One checkout; `repo / MANIFEST` is its manifest."""

    root: Path

    def __truediv__(self, path: str | Path) -> Path:
        return self.root / path


_here = Repo(Path())


def here() -> Repo:
    """The checkout of `--root`, else the current directory: what a script hands to everything below it."""
    return _here


def checkout_around(folder: Path) -> Path:
    """The folder, or the nearest one above it, that holds a manifest; the folder itself where none does."""
    if (folder / MANIFEST).exists():
        return folder
    return next((above for above in folder.absolute().parents if (above / MANIFEST).exists()), folder)


@contextmanager
def working_in(root: Path) -> Iterator[Repo]:
    """Work on another checkout for the length of the block."""
    global _here
    before, _here = _here, Repo(root)
    try:
        yield _here
    finally:
        _here = before
