"""Takes the example out of a tree: its agents with all that is theirs, and what else the domain calls its own.

What belongs to the example is the domain's to say (`DOMAIN.agents`, `DOMAIN.paths`). A file that an agent who stays
also uses stays; an agent who stays and runs the example's code stops it.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from agents.domain import Domain, load_domain
from agents.manifest import AgentSpec, load_manifest
from agents.manifest.edit import without
from agents.offline import rules
from eval.grading import suite
from eval.ledger.decisions import decisions
from telemetry.edge.errors import BadInput
from telemetry.edge.files import (
    BASELINES,
    INPUTS,
    MANIFEST,
    PROMPTS,
    REPORTS,
    VARIANTS,
    Repo,
    write_atomic,
    write_json,
)
from telemetry.edge.frozen import frozen
from telemetry.edge.git import GitRefused, git


@frozen
class Clearing:
    """What will go, and what the agents who stay lose by it."""

    agents: tuple[str, ...]
    paths: tuple[Path, ...]  # files and folders
    suites: tuple[Path, ...]
    manifest: str  # its text without them
    inputs: Mapping[Path, Any]  # for agents who stay and read what the domain brought
    notes: tuple[str, ...]


def planned(repo: Repo) -> Clearing | None:
    """What clearing the example would do, None if there is none; refused where git could not bring it back."""
    manifest = load_manifest(repo)
    domain = load_domain(manifest.domain)
    going = [spec for spec in manifest.agents if spec.name in domain.agents]
    staying = [spec for spec in manifest.agents if spec.name not in domain.agents]
    names = frozenset(spec.name for spec in going)
    shared = {path for spec in staying for path in _files(spec)}
    theirs = {path for spec in going for path in _files(spec)} - shared
    wanted = [*map(Path, domain.paths), *theirs, *_records(repo, names, theirs)]
    paths = tuple(sorted(path for path in wanted if (repo / path).exists()))
    if not paths and not going:
        return None
    _refuse_changes(repo)
    _refuse_users(repo, paths, staying)
    leaves = manifest.domain is not None and _goes(manifest.domain, paths)
    text = without((repo / MANIFEST).read_text("utf-8"), _drops(names, paths, leaves))
    suites = suite.Suites(repo, allow_unpinned=True)
    bereft = [spec for spec in staying if leaves and spec.inputs in domain.inputs]
    return Clearing(
        tuple(spec.name for spec in going),
        paths,
        tuple(Path(spec.eval_suite) for spec in going if Path(spec.eval_suite) in paths),
        text,
        {INPUTS / f"{spec.inputs}.json": suites.load(spec.eval_suite).cases[0].input for spec in bereft},
        tuple(_note(repo, spec, domain) for spec in bereft),
    )


def clear(repo: Repo, plan: Clearing) -> None:
    """Carry it out, the manifest first: it is never without a file that it names."""
    before = (repo / MANIFEST).read_text("utf-8")
    write_atomic(repo / MANIFEST, plan.manifest)
    try:
        load_manifest(repo)
    except BadInput:
        write_atomic(repo / MANIFEST, before)
        raise
    for path, payload in plan.inputs.items():
        if not (repo / path).exists():
            write_json(repo / path, payload)
    suite.unpin(repo, plan.suites)
    for path in plan.paths:
        file = repo / path
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)


def _files(spec: AgentSpec) -> Iterator[Path]:
    """Everything that is an agent's by its manifest entry or its name."""
    yield from (Path(path) for path in (spec.prompt, spec.output_schema, spec.eval_suite) if path)
    if spec.prompt:
        yield VARIANTS / Path(spec.prompt).stem
    yield from (BASELINES / f"{spec.name}.{which}.md" for which in ("naive", "best"))


def _records(repo: Repo, names: Collection[str], theirs: Collection[Path]) -> Iterator[Path]:
    """Decisions about these agents and their prompts, and the reports that speak of them."""
    prompts = [path for path in theirs if path.parent == PROMPTS]
    subjects = {*names, *(path.stem for path in prompts)}
    yield from (path for path, decision in decisions(repo) if decision.subject in subjects)
    marks = [f'"{mark}"' for mark in (*subjects, *prompts)]
    for file in sorted((repo / REPORTS).glob("*.json")):
        text = file.read_text("utf-8")
        if any(mark in text for mark in marks):
            yield from (REPORTS / file.name, REPORTS / f"{file.stem}.md")


def _drops(
    names: frozenset[str], paths: Collection[Path], domain_leaves: bool
) -> Callable[[tuple[str | int, ...], Any], bool]:
    def drop(where: tuple[str | int, ...], value: Any) -> bool:
        match where:
            case ("domain",):
                return domain_leaves
            case ("agents", _):
                return value["name"] in names
            case ("critique_pairs", _):
                return not names.isdisjoint(value)
            case ("retirement", "exempt", _) | ("prompts", _, _):
                return value in names
            case ("protected_paths", _):
                return _within(Path(str(value).split("*")[0]), paths)
        return False

    return drop


def _within(path: Path, folders: Collection[Path]) -> bool:
    return any(path == folder or folder in path.parents for folder in folders)


def _source(module: str) -> Path:
    """Where a module or package stands, without its suffix."""
    return Path(*module.split("."))


def _goes(module: str, paths: Collection[Path]) -> bool:
    return _within(_source(module), [path.with_suffix("") for path in paths])


def _refused(why: str) -> BadInput:
    return BadInput(f"--clear-example: {why}")


def _refuse_changes(repo: Repo) -> None:
    try:
        changed = git(repo.root, "status", "--porcelain").decode().splitlines()
    except (GitRefused, OSError) as problem:
        raise _refused(f"only in a git checkout, which can bring it back ({problem})") from None
    if changed:
        raise _refused(f"uncommitted changes ({changed[0][3:]}, ...); commit or stash them first")


def _refuse_users(repo: Repo, paths: Collection[Path], staying: Collection[AgentSpec]) -> None:
    """Stop at code that stays and imports what goes."""
    agent_of = {
        _source(code.partition(":")[0]): spec.name
        for spec in staying
        for code in (spec.eval_adapter, spec.module)
    }
    tracked = git(repo.root, "ls-files", "-z", "--", "*.py").decode().split("\0")
    for file in (Path(name) for name in tracked if name and not name.startswith("tests/")):
        stem = file.parent if file.name == "__init__.py" else file.with_suffix("")
        if _within(file, paths):
            if stem in agent_of:
                raise _refused(f"{agent_of[stem]} still needs the example: its code is {file}")
            continue
        for module in _imports((repo / file).read_bytes()):
            if _goes(module, paths):
                who = f"{agent_of[stem]} still needs the example" if stem in agent_of else "still needed"
                raise _refused(f"{who}: {file} imports {module}")


def _imports(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _note(repo: Repo, spec: AgentSpec, domain: Domain) -> str:
    """What an agent who stays has lost."""
    text = (repo / spec.prompt).read_text("utf-8") if spec.prompt else ""
    analyst = rules.read(text).values.get("analyst")
    lost = f"; the offline model no longer knows `analyst: {analyst}`" if analyst in domain.analysts else ""
    now = f"it now reads {(INPUTS / spec.inputs).as_posix()}.json, put your data there"
    return f"{spec.name} read `{spec.inputs}` of the example; {now}{lost}"
