"""Pins, checks and lists the suites: which cases an agent is graded on, and whether they are still those pinned."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SUITES, Repo


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.suites")
    choices = ["pin", "check", "list"]
    made.add_argument("command", choices=choices, help="pin as they are, check, or list the suites")
    made.add_argument("suite", nargs="*", help="agent name or path (default: every suite)")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from eval.grading.suite import pin

    paths = _paths(repo, args.suite)
    if args.command == "pin":
        changed = pin(repo, paths)
        cli.tell(args, {"pinned": changed}, *([f"pinned {name}" for name in changed] or ["nothing to pin"]))
        return cli.OK
    rows = [_row(repo, path) for path in paths]
    cli.tell(args, {"suites": rows}, *map(_line, rows))
    return cli.FOUND if args.command == "check" and any(row["problem"] for row in rows) else cli.OK


def _paths(repo: Repo, names: list[str]) -> list[Path]:
    """The suites of the folder, or those named (by agent or by path), relative to the root."""
    if not names:
        return sorted(SUITES / file.name for file in (repo / SUITES).glob("*.jsonl"))
    named = [Path(name) if Path(name).suffix == ".jsonl" else SUITES / f"{name}.jsonl" for name in names]
    if missing := [path for path in named if not (repo / path).is_file()]:
        raise BadInput(f"{missing[0]}: no such suite")
    return named


def _row(repo: Repo, path: Path) -> dict[str, Any]:
    from eval.grading.suite import Suites

    try:
        parts, problem = [case.split for case in Suites(repo).load(path, check=True).cases], None
    except BadInput as refused:
        parts, problem = [], str(refused)
    counts = {"cases": len(parts), "tune": parts.count("tune"), "holdout": parts.count("holdout")}
    return {"suite": path.stem, **counts, "problem": problem}


def _line(row: dict[str, Any]) -> str:
    told = "{cases} cases ({tune} tune, {holdout} holdout), pinned, as pinned".format(**row)
    return f"{row['suite']}: {row['problem'] or told}"


if __name__ == "__main__":
    raise SystemExit(main())
