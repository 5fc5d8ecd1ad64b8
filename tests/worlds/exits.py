"""A script that ends with the exit code it is given, having found what it is named after."""

from __future__ import annotations

import argparse

from telemetry.edge import cli
from telemetry.edge.files import Repo


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    parse.add_argument("code", type=int)
    parse.add_argument("name")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, _repo: Repo) -> int:
    cli.found(f"{args.name} told")
    return int(args.code)
