"""Starts a new agent without code: manifest entry, prompt, output schema and a pinned starter suite, ready to run.

`--clear-example` takes out the agents that Ratchet ships with, and all that is theirs: show, ask, remove.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import INPUTS, MANIFEST, SUITES, Repo, write_atomic, write_json

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.scaffold")
    add, named = made.add_argument, "of the new agent: a-z, 0-9 and _, starting with a letter"
    add("name", nargs="?", metavar="NAME", help=named)
    add("--inputs", metavar="KIND", help="what it reads (default: the domain's first starter)")
    add("--clear-example", action="store_true", help="remove the shipped agents and all that is theirs")
    add("--yes", action="store_true", help="... without asking")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    if args.clear_example == (args.name is not None):
        raise BadInput("give either the NAME of a new agent or --clear-example (see --help)")
    if args.clear_example:
        return _clear_example(args, repo)
    written = scaffold(repo, args.name, args.inputs)
    steps = next_steps(repo, args.name)
    if args.json:
        value = {"agent": args.name, "written": [str(path) for path in written], "next": list(steps.values())}
        print(json.dumps(value))
    elif not args.quiet:
        print(f"{args.name} is ready:")
        for path in written:
            print(f"  {path}")
        for what, command in steps.items():
            print(f"{what + ':':18} {command}")
    return cli.OK


def _clear_example(args: argparse.Namespace, repo: Repo) -> int:
    from eval.scaffolding.clear import clear, planned

    plan = planned(repo)
    if plan is None:
        cli.tell(args, {"agents": [], "removed": [], "notes": []}, "There is no example here.")
        return cli.OK
    if not args.yes:
        if not sys.stdin.isatty():
            raise BadInput("--clear-example: nobody to ask here; add --yes")
        print(f"This removes {', '.join(plan.agents)} and:", file=sys.stderr)
        print(*(f"  {path}" for path in plan.paths), *plan.notes, sep="\n", file=sys.stderr)
        print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            cli.tell(args, {"agents": [], "removed": [], "notes": []}, "Nothing was removed.")
            return cli.OK
    clear(repo, plan)
    removed = [str(path) for path in plan.paths]
    cli.tell(
        args,
        {"agents": list(plan.agents), "removed": removed, "notes": list(plan.notes)},
        *(f"removed {path}" for path in removed),
        f"{len(plan.agents)} agents are gone from {MANIFEST}.",
        *plan.notes,
        "Keep it: git add --all && git commit -m 'Remove the example'. Undo it: git checkout -- .",
    )
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


def scaffold(repo: Repo, name: str, kind: str | None = None) -> list[Path]:
    """Write the files of a new agent, the manifest last; nothing stays if the manifest would not load."""
    from agents.domain import load_domain
    from agents.manifest import load_manifest
    from agents.model.schema import record
    from eval.grading import suite as suites
    from eval.scaffolding.starter import STARTERS

    domain = load_domain(load_manifest(repo).domain)
    starters = STARTERS if domain.open_source is None else domain.starters()
    if not starters:
        raise BadInput(f"{MANIFEST}: domain: none that has a starter for a new agent")
    kind = kind or next(iter(starters))
    if kind not in starters:
        raise BadInput(f"--inputs {kind}: must be one of {', '.join(starters)}")
    starter = starters[kind]
    paths = {
        "prompt": Path(f"agents/prompts/{name}.md"),
        "output_schema": Path(f"agents/schemas/{name}.json"),
        "eval_suite": SUITES / f"{name}.jsonl",
    }
    _refuse_taken(repo, name, list(paths.values()))
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    one_item = {**draft, "title": f"One item of {name}'s output", **record(**starter.properties)}
    root = repo.root
    sample = INPUTS / f"{kind}.json"  # something to run it on at once, where no domain has a source
    samples = [sample] if domain.open_source is None and not (root / sample).exists() else []
    lock = root / SUITES / suites.LOCK
    before = {file: file.read_bytes() if file.exists() else None for file in (root / MANIFEST, lock)}
    try:
        title = name.replace("_", " ").capitalize()
        write_atomic(root / paths["prompt"], starter.prompt.replace("{title}", title))
        write_json(root / paths["output_schema"], one_item)
        cases = list(starter.cases(name))
        for path in samples:
            write_json(root / path, cases[0]["input"])
        suites.write_suite(repo, paths["eval_suite"], cases)
        suites.pin(repo, [paths["eval_suite"]])
        write_atomic(root / MANIFEST, with_agent((root / MANIFEST).read_text("utf-8"), name, kind, paths))
        load_manifest(repo)
    except BaseException:
        for path in (*paths.values(), *samples):
            (root / path).unlink(missing_ok=True)
        for file, content in before.items():
            if content is None:
                file.unlink(missing_ok=True)
            else:
                write_atomic(file, content)
        raise
    return [*paths.values(), *samples, SUITES / suites.LOCK, MANIFEST]


def with_agent(manifest: str, name: str, kind: str, paths: dict[str, Path]) -> str:
    """The manifest's text with one more agent, comments and layout kept."""
    from agents.manifest.edit import edited

    def append(tree: Any) -> None:
        tree["agents"].append(
            {
                "name": name,
                "module": "agents.prompted",
                "callable": "PromptedAgent.run",
                "inputs": kind,
                **{key: path.as_posix() for key, path in paths.items()},
            }
        )
        tree["agents"].yaml_set_comment_before_after_key(len(tree["agents"]) - 1, before="\n")

    return edited(manifest, append)


def _refuse_taken(repo: Repo, name: str, paths: list[Path]) -> None:
    from agents.manifest import load_manifest

    if not NAME.fullmatch(name):
        raise BadInput(f"NAME {name!r}: must be a-z, 0-9 and _, start with a letter, at most 64 characters")
    if any(spec.name == name for spec in load_manifest(repo).agents):
        raise BadInput(f"{MANIFEST}: there is an agent {name!r} already")
    for path in paths:
        if (repo / path).exists():
            raise BadInput(f"{path}: exists already; remove it or choose another name")


if __name__ == "__main__":
    raise SystemExit(main())
