"""Starts a new agent without code: manifest entry, prompt, output schema and a pinned starter suite, ready to run."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import write_atomic, write_json
from telemetry.edge.repo import MANIFEST, SUITES, Repo

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def parser() -> cli.Parser:
    made = cli.Parser(__doc__, prog="python -m eval.scaffold")
    made.add_argument("name", metavar="NAME", help="of the new agent: a-z, 0-9 and _, starting with a letter")
    made.add_argument("--inputs", metavar="KIND", help="what it reads (default: the domain's first starter)")
    return made


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
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
    from eval.grading import suite as suites

    starters = load_domain(load_manifest(repo).domain).starters
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
    root = repo.root
    lock = root / SUITES / suites.LOCK
    before = {file: file.read_bytes() if file.exists() else None for file in (root / MANIFEST, lock)}
    try:
        write_atomic(
            root / paths["prompt"], starter.prompt.replace("{title}", name.replace("_", " ").capitalize())
        )
        write_json(root / paths["output_schema"], _schema(name, starter.properties))
        suites.write_suite(repo, paths["eval_suite"], starter.cases(name))
        suites.pin(repo, [paths["eval_suite"]])
        write_atomic(root / MANIFEST, with_agent((root / MANIFEST).read_text("utf-8"), name, kind, paths))
        load_manifest(repo)
    except BaseException:
        for path in paths.values():
            (root / path).unlink(missing_ok=True)
        for file, content in before.items():
            if content is None:
                file.unlink(missing_ok=True)
            else:
                write_atomic(file, content)
        raise
    return [*paths.values(), SUITES / suites.LOCK, MANIFEST]


def _schema(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of one item of the output list."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One item of {name}'s output",
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


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
