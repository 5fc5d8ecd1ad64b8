"""Builds the site: what waits for you, how the agents do, what was tested and decided, from files and git alone.

Static pages that work from a folder, from any web server and below any path; no network, no script needed. `--redact`
leaves out what models wrote: a site on GitHub Pages is public even if its repository is not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from telemetry.edge import cli
from telemetry.edge.files import SITE, Repo


def parser() -> cli.Parser:
    """The command line."""
    parse = cli.Parser(__doc__)
    parse.add_argument("--out", type=Path, metavar="DIR", help=f"where to (default: {SITE}/ of the checkout)")
    parse.add_argument("--redact", action="store_true", help="leave out what models wrote")
    parse.add_argument("--open", action="store_true", help="show it in a browser")
    return parse


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Gather, build, tell."""
    from meta.site.build import build
    from meta.site.facts import gather

    out = args.out or repo / SITE
    written = build(gather(repo, redacted=args.redact), out)
    first = (out / "index.html").resolve()
    told = cli.found(f"{len(written)} pages")
    cli.tell(args, {"pages": len(written), "index": str(first)}, f"{told}: {first}")
    if args.open:
        import webbrowser

        webbrowser.open(first.as_uri())
    return cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
