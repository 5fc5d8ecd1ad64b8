"""May this change be proposed? Checks a hand-over of untrusted text before anything with a write token touches it.

`check` says what is wrong with it (exit 1 if anything is), `apply` does the same and then applies it to the tree.
Every file is judged as git itself would leave it; the rules come from HEAD, never from the change.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.files import Repo
from telemetry.edge.text import code


def parser() -> cli.Parser:
    flags = cli.Parser(__doc__)
    flags.add_argument("action", choices=["check", "apply"])
    flags.add_argument("handover", type=Path, metavar="DIR", help="the change.patch to judge")
    flags.add_argument("--kind", required=True, help="kind of change: " + kinds.names())
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    kind = kinds.kind(args.kind)
    from meta.publish import judge

    root = repo.root.resolve()
    judged = judge.check_handover(args.handover, kind.name, root)
    problems = [str(problem) for problem in judged.problems]
    paths: Sequence[str] = ()
    if args.action == "apply" and not problems:
        judge.apply_patch(judged, root)
        paths = judged.paths
        set_output("paths", "\n".join(paths))
        set_output("headline", judged.headline)
        set_output("body", f"{kind.report}.md")  # found to be what the report gives
    told = [f"fit to be proposed as {kind.name}", *(f"  applied {path}" for path in paths)]
    if problems:
        told = [f"refused as {kind.name}:", *(f"  {problem}" for problem in problems)]
        listed = "\n".join(f"- {code(problem, None)}" for problem in problems[:50])
        job_summary(f"### {kind.title}: refused by the guard\n\n{listed}\n\nNo pull request was opened.")
    cli.tell(args, {"kind": kind.name, "problems": problems, "paths": list(paths)}, *told)
    return cli.FOUND if problems else cli.OK


if __name__ == "__main__":
    raise SystemExit(main())
