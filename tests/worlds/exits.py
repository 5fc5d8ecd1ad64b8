"""A script that ends with the exit code it is given."""

from __future__ import annotations

import argparse

from telemetry.edge import cli
from telemetry.edge.repo import Repo


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    parse.add_argument("code", type=int)
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, _repo: Repo) -> int:
    return int(args.code)
