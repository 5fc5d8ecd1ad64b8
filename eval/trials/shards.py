"""Splits a run over machines, `--shard I/N` on each, and sums it up again, `--merge DIR` on one.

A shard leaves its trials in a file (a journal: `eval/trials/journal.py`) and decides nothing; a merge reads the files
and goes on as if all had been run in one piece: it runs only what no shard could know to be needed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo
from telemetry.edge.frozen import frozen

if TYPE_CHECKING:
    from eval.trials.trial import Trial

_FILE = re.compile(r"shard-(\d+)-of-(\d+)\.jsonl")
_MODEL = ("provider", "model", "base_url")  # the part of a configuration that only the endpoint's side knows


def shard(text: str) -> tuple[int, int]:
    """An argument type: the I-th of N parts, from 1."""
    part, _, of = text.partition("/")
    if not (text.isascii() and part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text}: must be I/N with 1 <= I <= N")
    return int(part), int(of)


def add_shard_flags(made: argparse.ArgumentParser, folder: Path) -> None:
    """The two flags; `folder` is where this script's shards leave their files."""
    add = made.add_argument
    told = "run only the I-th of N parts; then --merge"
    add("--shard", type=shard, default=(1, 1), metavar="I/N", help=told)
    add("--merge", type=Path, metavar="DIR", help=f"sum up the shards in DIR ({folder})")


def one_at_a_time(args: argparse.Namespace) -> None:
    """Refuse a run that is a part and the whole."""
    if args.merge is not None and args.shard[1] > 1:
        raise BadInput("--shard and --merge: one at a time")


def journal_file(whole: Path, folder: Path, place: tuple[int, int]) -> Path:
    """Where a run keeps its trials, relative to the root: `whole`, or a file of the shard's own in `folder`."""
    part, of = place
    return whole if of == 1 else folder / f"shard-{part}-of-{of}.jsonl"


@frozen
class Shards:
    """What the shards of a run left behind."""

    about: Mapping[str, Any]
    trials: tuple[Trial, ...]
    missing: tuple[str, ...]

    @property
    def model(self) -> dict[str, Any]:
        """Who answered: known to the shards, which had the key."""
        return {name: self.about.get(name) for name in _MODEL}

    @property
    def stopped(self) -> str:
        """Why the run is not whole, if it is not."""
        return f"shards missing: {', '.join(self.missing)}" if self.missing else ""

    @property
    def cut_short(self) -> str:
        """What is said of a run whose shards are all there, but ended before their cases did."""
        why = next((trial.error for trial in reversed(self.trials) if not trial.counted), None)
        return f"shards ended early{f', last: {why}' if why else ''}"

    def check(self, about: Mapping[str, Any]) -> None:
        """Refuse shards of another configuration than the one asked for."""
        if changed := ", ".join(_differing(json.loads(json.dumps(about, default=str)), self.about)):
            raise BadInput(f"--merge: the shards belong to another run ({changed} changed since)")


def read_shards(repo: Repo, folder: Path) -> Shards:
    """Read every shard below a folder (relative to the root); they have to be of one configuration."""
    from eval.trials.journal import Entries, key_of
    from eval.trials.trial import from_row

    abouts: dict[str, Mapping[str, Any]] = {}
    found: dict[tuple[int, int], list[Trial]] = {}
    for file in sorted((repo / folder).rglob("shard-*-of-*.jsonl")):
        if match := _FILE.fullmatch(file.name):
            try:
                with file.open("rb") as opened:
                    left = Entries.of(opened.fileno())
                    found[int(match[1]), int(match[2])] = [from_row(row) for row in left.rows.values()]
                abouts[key_of(left.head["about"])] = left.head["about"]
            except (OSError, ValueError, KeyError, TypeError, IndexError) as problem:
                raise BadInput(f"{file}: not a shard ({problem})") from None
    parts = {of for _, of in found}
    if not found:
        raise BadInput(f"--merge {folder}: no shard-I-of-N.jsonl below it")
    if len(parts) > 1:
        raise BadInput(f"--merge {folder}: shards of different N: {sorted(parts)}")
    if len(abouts) > 1:
        differing = ", ".join(_differing(*list(abouts.values())[:2]))
        raise BadInput(f"--merge {folder}: the shards are of different runs (other {differing})")
    [of], [about] = parts, abouts.values()
    missing = tuple(f"{part}/{of}" for part in range(1, of + 1) if (part, of) not in found)
    return Shards(about, tuple(trial for _, own in sorted(found.items()) for trial in own), missing)


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
