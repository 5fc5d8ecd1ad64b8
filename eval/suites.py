"""Pins, checks and lists the suites: which cases an agent is graded on, and whether they are still those pinned.

`settle` lets fresh cases of 90 days and more join the half of their family, and pins what it changed.
"""

from __future__ import annotations

import argparse
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SUITES, Repo
from telemetry.edge.records import plain


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.suites")
    choices = ["pin", "check", "list", "settle"]
    made.add_argument("command", choices=choices, help="pin as they are, check, list, or settle fresh cases")
    made.add_argument("suite", nargs="*", help="agent name or path (default: every suite)")
    today = "settle: by this day (default: today, UTC)"
    made.add_argument("--today", type=date.fromisoformat, metavar="YYYY-MM-DD", help=today)
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from eval.grading.suite import load_suite, pin, settle
    from eval.grading.trivial import trivial_baselines

    paths = _paths(repo, args.suite)
    if args.command == "pin":
        changed = pin(repo, paths)
        told = [f"pinned {name}" for name in changed] or ["nothing to pin"]
        warnings = [
            told
            for path in paths
            for told in _trivial(path.stem, plain(trivial_baselines(load_suite(repo, path).cases)))
        ]
        cli.tell(args, {"pinned": changed, "warnings": warnings}, *told, *warnings)
        return cli.OK
    if args.command == "settle":
        settled = settle(repo, paths, args.today or datetime.now(UTC).date())
        told = [f"{path.stem}: {count} fresh cases settled, and pinned" for path, count in settled.items()]
        value = {"settled": {path.stem: count for path, count in settled.items()}}
        cli.tell(args, value, *told or ["nothing to settle"])
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
    from eval.grading.suite import Case, Suites, splits
    from eval.grading.trivial import trivial_baselines

    cases: tuple[Case, ...] = ()
    problem = None
    try:
        cases = tuple(Suites(repo).load(path, check=True).cases)
    except BadInput as refused:
        problem = str(refused)
    parts = {
        half: [case for case in cases if case.split == half]
        for half in splits({case.split for case in cases})
    }
    return {
        "suite": path.stem,
        "cases": len(cases),
        **{half: len(own) for half, own in parts.items()},
        "families": {half: len({case.family for case in own}) for half, own in parts.items()},
        "trivial": plain(trivial_baselines(cases)),
        "problem": problem,
    }


def _line(row: dict[str, Any]) -> str:
    if row["problem"]:
        return f"{row['suite']}: {row['problem']}"
    halves = ", ".join(f"{row[half]} {half} of {count} families" for half, count in row["families"].items())
    passed = "; ".join(_passed(name, found) for name, found in row["trivial"].items())
    return f"{row['suite']}: {row['cases']} cases ({halves}), as pinned; always {passed}"


def _passed(answer: str, found: dict[str, Any]) -> str:
    rates = [(half, one["pass_rate"]) for half, one in found.items()]
    told = ", ".join(f"{100 * rate:.0f} % of {half}" for half, rate in rates if rate is not None)
    return f"{answer} passes {told}"


def _trivial(suite: str, baselines: dict[str, Any]) -> list[str]:
    """A warning for each answer that passes most of either half, whatever was asked."""
    from eval.grading.trivial import TRIVIAL

    mend = "read pass rates against that, or add cases that expect something else"
    return [
        f"{suite}: always answering {_passed(name, found)}: {mend}"
        for name, found in baselines.items()
        if any((one["pass_rate"] or 0) > TRIVIAL for one in found.values())
    ]


if __name__ == "__main__":
    raise SystemExit(main())
