"""The cases that an agent is graded on, and the pin that says they are still the same.

A suite is a JSONL file of cases (`eval/suite.schema.json`) beside a lock file that pins its SHA-256. A suite that
changed is refused until somebody pins it again: a score means nothing if the cases moved under it.
Half of the cases are *tune* (proposals may look at them), half *holdout* (decisions use only them). Cases made from one
template are a *family*, and the split is the hash of its name: what was learnt from a template is never tested on it.
A case that names no family is one by itself.
A *fresh* case is in neither half: dated (`since`), new from the field, it is kept from proposals and promotions alike,
tests again what was promoted before it came in, and joins the half of its family when it is `SETTLED_AFTER` days old.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, Literal, overload

from agents.model.schema import MAX_DEPTH, checker, faults, read_schema, schema_problem
from eval.grading import own
from eval.grading.graders import compiled
from telemetry.batches.holdout import split as split  # here, as it decides what may leave
from telemetry.edge.errors import BadInput
from telemetry.edge.files import Repo, read_again, write_atomic, write_json
from telemetry.edge.frozen import frozen
from telemetry.edge.records import load_json
from telemetry.edge.text import spelt_out

LOCK = "suites.lock.json"
SCHEMA = Path(__file__).parents[1] / "suite.schema.json"

Split = Literal["tune", "holdout", "fresh"]
HALVES: Final[tuple[Split, ...]] = ("tune", "holdout")
FRESH: Final = "fresh"
# Tags of what was picked for what the live text said.
BY_ANSWER: Final = frozenset({"corrected", "disagreement"})
LARGE: Final = 5_000  # lines of a file from which on its cases are not held
SETTLED_AFTER: Final = 90  # days: no promotion that a case of that age could test is looked at any more


@frozen
class Case:
    """One question with its known answer."""

    id: str
    input: Any
    expect: tuple[Mapping[str, Any], ...]
    tags: tuple[str, ...] = ()
    threshold: float = 1.0
    family: str = ""  # the id, where none is named
    # Of its line: scores of another text are not paired with these.
    hash: str = field(default="", compare=False)
    since: str = ""  # the day it came in, where that is known
    fresh: bool = False
    note: str = ""  # what a person said of it
    split: Split = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.family or self.id)
        object.__setattr__(self, "split", FRESH if self.fresh else split(self.family))


class Lines(Sequence[Case]):
    """The cases of a large suite, each read from its line when it is looked at: held, they take ten times the room."""

    def __init__(self, data: bytes, starts: array[int], splits: Sequence[Split]) -> None:
        self._data, self._starts, self._splits = data, starts, splits

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, at: int) -> Case: ...
    @overload
    def __getitem__(self, at: slice) -> Lines: ...
    def __getitem__(self, at: int | slice) -> Case | Lines:
        if isinstance(at, slice):
            return Lines(self._data, self._starts[at], self._splits[at])
        line = _line_at(self._data, self._starts[at])
        return _case(_parsed(line), line)

    def part(self, wanted: Collection[str]) -> Lines:
        """Those of these splits."""
        kept = [at for at, one in enumerate(self._splits) if one in wanted]
        starts = array("Q", (self._starts[at] for at in kept))
        return (
            self if len(kept) == len(self) else Lines(self._data, starts, [self._splits[at] for at in kept])
        )


@frozen
class Suite:
    """The cases of one file; `sha256` goes into every result."""

    name: str
    path: Path
    sha256: str
    pinned: bool
    cases: Sequence[Case]

    def part(self, which: str) -> Sequence[Case]:
        """The cases of one split, or all that are settled: both halves."""
        wanted = HALVES if which == "all" else (which,)
        if isinstance(self.cases, Lines):
            return self.cases.part(wanted)
        return tuple(case for case in self.cases if case.split in wanted)

    @property
    def settled_sha256(self) -> str:
        """Names the cases that decide: what comes in fresh must not undo what was compared on the others."""
        settled = self.part("all")
        if len(settled) == len(self.cases):
            return self.sha256
        return hashlib.sha256("".join(case.hash for case in settled).encode()).hexdigest()


def splits(found: Container[str]) -> tuple[Split, ...]:
    """What there is to tell of cases in these splits: both halves, and fresh ones where there are any."""
    return (*HALVES, FRESH) if FRESH in found else HALVES


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
        entry = _lock(file.parent / LOCK).get(file.name, {})
        pinned = entry.get("sha256")
        # A broken case is told before a missing pin: it has to be mended first.
        read = _cases(data, path, check=True) if check else None
        if pinned != digest:
            since = (
                f"changed since it was pinned ({pinned[:12]} -> {digest[:12]})" if pinned else "is not pinned"
            )
            self._refuse(path, f"suite {path.stem} {since}")
        # What is pinned was checked when it was pinned, and the hash says it is the same.
        cases, named = read or _cases(data, path, check=pinned != digest)
        if pinned == digest and (graders := own.sources(named)) != entry.get("graders", {}):
            self._refuse(path, f"its graders ({', '.join(graders)}) changed since it was pinned")
            pinned = None
        return Suite(file.stem, path, digest, pinned == digest, cases)

    def _refuse(self, path: Path, why: str) -> None:
        """What is not as pinned, unless that is allowed."""
        if not self.allow_unpinned:
            mend = f"python -m eval.suites pin {path.stem} (or --allow-unpinned for one run)"
            raise BadInput(f"{path}: {why}; if that is intended: {mend}")


def load_suite(repo: Repo, path: Path | str, *, allow_unpinned: bool = False) -> Suite:
    """One suite, as pinned."""
    return Suites(repo, allow_unpinned=allow_unpinned).load(path)


def pin(repo: Repo, paths: Iterable[Path]) -> list[str]:
    """Pin suites as they are now, each case checked; gives the names whose pin changed."""
    changed = []
    for path in paths:
        suite = Suites(repo, allow_unpinned=True).load(path, check=True)
        entry: dict[str, Any] = {"sha256": suite.sha256, "cases": len(suite.cases)}
        if graders := own.sources(one["grader"] for case in suite.cases for one in case.expect):
            entry["graders"] = graders
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


def settle(repo: Repo, paths: Iterable[Path], today: date) -> dict[Path, int]:
    """Let fresh cases that are old enough join the half of their family, and pin; gives how many did, where any did."""
    paths, moved = list(paths), {}
    for (
        path
    ) in paths:  # all of them before the first is written; what nobody has pinned would be pinned along
        Suites(repo).load(path, check=True)
    for path in paths:
        before = read_again(repo / path).splitlines(keepends=True)
        lines = [settled_line(line, today) for line in before]
        if count := sum(new != old for new, old in zip(lines, before, strict=True)):
            write_atomic(repo / path, b"".join(lines))
            pin(repo, [path])
            moved[path] = count
    return moved


def settled_line(line: bytes, today: date) -> bytes:
    """The line of a case as it is from that day on: a fresh one that is old enough is fresh no longer."""
    if b'"split"' not in line:
        return line
    row = json.loads(line)
    if row.get("split") != FRESH or row["since"] > str(today - timedelta(days=SETTLED_AFTER)):
        return line
    del row["split"]
    return encoded(row)


def write_suite(repo: Repo, path: Path, cases: Iterable[Mapping[str, Any]]) -> None:
    """One compact case a line, keys in the given order: the same cases give the same bytes."""
    write_atomic(repo / path, b"".join(map(encoded, cases)))


def encoded(case: Mapping[str, Any]) -> bytes:
    """The line of a case, with nothing in it that a reader would not see."""
    line = json.dumps(case, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return spelt_out(line).encode() + b"\n"


def _lock(file: Path) -> dict[str, dict[str, Any]]:
    try:
        lock = load_json(read_again(file))["suites"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        lock = None
    if not isinstance(lock, dict) or not all(map(_is_pin, lock.values())):
        raise BadInput(f'{file}: not a lock file of suites ({{"suites": {{file: {{"sha256": ...}}}}}})')
    return lock


def _is_pin(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("sha256"), str)


def _cases(data: bytes, shown: Path, *, check: bool) -> tuple[Sequence[Case], set[str]]:
    """The cases of a file, and the graders that they name."""
    cases, ids, graders, starts, splits = list[Case](), set[str](), set[str](), array("Q"), list[Split]()
    large = data.count(b"\n") > LARGE
    valid = checker(read_schema(SCHEMA)) if check else None
    for number, (start, line) in enumerate(_lines(data), 1):
        try:
            row = _parsed(line)
        except ValueError as problem:
            raise BadInput(f"{shown}:{number}: not JSON ({problem})") from None
        if valid is not None:
            # Few brackets are not too deep for the plain check; what it refuses is looked at again, for the words.
            flat = line.count(b"[") + line.count(b"{") < MAX_DEPTH
            _check(row, f"{shown}:{number}", fine=flat and valid(row))
        case = _case(row, line)
        if case.id in ids:
            raise BadInput(f"{shown}:{number}: id: {case.id!r} is used twice")
        ids.add(case.id)
        graders.update(wanted["grader"] for wanted in case.expect)
        if large:
            starts.append(start)
            splits.append(case.split)
        else:
            cases.append(case)
    if not ids:
        raise BadInput(f"{shown}: the suite holds no case")
    return Lines(data, starts, splits) if large else tuple(cases), graders


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Every line of a file with its place; only one of them is held."""
    start = 0
    while start < len(data):
        yield start, _line_at(data, start)
        start = (data.find(b"\n", start) + 1) or len(data)


