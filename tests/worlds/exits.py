"""A script that ends with the exit code it is given."""

from __future__ import annotations

import argparse

from telemetry.edge import script


def parser() -> script.Parser:
    parse = script.Parser(__doc__)
    parse.add_argument("code", type=int)
    return parse


@script.entry(parser)
def main(args: argparse.Namespace) -> int:
    return int(args.code)
