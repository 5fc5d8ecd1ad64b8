"""The example domain: builders of the market suites; nothing at run time imports this.

What a builder draws from (texts, places, counts) stands in the YAML file of its name. All of it is drawn in order from
one seeded generator: a change in the middle changes every case after it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from telemetry.edge.records import load_yaml

SEED = 20261116
Row = dict[str, Any]  # of JSON


def content(builder: str) -> Any:
    """What the builder in that file draws from."""
    return load_yaml(Path(builder).with_suffix(".yaml").read_bytes())


def generator(suite: str) -> random.Random:
    """The same draws each time; another suite draws others."""
    return random.Random(f"{suite}/{SEED}")


def wanted(grader: str, path: str, **options: Any) -> Row:
    """One thing that a case expects of an answer."""
    return {"grader": grader, "path": path, **options}


def case(case_id: str, given: Row, expect: list[Row], tags: list[str]) -> Row:
    """A line of a suite."""
    return {"id": case_id, "input": given, "expect": expect, "tags": tags}
