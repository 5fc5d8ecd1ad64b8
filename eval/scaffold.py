"""Starts a new agent without code: manifest entry, prompt, output schema and a pinned suite, ready to run.

The suite is a starter on your own rows (`--inputs file:data/tickets.csv`), or one that you bring: a promptfoo config,
the samples of OpenAI's evals, a table with a column of right answers (`--from FILE`). `--clear-example` takes out
the agents that Ratchet ships with, and all that is theirs: show, ask, remove.
"""

from __future__ import annotations

import argparse
import functools
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo

if TYPE_CHECKING:
    from agents.domain import Domain
    from agents.manifest import Feed
    from eval.scaffolding.imported import Imported

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.scaffold")
    add, named = made.add_argument, "of the new agent: a-z, 0-9 and _, starting with a letter"
    add("name", nargs="?", metavar="NAME", help=named)
    add("--inputs", metavar="WHERE", help="file:PATH, call:MODULE:FUNCTION, http:URL or a kind of the domain")
    add("--by-day", metavar="COL", help="the column with a row's date: an agent gets one day's rows")
    add("--json-path", metavar="PATH", help="of http:URL: where in its JSON the rows are, such as data.rows")
    add(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="a suite: promptfoo .yaml/.json, .jsonl or .csv",
    )
    many = functools.partial(add, action="append", default=[], metavar="COL")
    many("--input", help="of a table: a column that the agent is given (repeatable)")
    many("--expected", help="of a table: a column with the right answer (repeatable)")
    add("--family", metavar="COL", help="of a table: rows that share this stand on one side of the split")
    add("--match", choices=("equals", "starts-with", "contains"), help="how a table's answers are compared")
    prompt = "its text, such as from a prompt store; the second and later ones become challengers"
    add("--prompt-file", action="append", default=[], type=Path, metavar="FILE", help=prompt)
    add("--clear-example", action="store_true", help="remove the shipped agents and all that is theirs")
    add("--yes", action="store_true", help="... without asking")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    if args.clear_example == (args.name is not None):
        raise BadInput("give either the NAME of a new agent or --clear-example (see --help)")
    if args.clear_example:
        return _clear_example(args, repo)
    made, written = scaffold(repo, args)
    steps = next_steps(repo, args.name)
    keep = f"git add {shlex.join(map(str, [*written, *_own(args.inputs or '')]))} && git commit -m 'Add {args.name}'"
    lost = made.left_out.lines()
    told = [
        f"{args.name} is ready, {len(made.cases)} cases:",
        *(f"  {path}" for path in written),
        *made.notes,
    ]
    told += ["Not carried over:", *(f"  {line}" for line in lost)] if lost else []
    told += [f"{what + ':':18} {command}" for what, command in {**steps, "keep it": keep}.items()]
    value = {"agent": args.name, "written": [str(path) for path in written], "cases": len(made.cases)}
    value |= {"left_out": made.left_out.lines(most=10**9), "notes": list(made.notes)}
    cli.tell(args, value | {"next": list(steps.values()), "keep": keep}, *told)
    return cli.OK


def _own(inputs: str) -> list[str]:
    """What of the user's the new agent reads: the file of its rows, or the code that gives them."""
    how, _, where = inputs.partition(":")
    if how == "call":
        return [where.partition(":")[0].replace(".", "/") + ".py"]
    return [where] if how == "file" else []


def _clear_example(args: argparse.Namespace, repo: Repo) -> int:
    from eval.scaffolding.clear import clear, planned

    plan = planned(repo)
    nothing: dict[str, list[str]] = {"agents": [], "removed": [], "notes": []}
    if plan is None:
        cli.tell(args, nothing, "There is no example here.")
        return cli.OK
    if not args.yes:
        if not sys.stdin.isatty():
            raise BadInput("--clear-example: nobody to ask here; add --yes")
        print(f"This removes {', '.join(plan.agents)} and:", file=sys.stderr)
        print(*(f"  {path}" for path in plan.paths), *plan.notes, sep="\n", file=sys.stderr)
        print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            cli.tell(args, nothing, "Nothing was removed.")
            return cli.OK
    clear(repo, plan)
    removed = [str(path) for path in plan.paths]
    told = [*(f"removed {path}" for path in removed), f"{len(plan.agents)} agents are gone from {MANIFEST}."]
    then = "Keep it: git add --all && git commit -m 'Remove the example'. Undo it: git checkout -- ."
    value = {"agents": list(plan.agents), "removed": removed, "notes": list(plan.notes)}
    cli.tell(args, value, *told, *plan.notes, then)
    return cli.OK


