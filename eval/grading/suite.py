"""The cases that an agent is graded on, and the pin that says they are still the same.

A suite is a JSONL file of cases (`eval/suite.schema.json`) beside a lock file that pins its SHA-256. A suite that
changed is refused until somebody pins it again: a score means nothing if the cases moved under it.
Half of the cases are *tune* (proposals may look at them), half *holdout* (decisions use only them). Cases made from one
template are a *family*, and the split is the hash of its name: what was learnt from a template is never tested on it.
A case that names no family is one by itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from agents.model.schema import faults, read_schema, schema_problem
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, read_again, write_atomic, write_json

LOCK = "suites.lock.json"
SCHEMA = Path(__file__).parents[1] / "suite.schema.json"

Split = Literal["tune", "holdout"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)


@dataclass(frozen=True, slots=True)
class Case:
    """One question with its known answer."""

    id: str
    input: Any
    expect: tuple[Mapping[str, Any], ...]
    tags: tuple[str, ...] = ()
    threshold: float = 1.0
    family: str = ""  # the id, where none is named
    hash: str = field(
        default="", compare=False
    )  # of its line: scores of another text are not paired with these
    split: Split = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.id)
        object.__setattr__(self, "split", split(self.family))


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one file; `sha256` goes into every result."""

    name: str
    path: Path
    sha256: str
    pinned: bool
    cases: tuple[Case, ...]

    def part(self, which: str) -> tuple[Case, ...]:
        """The cases of one split, or all."""
        return self.cases if which == "all" else tuple(case for case in self.cases if case.split == which)


def split(family: str) -> Split:
    """Half and half, by the parity of a hash: stable for ever, independent of order and content."""
    return "tune" if hashlib.sha256(family.encode()).digest()[0] % 2 == 0 else "holdout"


class Suites:
    """The suites of a checkout, each file read once."""

    def __init__(self, repo: Repo, *, allow_unpinned: bool = False) -> None:
        self.repo, self.allow_unpinned = repo, allow_unpinned
        self.loaded: dict[str, Suite] = {}

    def load(self, path: Path | str, *, check: bool = False) -> Suite:
        """One suite, by its path below the root; refused if it is not as pinned. `check` looks at every case again."""
        if str(path) not in self.loaded:
            self.loaded[str(path)] = self._read(Path(path), check)
        return self.loaded[str(path)]

    def _read(self, path: Path, check: bool) -> Suite:
        file = self.repo / path
        try:
            data = read_again(file)
        except OSError as problem:
            raise BadInput(f"{path}: cannot read the suite ({problem.strerror})") from None
        digest = hashlib.sha256(data).hexdigest()
        pinned = _lock(file.parent / LOCK).get(file.name, {}).get("sha256")
        if check:  # a broken case is told before a missing pin: it has to be mended first
            _cases(data, path, check=True)
        if pinned != digest and not self.allow_unpinned:
            since = f"changed since it was pinned ({pinned[:12]} -> {digest[:12]})" if pinned else ""
            mend = f"python -m eval.suites pin {path.stem} (or --allow-unpinned for one run)"
            why = f"suite {path.stem} {since or 'is not pinned'}"
            raise BadInput(f"{path}: {why}; if that is intended: {mend}")
        # What is pinned was checked when it was pinned, and the hash says it is the same.
        cases = _cases(data, path, check=pinned != digest)
        return Suite(file.stem, path, digest, pinned == digest, cases)


def load_suite(repo: Repo, path: Path | str, *, allow_unpinned: bool = False) -> Suite:
    """One suite, as pinned."""
    return Suites(repo, allow_unpinned=allow_unpinned).load(path)


def pin(repo: Repo, paths: Iterable[Path]) -> list[str]:
    """Pin suites as they are now, each case checked; gives the names whose pin changed."""
    changed = []
    for path in paths:
        suite = Suites(repo, allow_unpinned=True).load(path, check=True)
        entry = {"sha256": suite.sha256, "cases": len(suite.cases)}
        file = (repo / path).parent / LOCK
        lock = _lock(file)
        if lock.get(path.name) != entry:
            write_json(file, {"suites": lock | {path.name: entry}})
            changed.append(path.stem)
    return changed


def unpin(repo: Repo, paths: Iterable[Path]) -> None:
    """Forget the pins of suites that are to go."""
    for path in paths:
        file = (repo / path).parent / LOCK
        lock = _lock(file)
        if lock.pop(path.name, None):
            write_json(file, {"suites": lock})


def write_suite(repo: Repo, path: Path, cases: Iterable[Mapping[str, Any]]) -> None:
    """One compact case a line, keys in the given order: the same cases give the same bytes."""
    lines = (json.dumps(case, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for case in cases)
    write_atomic(repo / path, "".join(line + "\n" for line in lines))


def _lock(file: Path) -> dict[str, dict[str, Any]]:
    try:
        lock = json.loads(read_again(file))["suites"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        lock = None
    if not isinstance(lock, dict) or not all(isinstance(entry, dict) for entry in lock.values()):
        raise BadInput(f'{file}: not a lock file of suites ({{"suites": {{file: {{"sha256": ...}}}}}})')
    return lock


def _cases(data: bytes, shown: Path, *, check: bool) -> tuple[Case, ...]:
    cases: dict[str, Case] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as problem:
            raise BadInput(f"{shown}:{number}: not JSON ({problem})") from None
        if check:
            _check(row, f"{shown}:{number}")
        name = row["id"]
        if name in cases:
            raise BadInput(f"{shown}:{number}: id: {name!r} is used twice")
        tags, threshold = tuple(row.get("tags", ())), float(row.get("threshold", 1.0))
        digest, family = hashlib.sha256(line).hexdigest()[:12], row.get("family", name)
        cases[name] = Case(name, row["input"], tuple(row["expect"]), tags, threshold, family, digest)
    if not cases:
        raise BadInput(f"{shown}: the suite holds no case")
    return tuple(cases.values())


def _check(row: Any, where: str) -> None:
    for fault in faults(read_schema(SCHEMA), row):
        raise BadInput(f"{where}: {fault.at('case')}: {fault.said[:300]}")
    for number, wanted in enumerate(row["expect"]):
        if isinstance(wanted.get("schema"), dict) and (bad := schema_problem(wanted["schema"])):
            raise BadInput(f"{where}: expect.{number}.schema: {bad}")
        if "pattern" in wanted and (bad := pattern_problem(wanted["pattern"])):
            raise BadInput(f"{where}: expect.{number}.pattern: {bad}")


def pattern_problem(pattern: str) -> str:
    """Why a text is no regular expression, if it is none."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as problem:
        return f"no regular expression ({problem})"
    return ""
