"""What a new agent starts from where no domain has a starter of its own: records with a number, to be replaced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agents.domain import Starter

_PROMPT = """# {title}

You read a list of records and report **those whose value is unusually large** (replace this by your own task).

## What counts
Every record whose `value`, up or down, is at least `above`. Leave out everything else. Give one sentence of rationale.

## Rules
```rules
analyst: threshold
list: items
id_field: id
field: value
above: 10
```
"""

# (what the case is about, records as (value, text), which of them count)
_RECORDS: Final = (
    ("large", ((25, "Waiting for three weeks"),), (0,)),
    ("negative", ((-14, "Stock corrected after a count"),), (0,)),
    ("small", ((2, "As every day"),), ()),
    ("zero", ((0, "Nothing came in"),), ()),
    ("near-above", ((10.5, "Just over"),), (0,)),
    ("near-below", ((9.5, "Just under"),), ()),
    ("empty", (), ()),
    ("two", ((3, "Usual"), (40, "Far beyond usual")), (1,)),
    ("both", ((-30, "Far below usual"), (12, "Above usual")), (0, 1)),
    # The starter prompt gets this one wrong.
    ("test-entry", ((99, "Test entry, please ignore"),), ()),
)


def _cases(name: str) -> Iterable[dict[str, Any]]:
    for about, records, counting in _RECORDS:
        items = [
            {"id": f"r{place}", "value": value, "text": text} for place, (value, text) in enumerate(records)
        ]
        wanted = [f"r{place}" for place in counting]
        yield {
            "id": f"{name}.{about}",
            "input": {"as_of": "2026-03-02", "items": items},
            "expect": [{"grader": "set_f1", "path": "*.id", "values": wanted}],
            "tags": ["report" if wanted else "quiet"],
        }


STARTERS: Final = {
    "records": Starter(
        _PROMPT,
        {"id": {"type": "string"}, "rationale": {"type": "string", "minLength": 1, "maxLength": 1000}},
        _cases,
    )
}
