"""Which cases is an agent graded on, and are they still the ones we pinned?

A suite is a JSONL file of cases (`eval/suite.schema.json`) beside a lock file that pins its SHA-256. A suite that
changed is refused until somebody pins it again: a score means nothing if the cases moved under it.
Half of the cases are *tune* (proposals may look at them), half *holdout* (decisions use only them); the split is the
hash of the case id, never stored, so nobody can move a case across by editing a field.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.repo import here

FOLDER = Path("eval/suites")
LOCK = "suites.lock.json"
SCHEMA = Path(__file__).with_name("suite.schema.json")

Split = Literal["tune", "holdout"]


@dataclass(frozen=True, slots=True)
class Case:
    """One question with its known answer."""

    id: str
    input: Any
    expect: tuple[Mapping[str, Any], ...]
    tags: tuple[str, ...] = ()
    threshold: float = 1.0
    split: Split = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "split", split(self.id))


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


def split(case_id: str) -> Split:
    """Half and half, by the parity of a hash: stable for ever, independent of order and content."""
    return "tune" if hashlib.sha256(case_id.encode()).digest()[0] % 2 == 0 else "holdout"


def load_suite(path: Path | str, *, allow_unpinned: bool = False) -> Suite:
    """Read a suite; relative to the root. Refuses one that is not pinned as it is, and names it."""
    shown, file = Path(path), here() / path
    data = _read(file, shown)
    digest = hashlib.sha256(data).hexdigest()
    pinned = _lock(file.parent / LOCK).get(file.name, {}).get("sha256")
    if pinned != digest and not allow_unpinned:
        raise BadInput(_refusal(shown, pinned, digest))
    # What is pinned was checked when it was pinned, and the hash says it is the same.
    cases = _cases(data, shown, check=pinned != digest)
    return Suite(file.stem, shown, digest, pinned == digest, cases)


def check_suite(path: Path | str) -> tuple[Case, ...]:
    """Read a suite and check every line against the schema, pinned or not."""
    file = here() / path
    return _cases(_read(file, Path(path)), Path(path), check=True)


def pin(paths: Iterable[Path]) -> list[str]:
    """Pin suites as they are now; gives the names whose pin changed."""
    changed = []
    for path in paths:
        lock_file = here() / path.parent / LOCK
        lock = _lock(lock_file)
        cases = check_suite(path)
        digest = hashlib.sha256((here() / path).read_bytes()).hexdigest()
        entry = {"sha256": digest, "cases": len(cases)}
        if lock.get(path.name) != entry:
            write_json(lock_file, {"suites": lock | {path.name: entry}})
            changed.append(path.stem)
    return changed


def suite_paths(names: Sequence[str] = ()) -> list[Path]:
    """The suites of the folder, or those named (by agent or by path), relative to the root."""
    if names:
        named = [FOLDER / f"{name}.jsonl" if Path(name).suffix != ".jsonl" else Path(name) for name in names]
        for path in named:
            if not (here() / path).is_file():
                raise BadInput(f"{path}: no such suite")
        return named
    return sorted(FOLDER / file.name for file in (here() / FOLDER).glob("*.jsonl"))


def write_suite(path: Path, cases: Iterable[Mapping[str, Any]]) -> None:
    """One compact case a line, keys in the given order: the same cases give the same bytes."""
    lines = (json.dumps(case, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for case in cases)
    write_atomic(here() / path, "".join(line + "\n" for line in lines))


def _read(file: Path, shown: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise BadInput(f"{shown}: cannot read the suite ({problem.strerror})") from None


def _lock(file: Path) -> dict[str, dict[str, Any]]:
    try:
        lock = json.loads(file.read_bytes())["suites"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        lock = None
    if not isinstance(lock, dict) or not all(isinstance(entry, dict) for entry in lock.values()):
        raise BadInput(f'{file}: not a lock file of suites ({{"suites": {{file: {{"sha256": ...}}}}}})')
    return lock


def _refusal(path: Path, pinned: str | None, digest: str) -> str:
    what = (
        "is not pinned" if pinned is None else f"changed since it was pinned ({pinned[:12]} -> {digest[:12]})"
    )
    return (
        f"{path}: suite {path.stem} {what}; if that is intended: python -m eval.suites pin {path.stem} "
        "(or --allow-unpinned for one run)"
    )


def _cases(data: bytes, shown: Path, *, check: bool) -> tuple[Case, ...]:
    cases: list[Case] = []
    seen: set[str] = set()
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError as problem:
            raise BadInput(f"{shown}:{number}: not JSON ({problem})") from None
        if check:
            _check(row, f"{shown}:{number}")
        if row["id"] in seen:
            raise BadInput(f"{shown}:{number}: id: {row['id']!r} is used twice")
        seen.add(row["id"])
        tags, threshold = tuple(row.get("tags", ())), float(row.get("threshold", 1.0))
        cases.append(Case(row["id"], row["input"], tuple(row["expect"]), tags, threshold))
    if not cases:
        raise BadInput(f"{shown}: the suite holds no case")
    return tuple(cases)


def _check(row: Any, where: str) -> None:
    from agents.model.schema import faults, read_schema, schema_problem

    for fault in faults(read_schema(SCHEMA), row):
        raise BadInput(f"{where}: {fault.at('case')}: {fault.said[:300]}")
    for number, wanted in enumerate(row["expect"]):
        if isinstance(wanted.get("schema"), dict) and (bad := schema_problem(wanted["schema"])):
            raise BadInput(f"{where}: expect.{number}.schema: {bad}")


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.suites")
    made.add_argument(
        "command", choices=["pin", "check", "list"], help="pin as they are, check, or list the suites"
    )
    made.add_argument("suite", nargs="*", help="agent name or path (default: every suite)")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace) -> int:
    paths = suite_paths(args.suite)
    if args.command == "pin":
        changed = pin(paths)
        _tell(args, {"pinned": changed}, [f"pinned {name}" for name in changed] or ["nothing to pin"])
        return cli.OK
    rows = [_row(path) for path in paths]
    _tell(args, {"suites": rows}, [_line(row) for row in rows])
    wrong = any(row["problem"] for row in rows)
    return cli.FOUND if args.command == "check" and wrong else cli.OK


def _row(path: Path) -> dict[str, Any]:
    try:
        cases = check_suite(path)
        load_suite(path)
        problem = None
    except BadInput as refused:
        cases, problem = (), str(refused)
    parts = [case.split for case in cases]
    return {
        "suite": path.stem,
        "cases": len(cases),
        "tune": parts.count("tune"),
        "holdout": parts.count("holdout"),
        "problem": problem,
    }


def _line(row: Mapping[str, Any]) -> str:
    if row["problem"]:
        return f"{row['suite']}: {row['problem']}"
    return f"{row['suite']}: {row['cases']} cases ({row['tune']} tune, {row['holdout']} holdout), pinned, as pinned"


def _tell(args: argparse.Namespace, value: object, lines: Sequence[str]) -> None:
    if args.json:
        print(json.dumps(value))
    elif not args.quiet:
        print("\n".join(lines))


if __name__ == "__main__":
    raise SystemExit(main())
