"""Write every suite anew from its builder, byte for byte the same each time, and pin what was written.

The labelling rule of a suite stands at the top of its builder, in `eval/cases/`. A label comes from how the case was
made, never from an agent's answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SUITES, Repo


def builders() -> dict[str, Callable[[], Iterator[dict[str, Any]]]]:
    """Suite name -> its cases."""
    from eval.cases import findings, headlines, macro, outputs, quotes

    return {
        "macro_watcher": macro.cases,
        "geopolitical_risk": headlines.cases,
        "arbitrage_finder": quotes.cases,
        "reviewer": outputs.cases,
        "meta_agent": findings.cases,
        "vix_echo": macro.vix_cases,
    }


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.build_suites")
    made.add_argument("suite", nargs="*", help="agent name (default: every suite that has a builder)")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from eval.grading import suite as suites

    known = builders()
    for name in args.suite:
        if name not in known:
            raise BadInput(f"{name}: no builder for this suite (known: {', '.join(known)})")
    paths = [SUITES / f"{name}.jsonl" for name in args.suite or known]
    for path in paths:
        suites.write_suite(repo, path, known[path.stem]())
    changed = suites.pin(repo, paths)
    told = f"built {len(paths)} suites, {len(changed)} changed: {', '.join(changed) or '-'}"
    cli.tell(args, {"built": [path.stem for path in paths], "changed": changed}, told)
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
