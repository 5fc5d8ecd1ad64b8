"""`python -m tests.bench [area ...] [--seed N]`: everything measured, area by area; exit 1 when a target is missed."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from telemetry.edge.cli import wrapped
from tests import bench
from tests.bench import Row


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="area")
    parser.add_argument("--seed", type=int, default=0, help="of what is simulated")
    args = parser.parse_args(argv)
    bench.SEED, wanted = args.seed, args.areas
    known = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    for area in set(wanted) - set(known):
        print(f"error: no such area: {area} (there are: {', '.join(known)})", file=sys.stderr)
        return 2
    missed = 0
    areas = wanted or known
    for place, area in enumerate(areas, 1):
        print(f"\n{area} ({place} of {len(areas)})", flush=True)
        for row in importlib.import_module(f"tests.bench.{area}").main():
            missed += not row.ok
            print("\n".join(told(row)), flush=True)
    print(f"\n{f'{missed} targets missed' if missed else 'All targets reached'}.")
    return int(bool(missed))


def told(row: Row) -> list[str]:
    """A figure in two lines that fit a terminal: what it is; what was measured, beside what, what was asked."""
    beside = f", beside {row.reference}" if row.reference else ""
    ratio = f" ({row.ratio})" if row.ratio else ""
    asked = f"; asked: {row.target}" if row.target else ""
    return [
        wrapped(f"  {'ok    ' if row.ok else 'MISSED'}  {row.what}", " " * 10),
        wrapped(f"{' ' * 10}{row.measured}{beside}{ratio}{asked}", " " * 10),
    ]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
