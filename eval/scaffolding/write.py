"""Writes the files of a new agent, all or none: prompt, schema, pinned suite, and last its entry in the manifest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.manifest import Feed, load_manifest
from agents.manifest.edit import edited
from agents.model.schema import record
from agents.texts.variants import Variants, checked_text
from eval.grading import suite as suites
from eval.scaffolding.imported import Imported
from telemetry.edge.errors import BadInput
from telemetry.edge.files import INPUTS, MANIFEST, SUITES, VARIANTS, Repo, write_atomic, write_json

DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def write(
    repo: Repo, name: str, made: Imported, inputs: str | Feed, *, sample: bool, origin: str
) -> list[Path]:
    """Gives the paths written; `sample` leaves something below agents/inputs/ to run the agent on at once."""
    root = repo.root
    paths = {
        "prompt": Path(f"agents/prompts/{name}.md"),
        "output_schema": Path(f"agents/schemas/{name}.json"),
        "eval_suite": SUITES / f"{name}.jsonl",
    }
    _refuse_taken(repo, name, list(paths.values()))
    first, *others = [checked_text(text, f"prompt of {name}") for text in made.prompts]
    samples = (
        [INPUTS / f"{inputs}.json"] if sample and not (root / INPUTS / f"{inputs}.json").exists() else []
    )
    variants = [VARIANTS / name] if others else []
    lock = root / SUITES / suites.LOCK
    before = {file: file.read_bytes() if file.exists() else None for file in (root / MANIFEST, lock)}
    try:
        write_atomic(root / paths["prompt"], first)
        title = f"One item of {name}'s output"
        write_json(root / paths["output_schema"], {**DRAFT, "title": title, **record(**made.properties)})
        for path in samples:
            write_json(root / path, made.cases[0]["input"])
        suites.write_suite(repo, paths["eval_suite"], made.cases)
        suites.pin(repo, [paths["eval_suite"]])
        for text in others:
            Variants(repo, paths["prompt"]).add(text, source="hand", author="", reason=f"from {origin}")
        write_atomic(root / MANIFEST, with_agent((root / MANIFEST).read_text("utf-8"), name, inputs, paths))
        load_manifest(repo)
    except BaseException:
        for path in (*paths.values(), *samples):
            (root / path).unlink(missing_ok=True)
        for path in variants:
            shutil.rmtree(root / path, ignore_errors=True)
        for file, content in before.items():
            if content is None:
                file.unlink(missing_ok=True)
            else:
                write_atomic(file, content)
        raise
    return [*paths.values(), *samples, *variants, SUITES / suites.LOCK, MANIFEST]


def with_agent(manifest: str, name: str, inputs: str | Feed, paths: Mapping[str, Path]) -> str:
    """The manifest's text with one more agent, comments and layout kept."""
    given: Any = inputs
    if isinstance(inputs, Feed):
        given = {key: value for key, value in asdict(inputs).items() if value}

    def append(tree: Any) -> None:
        tree["agents"].append(
            {
                "name": name,
                "module": "agents.prompted",
                "callable": "PromptedAgent.run",
                "inputs": given,
                **{key: path.as_posix() for key, path in paths.items()},
            }
        )
        tree["agents"].yaml_set_comment_before_after_key(len(tree["agents"]) - 1, before="\n")

    return edited(manifest, append)


def _refuse_taken(repo: Repo, name: str, paths: list[Path]) -> None:
    if any(spec.name == name for spec in load_manifest(repo).agents):
        raise BadInput(f"{MANIFEST}: there is an agent {name!r} already")
    for path in (*paths, VARIANTS / name):
        if (repo / path).exists():
            raise BadInput(f"{path}: exists already; remove it or choose another name")
