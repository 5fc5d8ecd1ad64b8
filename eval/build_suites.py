"""Write every suite anew from its builder, byte for byte the same each time, and pin what was written.

The labelling rule of a suite stands at the top of its builder: `eval/cases/macro.py`, `headlines.py`,
`quotes.py`, `outputs.py`, `findings.py`. A label comes from how the case was made, never from an
agent's answer.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.repo import SUITES, Repo


def builders() -> dict[str, Callable[[], Iterator[dict[str, Any]]]]:
    """Suite name -> its cases."""
    from eval.cases import findings as cases_findings
    from eval.cases import headlines as cases_headlines
    from eval.cases import macro as cases_macro
    from eval.cases import outputs as cases_outputs
    from eval.cases import quotes as cases_quotes

    return {
        "macro_watcher": cases_macro.cases,
        "geopolitical_risk": cases_headlines.cases,
        "arbitrage_finder": cases_quotes.cases,
        "reviewer": cases_outputs.cases,
        "meta_agent": cases_findings.cases,
        "vix_echo": cases_macro.vix_cases,
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
    if args.json:
        print(json.dumps({"built": [path.stem for path in paths], "changed": changed}))
    elif not args.quiet:
        print(f"built {len(paths)} suites, {len(changed)} changed: {', '.join(changed) or '-'}")
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
