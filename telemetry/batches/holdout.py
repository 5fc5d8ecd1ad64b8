"""Which cases decide, and therefore never leave: the split of families, and the inputs of unseen cases.

A training batch that holds a holdout or fresh case would let the model learn the answers that it is judged by.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from telemetry.edge.errors import BadInput
from telemetry.edge.files import SUITES, Repo
from telemetry.edge.records import input_hash

Half = Literal["tune", "holdout"]
TUNE: Final = "tune"  # the only split that proposals, and trainers, may see


def split(family: str) -> Half:
    """Half and half, by the parity of a hash: stable for ever, independent of order and content."""
    return "tune" if hashlib.sha256(family.encode()).digest()[0] % 2 == 0 else "holdout"


def unseen_inputs(repo: Repo) -> frozenset[str]:
    """The hashes of the inputs of every holdout and fresh case: a run in the field on one of them is that case too."""
    import orjson

    found = set()
    for file in sorted((repo / SUITES).glob("*.jsonl")):
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            try:
                case = orjson.loads(line)
                if case.get("split") or split(case.get("family") or case["id"]) != TUNE:
                    found.add(input_hash(case["input"]))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise BadInput(f"{SUITES}/{file.name}:{number}: not a case") from None
    return frozenset(found)
