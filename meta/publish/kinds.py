"""The kinds of change that may be proposed: which script makes it, what it may touch, how its pull request is named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from telemetry.edge.errors import BadInput
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_yaml, made


@frozen
class Kind:
    """One kind of pull request. `allowed` are globs: `*` stays within a folder, `**` does not."""

    name: str
    branch: str  # fixed: one living pull request per kind; empty: it proposes nothing
    title: str
    labels: tuple[str, ...]
    command: tuple[str, ...]  # run by `python -m`
    report: str  # without suffix: .json is the record, .md the pull request's body
    schema: str = ""  # JSON Schema of the report
    form: str = ""  # module:name of its `Form`, or of what gives it for a checkout: how the report is told
    allowed: tuple[str, ...] = ()  # what it may change unless the manifest protects it
    records: tuple[str, ...] = ()  # what it also writes although it is protected, checked by content
    decides: tuple[str, ...] = ()  # the decisions it may bring; none listed: any
    draft: bool = False
    before: tuple[tuple[str, ...], ...] = ()  # run first where there is no data yet, as on a fresh runner
    only_if: str = ""  # a step output of the script: `false` or 0 is not worth a pull request
    sources: tuple[str, ...] = ()  # of the rows that its run may add to the data branch
    options: tuple[str, ...] = ()  # what a workflow may pass on, by hand or from its shards
    max_files: int = 60
    max_lines: int = 2_000  # changed lines outside the report
    max_bytes: int = 4_000_000  # of all files after the change

    def worth(self, outputs: Mapping[str, str]) -> bool:
        """Whether the script found anything to propose, by its step outputs; a report alone is no change."""
        return not self.only_if or outputs.get(self.only_if, "") not in ("", "0", "false")

    def globs(self) -> tuple[str, ...]:
        return (*self.allowed, *self.traces())

    def traces(self) -> tuple[str, ...]:
        """What protection does not hold back: the report and the records."""
        return (*self.records, *(f"{self.report}.{form}" for form in ("json", "md") if self.report))


_TABLE: Final = Path(__file__).with_suffix(".yaml")
KINDS: Mapping[str, Kind]  # read when it is first asked for: see `__getattr__`


def names() -> str:
    """All kinds, for --help; without a YAML parser, which takes longer to load than --help may take."""
    return ", ".join(sorted(re.findall(r"^(\w+):", _TABLE.read_text("utf-8"), re.MULTILINE)))


@cache
def _kinds() -> Mapping[str, Kind]:
    table = load_yaml(_TABLE.read_bytes())
    for name, row in table.items():
        if unknown := row.keys() - set(Kind.__dataclass_fields__):  # a misspelt limit would be no limit
            raise TypeError(f"kinds.yaml: {name}: no field {', '.join(sorted(unknown))}")
    return {name: made(Kind, {"name": name, **row}) for name, row in table.items()}


def __getattr__(name: str) -> Any:
    if name != "KINDS":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return _kinds()


def kind(name: str) -> Kind:
    """The kind of that name; bad input when there is none."""
    if name not in _kinds():
        raise BadInput(f"--kind {name!r}: must be one of {names()}")
    return _kinds()[name]
