"""The tiers of a checkout: sealed days, texts and batches. What is made comes first, what it replaces goes then.

A cold day is one folder that appears by its rename; from then on whoever reads sums takes it instead of the rows, which
go. Killed in between, the next run removes them. A text goes when it is older than any row and no row names it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

from telemetry.edge.files import EXPORTS, SEALED, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.read import days, sealed_texts
from telemetry.read.parquet import opened
from telemetry.read.rows import quoted
from telemetry.read.store import day_of, snapshot
from telemetry.tiers.ages import Ages

KEPT_OF_BATCH: Final = ("manifest.json", "ledger.jsonl", "consumed.json")  # what of a batch holds no text
HASH: Final = r"\b[0-9a-f]{64}\b"


@frozen
class Plan:
    """What is due here."""

    freeze: dict[str, list[Path]]  # by day, the sealed files whose sums are to stand for them
    thin: list[Path]  # files of cold days that are too old to say what runs said
    drop: list[Path]  # files and folders that go
    texts: dict[Path, int]  # sealed files of texts, and how many in them nobody names any more

    def told(self) -> dict[str, Any]:
        """In figures."""
        return {
            "days_to_cold": len(self.freeze),
            "files_of_rows": sum(map(len, self.freeze.values())),
            "cold_files_to_thin": len(self.thin),
            "gone": len(self.drop),
            "texts": sum(self.texts.values()),
        }


def plan(repo: Repo, ages: Ages, today: date) -> Plan:
    """What has come of age; nothing is written."""
    warm, cold, gone = (ages.first(tier, today) for tier in ("warm", "cold", "gone"))
    freeze: dict[str, list[Path]] = {}
    drop: list[Path] = []
    for folder in sorted((repo / SEALED).glob("dt=*")):
        day = folder.name[3:]
        if day < gone or (day < warm and (repo / days.COLD / folder.name).exists()):
            drop.append(folder)  # its sums are there, or it is too old even for them
        elif day < warm:
            freeze[day] = sorted(folder.glob("*.parquet"))
    thin: list[Path] = []
    for folder in sorted((repo / days.COLD).glob("dt=*")):
        if folder.name[3:] < gone:
            drop.append(folder)
        elif folder.name[3:] < cold:
            thin += [path for path in sorted(folder.iterdir()) if path.stem != "cells"]
    drop += _batches(repo, warm, gone)
    return Plan(freeze, thin, drop, _unnamed(repo, warm))


def carry_out(repo: Repo, due: Plan, ages: Ages, today: date) -> None:
    """Do it."""
    for day, files in due.freeze.items():
        freeze(repo / days.COLD, day, files, ages.first("cold", today))
        shutil.rmtree(repo / SEALED / f"dt={day}")
    for path in (*due.thin, *due.drop):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if due.texts:
        warm = ages.first("warm", today)
        named = named_by(repo, warm)
        for path in due.texts:
            sealed_texts.keep_only(path, named, warm)
    days.tidy(repo, ())  # they are made again when somebody asks


def freeze(place: Path, day: str, files: Sequence[Path], cold: str) -> Path:
    """What the rows of a day come to, as a folder that appears whole; of a day before `cold` only its cells."""
    target, coming = place / f"dt={day}", place / f".coming-{day}-{os.getpid()}"
    shutil.rmtree(coming, ignore_errors=True)
    coming.mkdir(parents=True)
    with opened() as con:
        days.sum_up(con, files, coming, "", days.COLD_SUMS if day >= cold else ["cells"])
    if target.exists():  # another run came first
        shutil.rmtree(coming)
    else:
        coming.rename(target)
    return target


def named_by(repo: Repo, since: str) -> set[int]:
    """The keys of the texts that rows of that day or later name, and all live ones; see sealed_texts."""
    now, found = snapshot(repo), set[int]()
    if now.log is not None:
        with now.log as log:
            found.update(keys_of(log))
    if recent := [path for path in now.sealed if day_of(path) >= since]:
        names = ", ".join(quoted(str(path)) for path in recent)
        with opened(threads=2) as con:
            told = (
                f"select cast(extra as varchar) as told from read_parquet([{names}], hive_partitioning=false)"
            )
            found |= keys_in(con, told)
    return found


def keys_in(con: Any, rows: str) -> set[int]:
    """The keys of every hash of a text in these rows (`told`)."""
    hashes = f"select distinct unnest(regexp_extract_all(told, '{HASH}')) as name from ({rows})"
    return {int(name[:16], 16) for (name,) in con.execute(hashes).fetchall()}


def keys_of(lines: Iterable[bytes]) -> Iterator[int]:
    """The same of rows as they were logged."""
    for line in lines:
        yield from (int(name[:16], 16) for name in re.findall(HASH.encode(), line))


def _unnamed(repo: Repo, warm: str) -> dict[Path, int]:
    old = [path for path in sealed_texts.files(repo) if path.parent.name[3:] < warm]
    if not old:
        return {}
    named = named_by(repo, warm)
    counted = {path: sealed_texts.unnamed(path, named, warm) for path in old}
    return {path: count for path, count in counted.items() if count}


def _batches(repo: Repo, warm: str, gone: str) -> Iterator[Path]:
    """Files of batches whose last row is too old, and folders of batches that are gone altogether."""
    for manifest in sorted((repo / EXPORTS).glob("*/manifest.json")):
        try:
            last = str(load_json(manifest.read_bytes())["time_range"]["to"])[:10]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if last < gone:
            yield manifest.parent
        elif last < warm:
            yield from (path for path in sorted(manifest.parent.iterdir()) if path.name not in KEPT_OF_BATCH)
