"""A script that ends with the exit code it is given, having found what it is named after."""

from __future__ import annotations

import argparse
import os
import sys
import time

from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from telemetry.edge.files import Repo

PATIENCE_S = 60


def parser() -> cli.Parser:
    parse = cli.Parser(__doc__)
    parse.add_argument("code", type=int)
    parse.add_argument("name")
    parse.add_argument("--interrupt", choices=["plainly", "in words"], help="do as after Ctrl-C")
    parse.add_argument("--leave", default="", help="a file to leave")
    parse.add_argument("--once", default="", help="a file to wait for")
    parse.add_argument(
        "--die-beside", action="store_true", help="be killed unless the night itself runs this"
    )
    return parse


def _interrupted(how: str) -> None:
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        if how == "plainly":
            raise
        raise Stopped("interrupted; --resume goes on") from None


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    if args.interrupt:
        _interrupted(args.interrupt)
    if args.die_beside and "pytest" not in sys.modules:
        os._exit(9)
    if args.leave:
        (repo / args.leave).touch()
    given_up = time.monotonic() + PATIENCE_S
    while args.once and not (repo / args.once).exists():
        if time.monotonic() > given_up:
            return cli.FOUND
        time.sleep(0.01)
    cli.found(f"{args.name} told")
    return int(args.code)
