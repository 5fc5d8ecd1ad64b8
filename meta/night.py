"""One night: measure, test, critique, propose and flag, in order, and leave every change as a branch to review.

What would be a pull request on GitHub becomes a local branch of the same name with one commit; the checked-out tree
is left as it was (`--apply` works in place instead). A finished step is not repeated the same day, a failing one is
reported while the independent ones go on. `--nights N` simulates N nights on a scratch copy, merging each night's
changes, for several seeds, and draws how the champions' score develops.
Exit codes: 0 done, 1 a step failed, 2 bad input, 3 a step stopped early (budget, outage).
"""

from __future__ import annotations

import argparse

from agents.llm_client import add_model_flags, model_flags
from telemetry.edge import cli
from telemetry.edge.errors import Stopped
from telemetry.edge.files import Repo


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    add = parse.add_argument
    add("--apply", action="store_true", help="work in place, leave the changes in the tree")
    add("--nights", type=cli.whole(1), default=0, metavar="N", help="simulate N nights on a scratch copy")
    add(
        "--seeds", type=cli.whole(1), default=5, metavar="N", help="of --nights: so often, from --seed on (5)"
    )
    add("--again", action="store_true", help="repeat the steps that are done already")
    add_model_flags(parse, seed="of the A/B order and the offline noise")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Run the night, or simulate many."""
    if args.nights:
        from meta.nightly.simulate import simulate

        return simulate(repo, args, model_flags(args))
    from meta.nightly.whole import whole_night

    try:
        return whole_night(repo, args, model_flags(args))
    except KeyboardInterrupt:
        raise Stopped("interrupted; steps that are done are kept: the same command goes on") from None


if __name__ == "__main__":
    raise SystemExit(main())
