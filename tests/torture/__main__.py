"""`python -m tests.torture [--minutes M] [area ...]`: what it takes to break it, as a table; exit 1 if something did.

Every area gets its share of the time that is left; what could not be tried in it counts as missed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from tests.torture import Clock, Figure

NOT_AREAS = ("lived", "shipped")
SHARES = {"kills": 6, "corrupt": 9, "disk": 2}  # of the time; any other area one


def main(argv: list[str] | None = None) -> int:
    known = sorted(
        path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if not path.stem.startswith("test_")
    )
    known = [name for name in known if name not in NOT_AREAS]
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=30.0, metavar="M", help="for all of it (default: 30)"
    )
    parser.add_argument("area", nargs="*", choices=[*known, []], metavar="area", help=", ".join(known))
    args = parser.parse_args(argv)
    clock, figures, areas = Clock(60 * args.minutes), list[Figure](), args.area or known
    for at, area in enumerate(areas):
        print(f"{area} ...", file=sys.stderr, flush=True)
        rest = sum(SHARES.get(name, 1) for name in areas[at:])
        own = clock.share(rest, SHARES.get(area, 1))
        for figure in importlib.import_module(f"tests.torture.{area}").run(own):
            figures.append(figure)
            print(f"  {figure.what}: {figure.held:,} of {figure.tried:,}", file=sys.stderr, flush=True)
    _show(figures)
    return int(not all(figure.ok for figure in figures))


def _show(figures: list[Figure]) -> None:
    """The table, at most 80 columns wide, and below it what got through."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("what", "held", "to reach", "")
    for column in table.columns[1:3]:
        column.justify = "right"
    for one in figures:
        mark = "[green]ok[/]" if one.ok else "[red]missed[/]"
        table.add_row(escape(one.what), f"{one.held:,} of {one.tried:,}", f"{one.wanted:,}", mark)
    console = Console(width=80, highlight=False)
    console.print(table)
    for figure in figures:
        for fault in figure.faults[:20]:
            console.print(escape(f"{figure.what}: {fault}"), soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
