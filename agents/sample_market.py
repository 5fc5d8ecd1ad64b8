"""Rebuild the sample market: a synthetic, seeded stretch of trading days and what the market did next.

Writes `agents/sample/market.jsonl` and `telemetry/outcomes.jsonl`, byte for byte the same on every machine. Formats:
`agents/sample/README.md`; what is planted: `agents/market/sample/`.
"""

from __future__ import annotations

import argparse

from telemetry.edge import cli
from telemetry.edge.files import Repo, write_atomic


def parser() -> cli.Parser:
    arguments = cli.Parser(__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    return arguments


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from agents.market.sample.build import files

    differing = []
    for name, text in files().items():
        path = repo / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            differing.append(name)
            if not args.check:
                write_atomic(path, text)
    verb = "differs from its generator" if args.check else "rebuilt"
    lines = [f"{name}: {verb}" for name in differing] or ["the sample market is up to date"]
    cli.tell(args, {"differing": differing, "written": [] if args.check else differing}, *lines)
    return cli.FOUND if args.check and differing else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
