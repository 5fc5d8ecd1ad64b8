"""The example domain: builders of the market suites; nothing at run time imports this.

What a builder draws from (texts, places, counts) stands in the YAML file of its name. All of it is drawn in order from
one seeded generator: a change in the middle changes every case after it.

A family is the narrowest template: one wording, or one plan on one series or asset. Kinds (tags) stand on both sides of
the split on purpose, they are what a suite is about; a wording stands on one side only. A case made of several
templates takes them from one side, and is of the family of the first. The noun in a suite's family names was
chosen so that both sides come out about even: in cases, in kinds, and in how many the shipped prompt gets right.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eval.grading.suite import split
from telemetry.edge.records import load_yaml

SEED = 20261116
_seed = SEED
Row = dict[str, Any]  # of JSON


def content(builder: str) -> Any:
    """What the builder in that file draws from."""
    return load_yaml(Path(builder).with_suffix(".yaml").read_bytes())


def generator(suite: str) -> random.Random:
    """The same draws each time; another suite draws others."""
    return random.Random(f"{suite}/{_seed}")


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Let builders draw other cases of the same kinds, for the length of the block."""
    global _seed
    before, _seed = _seed, seed
    try:
        yield
    finally:
        _seed = before


def wanted(grader: str, path: str, **options: Any) -> Row:
    """One thing that a case expects of an answer."""
    return {"grader": grader, "path": path, **options}


def case(case_id: str, family: str, given: Row, expect: list[Row], tags: list[str]) -> Row:
    """A line of a suite."""
    return {"id": case_id, "family": family, "input": given, "expect": expect, "tags": tags}


def family_of(*template: str) -> str:
    """The name of a template, by its words: one more template moves no other across the split."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(template).lower()).strip("-")[:80]


def one_sided(families: Iterable[str]) -> bool:
    """Whether they are all on the same side of the split."""
    return len({split(family) for family in families}) == 1
