"""`python -m tests.bench [area ...]`: one table of everything measured; exit 1 when a target is missed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main(wanted: list[str]) -> int:
    from rich.console import Console
    from rich.table import Table

    known = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    for area in set(wanted) - set(known):
        print(f"error: no such area: {area} (there are: {', '.join(known)})", file=sys.stderr)
        return 2
    table = Table("area", "what", "measured", "reference", "ratio", "target", "")
    missed = False
    for area in wanted or known:
        for row in importlib.import_module(f"tests.bench.{area}").main():
            missed |= not row.ok
            mark = "[green]ok[/]" if row.ok else "[red]missed[/]"
            table.add_row(area, row.what, row.measured, row.reference, row.ratio, row.target, mark)
    Console().print(table)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
