"""What did the script change, and is it worth proposing? Runs one, and packs the change for whoever may publish it.

`produce` runs the script of a kind and packs what it changed; `pack` only packs.
The hand-over is a folder: change.patch (against HEAD, allowed paths only), body.md, meta.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from meta.publish import kinds
from telemetry.edge import cli
from telemetry.edge.cli import job_summary, set_output
from telemetry.edge.errors import BadInput
from telemetry.edge.files import SCRATCH, Repo
from telemetry.edge.text import code


def parser() -> cli.Parser:
    """The command line."""
    flags = cli.Parser(__doc__)
    flags.add_argument("action", choices=["produce", "pack"])
    flags.add_argument("--kind", required=True, help="kind of change: " + ", ".join(sorted(kinds.KINDS)))
    out = SCRATCH / "handover"
    flags.add_argument("--out", type=Path, default=out, metavar="DIR", help="the hand-over")
    flags.add_argument("--prompt", default="", help="produce: only this prompt")
    budget = "produce: spend at most this; empty: the manifest's budget"
    flags.add_argument("--max-usd", default="", help=budget)
    flags.add_argument("--merge", default="", metavar="DIR", help="produce: sum up the shards in DIR")
    return flags


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    """Run and pack, and say what happened where a person looks: the log and the job summary."""
    form, root = kinds.kind(args.kind), repo.root.resolve()
    from meta.publish.pack import OPTIONS, packed, produce

    try:
        if args.action == "pack":
            done = packed(form, root, args.out)
        else:
            done = produce(form, root, args.out, {name: getattr(args, name) for name in OPTIONS})
    except BadInput as problem:
        job_summary(f"### {form.title}\n\nNothing is proposed: {code(str(problem), None)}")
        raise
    set_output("propose", "true" if done.paths else "false")
    listed = "".join(f"\n- `{path}`" for path in done.paths)
    job_summary(f"### {form.title}\n\n{done.told}{listed}")
    result = {"kind": form.name, "exit_code": done.code, "told": done.told, "paths": list(done.paths)}
    cli.tell(args, result, done.told, *done.paths)
    return done.code


if __name__ == "__main__":
    raise SystemExit(main())
