"""Write every suite anew from its builder, byte for byte the same each time, and pin what was written.

The labelling rule of a suite stands at the top of its builder, in `eval/cases/`. A label comes from how the case was
made, never from an agent's answer. Cases that came from the field (`python -m eval.harvest`) stay behind them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SUITES, Repo
from telemetry.edge.records import load_json


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
    made.add_argument(
        "--seed", type=cli.whole(0), default=None, metavar="S", help="draw other cases; needs --into"
    )
    made.add_argument("--into", type=Path, default=None, metavar="DIR", help="write there, and pin nothing")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    from eval import cases
    from eval.grading import suite as suites

    known = builders()
    for name in args.suite:
        if name not in known:
            raise BadInput(f"{name}: no builder for this suite (known: {', '.join(known)})")
    if args.seed is not None and args.into is None:
        raise BadInput("--seed: needs --into DIR; the suites of the repository are those of one seed")
    if args.into is not None:
        with cases.drawn_from(cases.SEED if args.seed is None else args.seed):
            for name in args.suite or known:
                suites.write_suite(Repo(args.into), Path(f"{name}.jsonl"), known[name]())
        told = f"built {len(args.suite or known)} suites in {args.into}"
        cli.tell(args, {"built": list(args.suite or known), "changed": []}, told)
        return cli.OK
    paths = [SUITES / f"{name}.jsonl" for name in args.suite or known]
    for path in paths:
        suites.write_suite(repo, path, [*known[path.stem](), *_from_the_field(repo, path)])
    changed = suites.pin(repo, paths)
    told = f"built {len(paths)} suites, {len(changed)} changed: {', '.join(changed) or '-'}"
    cli.tell(args, {"built": [path.stem for path in paths], "changed": changed}, told)
    return cli.OK


def _from_the_field(repo: Repo, path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a suite that nobody can build."""
    from eval.field.record import TAG

    lines = (repo / path).read_bytes().splitlines() if (repo / path).exists() else []
    for number, line in enumerate(lines, 1):
        try:
            case = load_json(line)
            if TAG in (case.get("tags") or ()):
                yield case
        except (ValueError, AttributeError, TypeError):
            raise BadInput(f"{path}:{number}: not a case; mend it, or take the line out") from None


if __name__ == "__main__":
    raise SystemExit(main())