def _line_at(data: bytes, start: int) -> bytes:
    end = data.find(b"\n", start)
    return data[start : len(data) if end < 0 else end].removesuffix(b"\r")


def _case(row: Any, line: bytes) -> Case:
    name = row["id"]
    tags, threshold = tuple(row.get("tags", ())), float(row.get("threshold", 1.0))
    digest, family = hashlib.sha256(line).hexdigest()[:12], row.get("family", name)
    came = (row.get("since", ""), row.get("split") == FRESH, row.get("note", ""))
    return Case(name, row["input"], tuple(row["expect"]), tags, threshold, family, digest, *came)


def _parsed(line: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # it is stricter, and says less about what is wrong
        return load_json(line)


def _check(row: Any, where: str, *, fine: bool) -> None:
    for fault in () if fine else faults(read_schema(SCHEMA), row):
        shape = fault.rule.get("description") if fault.keyword == "pattern" else None
        said = f"must be {shape}, not {fault.value!r}" if shape else fault.said
        raise BadInput(f"{where}: {fault.at('case')}: {said[:300]}")
    for number, wanted in enumerate(row["expect"]):
        if own.is_own(wanted["grader"]) and (told := own.problem(wanted["grader"], wanted)):
            raise BadInput(f"{where}: expect.{number}.grader: {told}")
        if isinstance(wanted.get("schema"), dict) and (bad := schema_problem(wanted["schema"])):
            raise BadInput(f"{where}: expect.{number}.schema: {bad}")
        if "pattern" in wanted and (bad := pattern_problem(wanted["pattern"])):
            raise BadInput(f"{where}: expect.{number}.pattern: {bad}")


def pattern_problem(pattern: str) -> str:
    """Why a text is no regular expression, if it is none."""
    try:
        compiled(pattern)
    except (re.error, OverflowError, RecursionError) as problem:
        return f"no regular expression ({problem})"
    return ""