def next_steps(repo: Repo, name: str) -> dict[str, str]:
    """What to type next, by what for."""
    from agents.manifest import load_manifest

    prompt = f"agents/prompts/{name}.md"
    enough = 2 * load_manifest(repo).ab_test.min_cases  # half of them are unseen
    return {
        "run it": f"python -m agents.orchestrator --agent {name}",
        "grade it": f"python -m eval.harness --agent {name}",
        "after new cases": f"python -m eval.suites pin {name}",
        "try another text": f"python -m meta.prompt_variant_manager add FILE --prompt {prompt}",
        "which is better?": f"python -m eval.ab_testing --prompt {prompt}  # needs about {enough} cases",
    }


def scaffold(repo: Repo, args: argparse.Namespace) -> tuple[Imported, list[Path]]:
    """Make what was asked for, and write its files; nothing stays if the manifest would not load."""
    from agents.domain import IMPROVING, load_domain
    from agents.manifest import load_manifest
    from eval.scaffolding.starter import feed_of, from_feed
    from eval.scaffolding.write import write

    name = args.name
    if not NAME.fullmatch(name):
        raise BadInput(f"NAME {name!r}: must be a-z, 0-9 and _, start with a letter, at most 64 characters")
    domain = load_domain(load_manifest(repo).domain)
    feed = feed_of(args.inputs, args.by_day, args.json_path) if args.inputs else None
    title = name.replace("_", " ").capitalize()
    if not args.source:
        for flag in ("input", "expected", "family", "match", "prompt_file"):
            if getattr(args, flag):
                raise BadInput(f"--{flag.replace('_', '-')}: only with --from FILE")
    inputs: str | Feed = feed or args.inputs or name
    if args.source:
        made, sample, origin = _imported(args), not args.inputs, str(args.source)
        if not args.inputs and (name in domain.inputs or name in IMPROVING):
            inputs = f"{name}_sample"
    elif feed:
        made, sample, origin = from_feed(feed, repo.root, title), False, feed.name
    else:
        inputs, made = _starter(domain, args.inputs, name, title)
        sample, origin = domain.open_source is None, inputs
    return made, write(repo, name, made, inputs, sample=sample, origin=origin)


def _starter(domain: Domain, kind: str | None, name: str, title: str) -> tuple[str, Imported]:
    """The domain's starter for a kind of input, or the one for any."""
    from eval.scaffolding.imported import Imported
    from eval.scaffolding.starter import STARTERS

    starters = STARTERS if domain.open_source is None else domain.starters()
    if not starters:
        raise BadInput(f"{MANIFEST}: domain: none that has a starter for a new agent")
    kind = kind or next(iter(starters))
    if kind not in starters:
        others = "file:PATH, call:MODULE:FUNCTION or http:URL"
        raise BadInput(f"--inputs {kind}: must be one of {', '.join(starters)}, or {others}")
    starter = starters[kind]
    return kind, Imported(
        [starter.prompt.replace("{title}", title)], starter.properties, list(starter.cases(name))
    )


def _imported(args: argparse.Namespace) -> Imported:
    """The suite that the user brings, whichever tool it is from."""
    from eval.scaffolding.imported import read_text

    source: Path = args.source
    prompts = [read_text(path) for path in args.prompt_file]
    if source.suffix in (".yaml", ".yml", ".json"):
        if args.input or args.expected or args.match or args.family:
            raise BadInput(
                f"{source}: --input, --expected, --family and --match are for tables (.csv, .jsonl)"
            )
        from eval.scaffolding.promptfoo import from_promptfoo

        return from_promptfoo(source, prompts)
    from eval.scaffolding.tables import Columns, from_rows, from_samples

    if source.suffix not in (".csv", ".jsonl"):
        raise BadInput(f"{source}: must be a promptfoo config (.yaml, .yml, .json), .jsonl or .csv")
    if source.suffix == ".jsonl" and not (args.input or args.expected):
        return from_samples(source, args.match, prompts)
    return from_rows(source, Columns(args.input, args.expected, args.family, args.match), prompts)


if __name__ == "__main__":
    raise SystemExit(main())
